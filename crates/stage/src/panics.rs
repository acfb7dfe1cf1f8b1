//! Panics that are handled where they occur: a defect costs one page, not the process.
//!
//! The panic hook of a process runs before a panic is caught, and cannot know whether it will be. The code that catches
//! therefore announces it, for the thread and the duration of the call.

use std::{
    any::Any,
    cell::Cell,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    task::Poll,
};

thread_local! {
    static CATCHING: Cell<u32> = const { Cell::new(0) };
}

/// Payload of a panic.
pub type Thrown = Box<dyn Any + Send>;

/// Installs the panic hook of the process, which logs panics, and calls `report` for one that is not caught by
/// [`catch`] or [`caught`]: it is a defect that ends the process.
pub fn listen(report: impl Fn() + Send + Sync + 'static) {
    set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default();
        let tp = info.location().map(ToString::to_string).unwrap_or_default();
        if are_caught() {
            tracing::error!(tp, message, "a panic; it was caught, and the process continues");
        } else {
            tracing::error!(tp, message, "a panic; the process ends");
            report();
        }
    }));
}

/// Returns `true` if a panic on this thread would now be caught by [`catch`] or [`caught`].
#[must_use]
pub fn are_caught() -> bool {
    CATCHING.get() > 0
}

/// Runs `work`, which must not leave inconsistent state behind when it panics.
///
/// # Errors
/// The payload, if it panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Thrown> {
    CATCHING.set(CATCHING.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(CATCHING.get() - 1);
    result
}

/// Catches the panics of `future`, which is not polled again after one.
pub fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, Thrown>> {
    let mut future = Box::pin(future);
    poll_fn(move |context| match catch(|| future.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(thrown) => Poll::Ready(Err(thrown)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_that_is_caught_is_known_as_such_and_only_while_it_is() {
        assert!(!are_caught());
        assert_eq!(catch(|| (are_caught(), catch(are_caught).unwrap(), are_caught())).unwrap(), (true, true, true));
        assert!(catch(|| -> u8 { std::panic::resume_unwind(Box::new("thrown")) }).is_err());
        assert!(!are_caught());
        let caught = caught(async {
            tokio::task::yield_now().await;
            assert!(are_caught());
            std::panic::resume_unwind(Box::new("thrown"))
        });
        let result: Result<(), Thrown> = caught.await;
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"thrown"));
        assert!(!are_caught());
    }
}
