//! The chaos gate: real processes on real servers crawl a web with a known truth, while a seeded schedule kills,
//! suspends, drains and adds instances of every service, exhausts their memory and disk, stops the servers, cuts the
//! network between them, and pauses one of three crawls.
//!
//! [`schedule`] derives faults from a seed; [`run`] applies them to a fleet while completion is polled; the [`Verdict`]
//! compares the web's request log, the topics and the exits of the processes with the promises.
//!
//! | module | contents |
//! |---|---|
//! | `crawls` | the crawls and the commands that control them |
//! | `fault`, `schedule` | faults and their times (pure) |
//! | `fleet` | the processes and servers, and the execution of faults |
//! | `kept` | expected stored data of a web (pure) |
//! | `stored` | content of the CQL server |
//! | `news` | web of the crawl with revisits |
//! | `revisits` | visits and changes of that crawl |
//! | `proxy` | the network between services and servers, which can be cut and slowed |
//! | `clock` | the wall clock of the instances, which can be set |
//! | `scarcity` | shortages of memory and of disk space |
//! | `usage` | memory, CPU time and disk space of a run |
//! | `watch` | continuous polling for completion |
//! | `verdict` | comparison of a run with the truth and the promises (pure) |
//! | `share` | share of the throughput that the intervals of the sites permit |
//! | `journal` | log of the events of a run |
//! | `commits` | number of failed commits |
//! | `run` | one run, from start to verdict |

mod clock;
mod commits;
mod crawls;
mod fault;
mod fleet;
mod journal;
mod kept;
mod news;
mod proxy;
mod revisits;
mod run;
mod scarcity;
mod schedule;
mod share;
mod stored;
mod usage;
mod verdict;
mod watch;

pub use fault::{Fault, Server, Slot};
pub use kept::{Contents, Keepsakes, Kept, Robots, keepsakes};
pub use revisits::Revisits;
pub use run::{SERVERS, Settings, run, web};
pub use schedule::{Extent, Faults, Step, schedule};
pub use share::{SiteTime, share_of, site_time};
pub use stored::{Rows, Stored};
pub use verdict::{Evidence, Exit, Rules, Verdict};
