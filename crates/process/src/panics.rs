//! Panic hook. A panic is a defect: it is logged and ends the process, unless the caller of the code catches it
//! ([`orbweaver_stage::panics`]).

use std::panic;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Installs a hook that logs panics; uncaught ones are also sent to the returned receiver.
pub(crate) fn listen() -> UnboundedReceiver<String> {
    let (to, from) = unbounded_channel();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied().map(str::to_owned);
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if orbweaver_stage::panics::are_caught() {
            tracing::error!(place, message, "a panic; it was caught, and the process continues");
        } else {
            tracing::error!(place, message, "a panic; the process ends");
            let _ = to.send(format!("{place}: {message}"));
        }
    }));
    from
}
