//! Choice of the blocks that are main text.

use std::sync::LazyLock;

use crate::features::features;
use crate::forest::Forest;
use crate::sums::Sums;
use crate::surroundings::{Surroundings, WIDTH};

/// Forest that judges each block by its own numbers.
static FIRST: LazyLock<Option<Forest>> = LazyLock::new(|| Forest::read(include_bytes!("first.bin")));
/// Forest that knows the first one's judgement of the surroundings too.
static SECOND: LazyLock<Option<Forest>> = LazyLock::new(|| Forest::read(include_bytes!("second.bin")));

/// Probability from which a block is chosen. The best one for F1 is below one half.
const THRESHOLD: f32 = 0.4;
/// Number of chosen words below which the whole page is taken instead, if it has more than [`MANY`] times as many.
const FEW_WORDS: u32 = 12;
const MANY: u32 = 4;

/// Returns for each block with text whether it is main text.
pub(crate) fn choose(sums: &Sums<'_>) -> Vec<bool> {
    let chosen: Vec<bool> = probabilities(sums).iter().map(|probability| *probability >= THRESHOLD).collect();
    let words = |is: &dyn Fn(usize) -> bool| -> u32 {
        (0..chosen.len()).filter(|at| is(*at)).map(|at| sums.counts[at].words).sum()
    };
    let (own, all) = (words(&|at| chosen[at]), words(&|_| true));
    if own < FEW_WORDS && own * MANY < all { vec![true; chosen.len()] } else { chosen }
}

fn probabilities(sums: &Sums<'_>) -> Vec<f32> {
    let (Some(first), Some(second)) = (FIRST.as_ref(), SECOND.as_ref()) else { return vec![1.0; sums.texts.len()] };
    let features = features(sums);
    let mut room = vec![];
    let judged: Vec<f32> = features.rows().map(|row| first.probability(row, &mut room)).collect();
    let surroundings = Surroundings::of(sums, &judged);
    let mut row = Vec::with_capacity(features.width + WIDTH);
    features
        .rows()
        .enumerate()
        .map(|(at, own)| {
            row.clear();
            row.extend_from_slice(own);
            surroundings.add_to(&mut row, at);
            second.probability(&row, &mut room)
        })
        .collect()
}

#[cfg(test)]
pub(crate) fn models_are_read() -> bool {
    FIRST.is_some() && SECOND.is_some()
}
