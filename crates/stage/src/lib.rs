//! The runtime of a service: one rule, one loop.
//!
//! **An offset is complete when everything that its record caused is durable. What is committed is the lowest
//! incomplete offset, and nothing else is remembered.**

mod actions;
mod clock;
mod stage;

pub use actions::{Actions, Plan, Step, Token};
pub use clock::{Clock, ScriptedClock, SystemClock};
pub use stage::{Opening, Origin, Perform, PerformError, RestoreFrom, RestoreSpec, Stage, StageError, Worker};
