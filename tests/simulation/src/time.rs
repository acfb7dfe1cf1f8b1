//! Virtual time: tokio's paused clock, seen from clocks that are apart.

use orbweaver_messages::Millis;
use orbweaver_stage::Clock;
use tokio::time::Instant;

/// When every schedule begins, in milliseconds since the Unix epoch.
const BEGIN_MS: Millis = 1_900_000_000_000;

/// The true time of a schedule, which only the web and the judge see.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    begun: Instant,
}

impl Time {
    /// Time begins now.
    #[must_use]
    pub fn begin() -> Self {
        let begun = Instant::now();
        BEGUN.set(Some(begun));
        Self { begun }
    }

    /// The true time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(self) -> Millis {
        BEGIN_MS.saturating_add_unsigned(self.elapsed_ms())
    }

    /// How long the schedule has run, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A time of the schedule for the reader: seconds since its begin.
#[must_use]
pub fn shown(at: Millis) -> String {
    let since = at - BEGIN_MS;
    format!("{}.{:03} s", since / 1000, since % 1000)
}

/// The clock of one process, which is as far ahead or behind as that of its machine was when it began.
#[derive(Debug, Clone)]
pub struct MachineClock {
    time: Time,
    ahead_ms: Millis,
}

impl MachineClock {
    /// A clock that is `ahead_ms` milliseconds ahead of the true time.
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
    /// When the schedule of this thread began, for who writes its log.
    static BEGUN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

/// Writes the virtual time before each line of a schedule's log.
#[derive(Debug, Clone, Copy)]
pub struct VirtualTimer;

impl tracing_subscriber::fmt::time::FormatTime for VirtualTimer {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        let ms = BEGUN.get().map_or(0, |begun| begun.elapsed().as_millis());
        write!(writer, "{ms:>8}")
    }
}
