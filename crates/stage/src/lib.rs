//! The runtime of a service: one rule, one loop.
//!
//! **An offset is complete when everything that its record caused is durable. The lowest incomplete offset is
//! committed, and nothing else is remembered** (except by a stage whose own files contain its checkpoint:
//! [`StartFrom::Offset`]).
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
//! | `ledger`, `budget`, `open_partitions` | offsets, charges and assignment epochs of the open partitions (pure) |
//! | `assignment` | assigned → restoring → open → draining → released, or lost; shutdown (pure) |
//! | `commit_metadata`, `patience` | commit metadata, from which crashes are counted; stall detection (pure) |
//! | `runner`, `event_loop` | startup; the event loop, which carries the decisions of each of the following parts to the others |
//! | `own_thread` | the thread of a stage |
//! | `loop_context`, `loop_time` | constants of a loop; its time, ticks and suspensions |
//! | `polling` | polls and back-pressure |
//! | `restores`, `restore`, `opening`, `index_checkpoint`, `claim` | running restores; one restore; ledgers at its end; checkpoints; claims |
//! | `in_flight`, `plan_batch`, `jobs` | work in flight: plan batches, jobs |
//! | `commits`, `pending_commits` | timing of commits, start counts (pure); commits that wait or are being answered |
//! | `quarantine`, `quarantined`, `poison` | quarantine; one topic-partition in it; poison records among restored and tailed ones |
//! | `tail`, `tails` | tailed logs |
//! | `dead_letter`, `header_names` | dead letters and their header names |
//! | [`completion`] | completion of a crawl (docs/protocol.md#completion) |
//! | [`retention`] | deletion of complete records (docs/protocol.md#offsets) |
//! | [`metrics`], `metered`, `sample` | metrics; CPU time by service; periodically sampled values |
//! | [`panics`] | the panic hook; panics that are handled where they occur |
//! | `trials` | one quarantined record at a time per process, while all its stages are quiet (pure) |
//! | `fair_queue` | items of several owners, in proportion to shares and weights (pure) |
//! | `runner_status` | state of the loop and its open partitions, for the health checks of the process |

mod actions;
mod assignment;
mod budget;
mod byte_budget;
mod claim;
mod clock;
mod commit_metadata;
mod commits;
pub mod completion;
pub mod crawl_completion;
mod dead_letter;
mod event_loop;
mod fair_queue;
mod header_names;
mod in_flight;
mod index_checkpoint;
mod jobs;
mod ledger;
mod loop_context;
mod loop_time;
mod metered;
pub mod metrics;
mod no_work;
mod open_partitions;
mod opening;
mod own_thread;
pub mod panics;
mod patience;
mod pending_commits;
mod plan_batch;
mod poison;
mod polling;
mod quarantine;
mod quarantined;
mod restore;
mod restores;
pub mod retention;
mod runner;
mod runner_status;
mod sample;
mod stage;
mod tail;
mod tails;
mod trials;

#[cfg(test)]
mod schedules;

pub use actions::{Actions, Plan, Step, Token};
pub use budget::Limits;
pub use byte_budget::{ByteBudget, Reservation};
pub use claim::{CLAIM_HEADER, is_claim};
pub use clock::{Clock, Reading, ScriptedClock, SteadyTime, SystemClock};
pub use dead_letter::{DEAD_LETTER_CUT_HEADER, DEAD_LETTER_HEADER};
pub use fair_queue::FairQueue;
pub use index_checkpoint::IndexCheckpoint;
pub use metered::CpuMeter;
pub use no_work::{NoEffects, NoJobs};
pub use runner::{Runner, RunnerConfig};
pub use runner_status::RunnerStatus;
pub use stage::{
    Incomplete, Origin, PartitionContext, Perform, PerformError, RestoreFrom, RestoreSpec, Stage, StageError,
    StartFrom, Worker,
};
pub use trials::Trials;
