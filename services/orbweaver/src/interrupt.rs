//! Work on a blocking thread that a signal stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    block_on,
    exit::{Failure, failed},
};

/// Runs `work` on a blocking thread. Its flag is set at SIGINT or SIGTERM, so that it can remove its temporary files; a
/// second signal ends the command at once.
pub(crate) fn interruptible<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    block_on(1, Duration::ZERO, until_stopped(work))
}

async fn until_stopped<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let uncaught = |error| failed(format!("signal handlers cannot be installed: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(uncaught)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(uncaught)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let mut work = tokio::task::spawn_blocking(move || work(&stopped));
    loop {
        tokio::select! {
            result = &mut work => return result.map_err(failed)?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if stop.swap(true, Ordering::Relaxed) {
            return Err(Failure::Stopped("stopped at once; temporary files may remain".to_owned()));
        }
    }
}
