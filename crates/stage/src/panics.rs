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
        let at = info.location().map(ToString::to_string).unwrap_or_default();
        log(info.payload_as_str().unwrap_or_default(), &at);
        if !are_caught() {
            report();
        }
    }));
}

/// Logs a panic. No field is named `message`, which is the name of the text: a name occurs once in a line.
fn log(panic: &str, at: &str) {
    if are_caught() {
        tracing::error!(at, panic, "a panic; it was caught, and the process continues");
    } else {
        tracing::error!(at, panic, "a panic; the process ends");
    }
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
    use std::{
        fmt::Debug,
        sync::{Arc, Mutex},
    };

    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span,
    };

    use super::*;

    /// Records names and values of the fields of events.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<(String, String)>>>);

    impl Visit for Recorder {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.lock().unwrap().push((field.name().to_owned(), format!("{value:?}")));
        }
    }

    impl Subscriber for Recorder {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_panic_is_logged_with_its_text_its_location_and_no_name_twice() {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), || {
            log("thrown", "file.rs:1:2");
            let _ = catch(|| log("thrown", "file.rs:1:2"));
        });
        let text = |end: &str| ("message".to_owned(), format!("a panic; {end}"));
        let field = |name: &str, value: &str| (name.to_owned(), format!("{value:?}"));
        let event = |end| {
            let mut event = vec![text(end), field("at", "file.rs:1:2"), field("panic", "thrown")];
            event.sort();
            event
        };
        let mut logged = recorder.0.lock().unwrap().clone();
        assert_eq!(logged.len(), 6, "{logged:?}");
        logged[..3].sort();
        logged[3..].sort();
        assert_eq!(logged[..3], event("the process ends"));
        assert_eq!(logged[3..], event("it was caught, and the process continues"));
    }

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
