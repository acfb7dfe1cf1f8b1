//! The runtime of a service: one rule, one loop.
//!
//! **An offset is complete when everything that its record caused is durable. What is committed is the lowest
//! incomplete offset, and nothing else is remembered.**
//!
//! A [`Stage`] decides, and a [`Runner`] makes a consumer of it on any [`orbweaver_log::Log`]:
//!
//! 1. It joins the group of the service. A partition that it holds of all topics (rule 5) is *opened*: a claim is appended
//!    to each log that the stage writes as owner (rule 3), the logs that it restores from are replayed to the end that is
//!    found then, and reading goes on from there, or from the commit point.
//! 2. Records go to the stage, which answers with [`Actions`]: plans, jobs, completions, rejects. The steps of a plan are
//!    carried out one after the other, each durable before the next; all plans of a turn share their writes.
//! 3. When a plan's last step is durable its origins complete; a rejected record completes when its dead letter is
//!    acknowledged. A ledger a partition computes the commit point, and that is what is committed.
//! 4. A full budget pauses reading, a stage that stands still is ended, a partition that is wanted back is drained,
//!    committed and handed back, in this order, and what completes after that completes nothing.
//!
//! So a process may be killed at any instruction: its successor starts at the commit point, work in flight is done again,
//! and none is lost.
//!
//! | module | contents |
//! |---|---|
//! | `stage`, `actions`, `clock`, `no_work` | what a service implements and says |
//! | `byte_budget` | memory for the work outside the loop, by bytes |
//! | `ledger`, `budget`, `served` | offsets, charges and epochs of the partitions that are served (pure) |
//! | `assignment` | assigned → restoring → open → draining → handed back, or lost (pure) |
//! | `metadata`, `watchdog` | what travels with a commit and who killed its reader; who stands still (pure) |
//! | `runner`, `turn` | how it starts; the loop |
//! | `rebalance`, `commits`, `alone`, `pressure` | the loop's parts: partitions come and go; commits; one record at a time; pausing |
//! | `restore`, `position`, `follow`, `tails`, `claim` | replays, from where an index provably stands; followed logs; topics that are read whole; claims |
//! | `flight`, `dead_letter`, `header_names` | plans on their way; records that cannot be processed |
//! | [`completion`] | when a crawl is complete (rule 25) |
//! | [`retention`] | what may be deleted (rule 6) |
//! | [`metrics`], `metered`, `sample` | what is counted; CPU time by service; what is read once in a while |
//! | [`panics`] | panics that are dealt with where they happen |
//! | `trials` | one record alone in work per process |
//! | `pulse` | whether the loop turns and what it serves, for the process around it |

mod actions;
mod alone;
mod assignment;
mod budget;
mod byte_budget;
mod claim;
mod clock;
mod commits;
pub mod completion;
mod dead_letter;
mod flight;
mod follow;
mod header_names;
mod ledger;
mod metadata;
mod metered;
pub mod metrics;
mod no_work;
pub mod panics;
mod position;
mod pressure;
mod pulse;
mod rebalance;
mod restore;
pub mod retention;
mod runner;
mod sample;
mod served;
mod stage;
mod tails;
mod trials;
mod turn;
mod watchdog;

#[cfg(test)]
mod schedules;

pub use actions::{Actions, Plan, Step, Token};
pub use budget::Limits;
pub use byte_budget::{ByteBudget, Reservation};
pub use claim::{CLAIM_HEADER, is_claim};
pub use clock::{Clock, Reading, ScriptedClock, SteadyTime, SystemClock};
pub use dead_letter::{DEAD_LETTER_CUT_HEADER, DEAD_LETTER_HEADER};
pub use metered::{CpuMeter, Metered};
pub use no_work::{NoEffects, NoJobs};
pub use position::Position;
pub use pulse::Pulse;
pub use runner::{Runner, RunnerConfig};
pub use stage::{Opening, Origin, Perform, PerformError, RestoreFrom, RestoreSpec, Stage, StageError, Worker};
pub use trials::Trials;
