//! The clock, an effect: deciding code receives `now` as a value.
//!
//! A process reads the machine's wall clock once, at its start, and continues from there with a clock that never steps
//! and counts suspension. Setting the wall clock, by an hour or back and forth, therefore changes no interval, lease or
//! block of a running process, and the suspension of a machine is detected. [`Clock::step_ms`] returns how far the wall
//! clock was set since; a process that shares times with others is restarted to follow it.

use std::sync::{
    OnceLock,
    atomic::{AtomicI64, Ordering},
};

use orbweaver_messages::Millis;

/// Source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Returns milliseconds since the Unix epoch. Never steps, and counts the time during which the machine was
    /// suspended.
    fn now(&self) -> Millis;

    /// Returns by how many milliseconds the machine's wall clock was set since this clock started; negative if it was
    /// set back.
    fn step_ms(&self) -> Millis {
        0
    }
}

/// Values of both clocks of a machine, read together, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds since the Unix epoch. May be set at any time.
    pub wall_ms: Millis,
    /// Milliseconds since an arbitrary point, usually the machine's start. Never set, and continues while the machine
    /// is suspended.
    pub boot_ms: Millis,
}

/// Time that starts at the wall clock and does not move when that is set. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyTime {
    begun: Reading,
}

impl SteadyTime {
    /// Creates a time that starts at `begun`.
    #[must_use]
    pub const fn beginning_at(begun: Reading) -> Self {
        Self { begun }
    }

    /// Returns the time of a reading, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(&self, reading: Reading) -> Millis {
        self.begun.wall_ms.saturating_add(reading.boot_ms.saturating_sub(self.begun.boot_ms))
    }

    /// Returns by how many milliseconds the wall clock was set since the start.
    #[must_use]
    pub fn step_ms(&self, reading: Reading) -> Millis {
        reading.wall_ms.saturating_sub(self.at(reading))
    }
}

/// The machine's clocks. All values of this type in a process return the same time.
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

/// `CLOCK_MONOTONIC`, which `std::time::Instant` reads on Linux, stops while the machine is suspended.
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

/// A clock that moves only when it is advanced or set.
#[derive(Debug, Default)]
pub struct ScriptedClock {
    begun_ms: Millis,
    passed_ms: AtomicI64,
    step_ms: AtomicI64,
}

impl ScriptedClock {
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self { begun_ms: now, ..Self::default() }
    }

    /// Advances the time by `by` milliseconds, during which the machine may be suspended; a negative value sets it
    /// back.
    pub fn advance(&self, by: Millis) {
        self.passed_ms.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets the wall clock by `by` milliseconds, forward or back, without time passing.
    pub fn step(&self, by: Millis) {
        self.step_ms.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Millis {
        self.begun_ms + self.passed_ms.load(Ordering::SeqCst)
    }

    fn step_ms(&self) -> Millis {
        self.step_ms.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: Millis = 3_600_000;

    #[test]
    fn the_wall_clock_moves_no_time_and_its_steps_are_known_and_a_suspension_is_counted_and_is_no_step() {
        let time = SteadyTime::beginning_at(Reading { wall_ms: 1_000_000, boot_ms: 70 });
        let passed = |wall_ms, boot_ms| {
            let reading = Reading { wall_ms: 1_000_000 + wall_ms, boot_ms: 70 + boot_ms };
            (time.at(reading) - 1_000_000, time.step_ms(reading))
        };
        // Set by an hour and back, while half a second passed.
        assert_eq!([HOUR_MS, 0, -HOUR_MS].map(|by| passed(500 + by, 500)), [HOUR_MS, 0, -HOUR_MS].map(|by| (500, by)));
        // Both clocks continued while nothing ran.
        assert_eq!(passed(HOUR_MS, HOUR_MS), (HOUR_MS, 0));
        // A virtual machine that was stopped from outside: its clocks stopped, and the wall clock was set afterwards.
        assert_eq!(passed(HOUR_MS, 1), (1, HOUR_MS - 1));
    }

    #[test]
    fn the_systems_clock_begins_at_the_wall_clock_and_goes_on() {
        let before = SystemClock.now();
        assert!((SystemClock.now() - before) >= 0);
        assert!((read().wall_ms - before - SystemClock.step_ms()).abs() < 60_000);
    }
}
