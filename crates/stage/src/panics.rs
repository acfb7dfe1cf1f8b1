//! Panics that are handled where they occur: a defect costs one page, not the process.
//!
//! The panic hook of a process runs before a panic is caught, and cannot know whether it will be. The code that catches
//! therefore announces it, for the thread and the duration of the call.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

thread_local! {
    static CATCHING: Cell<u32> = const { Cell::new(0) };
}

/// Payload of a panic.
pub type Thrown = Box<dyn Any + Send>;

/// Installs the panic hook of the process, which logs panics, and calls `report` for one that is not caught by
/// [`catch`] or [`Caught`]: it is a defect that ends the process.
pub fn listen(report: impl Fn() + Send + Sync + 'static) {
    set_hook(Box::new(move |info| {
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied().map(str::to_owned);
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let tp = info.location().map(ToString::to_string).unwrap_or_default();
        if are_caught() {
            tracing::error!(tp, message, "a panic; it was caught, and the process continues");
        } else {
            tracing::error!(tp, message, "a panic; the process ends");
            report();
        }
    }));
}

/// Returns `true` if a panic on this thread would now be caught by [`catch`] or [`Caught`].
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

pin_project! {
    /// A future whose panics are caught; it must not be polled again after one.
    #[derive(Debug)]
    pub struct Caught<F> {
        #[pin]
        future: F,
    }
}

impl<F> Caught<F> {
    /// Catches the panics of `future`.
    pub fn new(future: F) -> Self {
        Self { future }
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Thrown>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match catch(|| future.poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(thrown) => Poll::Ready(Err(thrown)),
        }
    }
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
        let caught = Caught::new(async {
            tokio::task::yield_now().await;
            assert!(are_caught());
            std::panic::resume_unwind(Box::new("thrown"))
        });
        let result: Result<(), Thrown> = caught.await;
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"thrown"));
        assert!(!are_caught());
    }
}
