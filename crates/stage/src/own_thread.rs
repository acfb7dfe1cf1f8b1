//! A thread with a runtime of its own: work on it may read and write disks without delaying other tasks.

use std::thread;

use tokio::{runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

/// Runs a future on a thread named `name`, on a current-thread runtime. The future is dropped with the returned one.
///
/// # Errors
/// If the thread cannot start, or panicked.
pub(crate) async fn run_on_own_thread<F>(name: &str, future: F) -> Result<F::Output, String>
where
    F: Future<Output: Send> + Send + 'static,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the runtime of its thread cannot be started: {error}"))?;
    let (dropped, (to, result)) = (CancellationToken::new(), oneshot::channel());
    let _on_drop = dropped.clone().drop_guard();
    let body = move || {
        if let Some(output) = runtime.block_on(dropped.run_until_cancelled_owned(future)) {
            // A receiver that is gone does not need the result.
            let _ = to.send(output);
        }
        // Blocking work that has begun, such as leaving a group, continues without the thread.
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| format!("its thread cannot be started: {error}"))?;
    result.await.map_err(|_gone| "its thread panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_thread_that_blocks_delays_no_other_task() {
        let (release, blocked) = mpsc::channel();
        let own = run_on_own_thread("blocks", async move {
            blocked.recv().unwrap();
            thread::current().name().map(str::to_owned)
        });
        let other = async move { release.send(()).unwrap() };
        let (name, ()) = tokio::join!(own, other);
        assert_eq!(name.unwrap().as_deref(), Some("blocks"));
    }

    #[tokio::test]
    async fn a_dropped_future_ends_its_thread() {
        let (ended, end) = oneshot::channel::<()>();
        let own = run_on_own_thread("waits", async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        tokio::select! {
            biased;
            _ = own => unreachable!("it waits indefinitely"),
            () = tokio::task::yield_now() => {}
        }
        assert!(end.await.is_err());
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let own = run_on_own_thread("panics", async { panic!("on purpose") });
        let result: Result<(), String> = own.await;
        assert_eq!(result.unwrap_err(), "its thread panicked");
    }
}
