//! Virtual time: tokio's paused clock, and machine clocks that deviate from it.

use orbweaver_messages::Millis;
use orbweaver_stage::Clock;
use tokio::time::Instant;

/// Start of every schedule, in milliseconds since the Unix epoch.
const BEGIN_MS: Millis = 1_900_000_000_000;

/// The true time of a schedule, visible only to the web and the judge.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    begun: Instant,
}

impl Time {
    /// Starts the time of a schedule now.
    #[must_use]
    pub fn begin() -> Self {
        let begun = Instant::now();
        BEGUN.set(Some(begun));
        Self { begun }
    }

    /// Returns the true time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(self) -> Millis {
        BEGIN_MS.saturating_add_unsigned(self.elapsed_ms())
    }

    /// Returns the duration of the schedule so far, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Formats a time as seconds since the start of the schedule.
#[must_use]
pub fn shown(at: Millis) -> String {
    let since = at - BEGIN_MS;
    format!("{}.{:03} s", since / 1000, since % 1000)
}

/// Clock of one process; its deviation is that of its machine's clock when the process started.
#[derive(Debug, Clone)]
pub struct MachineClock {
    time: Time,
    ahead_ms: Millis,
}

impl MachineClock {
    /// Creates a clock that is `ahead_ms` milliseconds ahead of the true time.
    #[must_use]
    pub fn new(time: Time, ahead_ms: Millis) -> Self {
        Self { time, ahead_ms }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Millis {
        self.time.now() + self.ahead_ms
    }
}

thread_local! {
    /// Start of this thread's schedule, for the formatter of its log.
    static BEGUN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

/// Formatter that prefixes each line of a schedule's log with the virtual time.
#[derive(Debug, Clone, Copy)]
pub struct VirtualTimer;

impl tracing_subscriber::fmt::time::FormatTime for VirtualTimer {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        let ms = BEGUN.get().map_or(0, |begun| begun.elapsed().as_millis());
        write!(writer, "{ms:>8}")
    }
}
