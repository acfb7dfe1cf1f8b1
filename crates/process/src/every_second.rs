//! Action that a process repeats alongside its stage.

use std::{convert::Infallible, time::Duration};

use orbweaver_log::{Log, LogError};
use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use tokio::time::{MissedTickBehavior, interval};

/// Action of a process, once per second.
pub trait EverySecond: Send {
    /// Subject of the action, for the log.
    const PURPOSE: &'static str;

    /// Acts once.
    ///
    /// # Errors
    /// Fails if the log fails; the action is repeated after a second.
    fn act(&mut self, log: &dyn Log, now: Millis) -> impl Future<Output = Result<(), LogError>> + Send;
}

pub(crate) async fn repeat<A: EverySecond>(log: &dyn Log, action: &mut A) -> Infallible {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        match action.act(log, SystemClock.now()).await {
            Ok(()) => is_failing = false,
            // Logged once: while a broker is failing, every action fails.
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::warn!(%error, "{} failed; retrying every second", A::PURPOSE);
            }
            Err(_) => {}
        }
    }
}
