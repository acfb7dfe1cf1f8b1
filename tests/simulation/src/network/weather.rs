//! Latency.

use std::time::Duration;

use crate::random::Random;

/// Distribution of message latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Mostly none, otherwise up to 9 ms.
    Fair,
    /// Mostly up to 9 ms; one in ten 10 to 300 ms; one in 200 up to 4 s.
    Rough,
}

impl Weather {
    /// Draws the latency of the next message.
    pub(crate) fn delay(self, random: &mut Random) -> Duration {
        let roll = random.below(1000);
        let ms = match (self, roll) {
            (Self::Fair, 0..700) | (Self::Rough, 0..500) => 0,
            (Self::Fair, _) | (Self::Rough, 500..900) => random.between(1, 9),
            (Self::Rough, 900..995) => random.between(10, 300),
            (Self::Rough, _) => random.between(300, 4_000),
        };
        Duration::from_millis(ms)
    }
}
