//! The clock, an effect: deciding code gets `now` as a value.
//!
//! A process reads the machine's wall clock once, when it begins, and goes on from there by a clock that never steps and
//! counts suspension. So a wall clock that is set, by an hour or back and forth, changes no interval, no lease and no block
//! of a running process, and a machine that was suspended is found to have been. [`Clock::step_ms`] tells by how much the
//! wall clock was set since; a process that shares times with others is started again to follow it.

use std::sync::{
    OnceLock,
    atomic::{AtomicI64, Ordering},
};

use orbweaver_messages::Millis;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. Never steps, and counts the time in which the machine was suspended.
    fn now(&self) -> Millis;

    /// By how many milliseconds the machine's wall clock was set since this clock began; negative when it was set back.
    fn step_ms(&self) -> Millis {
        0
    }
}

/// Both clocks of a machine, read together, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Since the Unix epoch. May be set at any moment.
    pub wall_ms: Millis,
    /// Since some moment, usually the machine's start. Is never set, and goes on while the machine is suspended.
    pub boot_ms: Millis,
}

/// A time that begins with the wall clock and is not moved when that is set. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyTime {
    begun: Reading,
}

impl SteadyTime {
    /// Begins.
    #[must_use]
    pub const fn beginning_at(begun: Reading) -> Self {
        Self { begun }
    }

    /// The time of a reading, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(&self, reading: Reading) -> Millis {
        self.begun.wall_ms.saturating_add(reading.boot_ms.saturating_sub(self.begun.boot_ms))
    }

    /// By how much the wall clock was set since the begin.
    #[must_use]
    pub fn step_ms(&self, reading: Reading) -> Millis {
        reading.wall_ms.saturating_sub(self.at(reading))
    }
}

/// The machine's clocks. All values of this type in a process tell the same time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

static BEGUN: OnceLock<SteadyTime> = OnceLock::new();

impl SystemClock {
    fn read() -> (SteadyTime, Reading) {
        let reading = read();
        (*BEGUN.get_or_init(|| SteadyTime::beginning_at(reading)), reading)
    }
}

/// Reads the machine's clocks.
#[allow(clippy::disallowed_methods, reason = "this is the edge where the clock is read")]
fn read() -> Reading {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let boot = rustix::time::clock_gettime(COUNTS_SUSPENSION);
    Reading {
        wall_ms: Millis::try_from(wall.as_millis()).unwrap_or(Millis::MAX),
        boot_ms: boot.tv_sec.saturating_mul(1000).saturating_add(boot.tv_nsec / 1_000_000),
    }
}

/// `CLOCK_MONOTONIC`, which `std::time::Instant` reads on Linux, stands still while the machine is suspended.
#[cfg(target_os = "linux")]
const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let (time, reading) = Self::read();
        time.at(reading)
    }

    fn step_ms(&self) -> Millis {
        let (time, reading) = Self::read();
        time.step_ms(reading)
    }
}

/// A clock that stands where it was set.
#[derive(Debug, Default)]
pub struct ScriptedClock {
    begun_ms: Millis,
    passed_ms: AtomicI64,
    step_ms: AtomicI64,
}

impl ScriptedClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self { begun_ms: now, ..Self::default() }
    }

    /// Lets `by` milliseconds pass, in which the machine may be suspended; negative: as a clock that is set back.
    pub fn advance(&self, by: Millis) {
        self.passed_ms.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets the wall clock by `by` milliseconds, back too, in no time.
    pub fn step(&self, by: Millis) {
        self.step_ms.fetch_add(by, Ordering::SeqCst);
    }

    fn read(&self) -> (SteadyTime, Reading) {
        let begun = Reading { wall_ms: self.begun_ms, boot_ms: 0 };
        let boot_ms = self.passed_ms.load(Ordering::SeqCst);
        let wall_ms = self.begun_ms + boot_ms + self.step_ms.load(Ordering::SeqCst);
        (SteadyTime::beginning_at(begun), Reading { wall_ms, boot_ms })
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Millis {
        let (time, reading) = self.read();
        time.at(reading)
    }

    fn step_ms(&self) -> Millis {
        let (time, reading) = self.read();
        time.step_ms(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: Millis = 3_600_000;

    #[test]
    fn a_wall_clock_that_is_set_by_an_hour_and_back_moves_no_time_and_is_known() {
        let clock = ScriptedClock::at(1_000_000);
        clock.advance(500);
        for by in [HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS] {
            clock.step(by);
            assert_eq!(clock.now(), 1_000_500);
        }
        clock.step(-HOUR_MS);
        clock.advance(500);
        assert_eq!((clock.now(), clock.step_ms()), (1_001_000, -HOUR_MS));
    }

    #[test]
    fn a_suspension_is_counted_and_is_no_step() {
        let begun = Reading { wall_ms: 1_000_000, boot_ms: 70 };
        let time = SteadyTime::beginning_at(begun);
        // Both clocks went on while nothing ran.
        let woken = Reading { wall_ms: 1_000_000 + HOUR_MS, boot_ms: 70 + HOUR_MS };
        assert_eq!((time.at(woken), time.step_ms(woken)), (1_000_000 + HOUR_MS, 0));
        // A virtual machine that was stopped from outside: its clocks stood still, and the wall clock was set then.
        let stopped = Reading { wall_ms: 1_000_000 + HOUR_MS, boot_ms: 71 };
        assert_eq!((time.at(stopped), time.step_ms(stopped)), (1_000_001, HOUR_MS - 1));
    }

    #[test]
    fn the_systems_clock_begins_at_the_wall_clock_and_goes_on() {
        let before = SystemClock.now();
        assert!((SystemClock.now() - before) >= 0);
        assert!((read().wall_ms - before - SystemClock.step_ms()).abs() < 60_000);
    }
}
