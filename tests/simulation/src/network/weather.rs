//! How long things take.

use std::time::Duration;

use crate::random::Random;

/// How long messages take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Some milliseconds, mostly none.
    Fair,
    /// Now and then a tenth of a second, rarely seconds.
    Rough,
}

impl Weather {
    /// How long the next message takes.
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
