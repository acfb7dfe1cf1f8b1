//! The runtime of a service: one rule, one loop.
//!
//! **An offset is complete when everything that its record caused is durable. The lowest incomplete offset is
//! committed, and nothing else is remembered.**
//!
//! A [`Stage`] makes the decisions; a [`Runner`] runs it as a consumer on any [`orbweaver_log::Log`]:
//!
//! 1. The runner joins the service's group. Once it holds a partition of all topics (docs/protocol.md#co-assignment),
//!    it *opens* the partition: it appends a claim to each log that the stage writes as owner
//!    (docs/protocol.md#claims), replays the restored logs up to the log ends found at that time, and continues reading
//!    there, or at the commit point.
//! 2. Records are passed to the stage, which responds with [`Actions`]: plans, jobs, completions, rejects. The steps of
//!    a plan are executed in order, each durable before the next starts; all plans of one loop iteration share their
//!    writes.
//! 3. When a plan's last step is durable, its origins complete; a rejected record completes when its dead letter is
//!    acknowledged. One ledger per topic-partition computes the commit point, which is then committed.
//! 4. A full budget pauses reading, and a stalled stage is ended. A revoked partition is drained, committed and
//!    released, in this order; later completions for it have no effect.
//!
//! A process may therefore be killed at any instruction: its successor starts at the commit point and repeats the work
//! in flight; none is lost.
//!
//! | module | contents |
//! |---|---|
//! | `stage`, `actions`, `clock`, `no_work` | traits and types for implementing a service |
//! | `byte_budget` | byte budget for work outside the loop |
//! | `ledger`, `budget`, `served` | offsets, charges and assignment epochs of the open partitions (pure) |
//! | `assignment` | assigned → restoring → open → draining → released, or lost (pure) |
//! | `metadata`, `watchdog` | metadata stored with a commit, from which crashes are counted; stall detection (pure) |
//! | `runner`, `turn` | startup; the event loop |
//! | `rebalance`, `commits`, `alone`, `pressure` | parts of the loop: rebalancing; commits; quarantine; back-pressure |
//! | `restore`, `position`, `follow`, `tails`, `claim` | restores and checkpoints; tailed logs; claims |
//! | `flight`, `dead_letter`, `header_names` | plan batches; dead letters and their header names |
//! | [`completion`] | completion of a crawl (docs/protocol.md#completion) |
//! | [`retention`] | deletion of complete records (docs/protocol.md#offsets) |
//! | [`metrics`], `metered`, `sample` | metrics; CPU time by service; periodically sampled values |
//! | [`panics`] | the panic hook; panics that are handled where they occur |
//! | `trials` | one quarantined record at a time per process, while all its stages are quiet (pure) |
//! | `pulse` | state of the loop and its open partitions, for the health checks of the process |

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
mod patience;
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
