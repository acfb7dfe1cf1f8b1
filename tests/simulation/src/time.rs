//! Virtual time: tokio's paused clock, and machine clocks that deviate from it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use orbweaver_messages::Millis;
use orbweaver_stage::{Clock, Reading, SteadyTime};
use tokio::time::Instant;

use crate::broken::{Broken, Rule};

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

/// Clock of one process: it starts at the wall clock of its machine, which may be set while the process runs. Clones
/// share the wall clock.
#[derive(Debug, Clone)]
pub struct MachineClock {
    time: Time,
    /// Lead of the wall clock over the true time, in milliseconds.
    ahead_ms: Arc<AtomicI64>,
    steady: SteadyTime,
    /// `Rule::SteadyClock` is disabled: the process reads the wall clock each time.
    reads_wall_clock: bool,
}

impl MachineClock {
    /// Creates a clock on a wall clock that is `ahead_ms` milliseconds ahead of the true time.
    #[must_use]
    pub fn new(time: Time, ahead_ms: Millis) -> Self {
        let steady = SteadyTime::beginning_at(reading(time, ahead_ms));
        Self { time, ahead_ms: Arc::new(AtomicI64::new(ahead_ms)), steady, reads_wall_clock: false }
    }

    /// Returns this clock with the rules of `broken` disabled.
    #[must_use]
    pub fn without(self, broken: &Broken) -> Self {
        Self { reads_wall_clock: broken.is_off(Rule::SteadyClock), ..self }
    }

    /// Sets the wall clock by this many milliseconds.
    pub(crate) fn set(&self, by_ms: Millis) {
        self.ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    fn reading(&self) -> Reading {
        reading(self.time, self.ahead_ms.load(Ordering::Relaxed))
    }
}

/// Returns the values of the clocks of a machine whose wall clock is `ahead_ms` milliseconds ahead of the true time.
fn reading(time: Time, ahead_ms: Millis) -> Reading {
    Reading { wall_ms: time.now() + ahead_ms, boot_ms: time.now() }
}

impl Clock for MachineClock {
    fn now(&self) -> Millis {
        let reading = self.reading();
        if self.reads_wall_clock { reading.wall_ms } else { self.steady.at(reading) }
    }

    fn step_ms(&self) -> Millis {
        self.steady.step_ms(self.reading())
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
