//! Deleting what is worked off, in a cluster.

use std::{convert::Infallible, sync::Arc, time::Duration};

use orbweaver_log::Log;
use orbweaver_stage::{
    Clock as _, Pulse, SystemClock,
    retention::{Expiring, Retention},
};
use tokio::time::{MissedTickBehavior, interval};

/// Deletes, every so often, what all services have worked off in the partitions that are served here. So the instances of one
/// service share the work as they share its partitions, and a partition that nobody serves is swept when somebody does.
pub(crate) async fn sweep(log: Arc<dyn Log>, pulse: Arc<Pulse>, every: Duration) -> Infallible {
    let mut retention = Retention::new(log, Expiring::in_a_cluster());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        match retention.sweep_of(&pulse.open(), SystemClock.now()).await {
            Ok(partitions) if failing || partitions > 0 => {
                failing = false;
                tracing::debug!(partitions, "deleted what is worked off");
            }
            Ok(_) => {}
            Err(error) => {
                // Said once: while the log is away it fails each time.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "what is worked off cannot be deleted; tried again");
                }
            }
        }
    }
}
