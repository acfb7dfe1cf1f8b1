//! The chaos gate: real processes on real servers crawl a web with a known truth, while a seeded schedule kills, freezes, drains
//! and adds instances of every service, takes memory and disk from them, takes the servers away, and cuts the network between.
//!
//! [`schedule`] turns a seed into faults; [`run`] lets them happen to a fleet while completion is read all the time; the
//! [`Verdict`] compares what the web's own log, the topics and the ends of the processes say with what was promised.
//!
//! | module | contents |
//! |---|---|
//! | `schedule` | what goes wrong, and when (pure) |
//! | `fleet` | the processes, and what is done to them and to the servers |
//! | `kept` | what has to be kept of a web (pure) |
//! | `stored` | what the CQL server has |
//! | `proxy` | the network between services and servers, which can be cut and slowed |
//! | `clock` | the wall clock of the instances, which can be set |
//! | `scarcity` | shortages of memory and of disk space |
//! | `usage` | the memory, the CPU time and the disk space that a run takes |
//! | `watch` | completion, read all the time |
//! | `verdict` | a run against what is true and what was promised (pure) |
//! | `journal` | what happened, line by line |
//! | `commits` | how many of them failed |
//! | `run` | one run from start to verdict |

mod clock;
mod commits;
mod fleet;
mod journal;
mod kept;
mod proxy;
mod run;
mod scarcity;
mod schedule;
mod stored;
mod usage;
mod verdict;
mod watch;

pub use kept::{Contents, Keepsakes, Kept, Robots, keepsakes};
pub use run::{SERVERS, Settings, run};
pub use schedule::{Extent, Fault, Server, Slot, Step, schedule};
pub use stored::{Rows, Stored};
pub use verdict::{Evidence, Exit, Rules, Verdict};
