//! Input of the training (`train/train.py`).

use crate::features::features;
use crate::scan::scan;
use crate::sums::Sums;
use crate::surroundings::{Surroundings, WIDTH};

/// Blocks of a page, with numbers of each.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Text of each block.
    pub texts: Vec<String>,
    /// Numbers of all blocks, `width` per block.
    pub values: Vec<f32>,
    /// Number of numbers per block.
    pub width: usize,
}

impl Figures {
    /// Computes the input of the first forest.
    #[must_use]
    pub fn of(html: &str) -> Self {
        let outline = scan(html);
        let sums = Sums::of(&outline);
        let features = features(&sums);
        let texts = (0..sums.texts.len()).map(|at| outline.block_text(sums.block(at)).to_owned()).collect();
        Self { texts, values: features.values, width: features.width }
    }

    /// Computes the further input of the second forest, given the probability of each block.
    #[must_use]
    pub fn surroundings(html: &str, probabilities: &[f32]) -> Self {
        let outline = scan(html);
        let sums = Sums::of(&outline);
        let mut values = vec![];
        if sums.texts.len() == probabilities.len() {
            let surroundings = Surroundings::of(&sums, probabilities);
            (0..probabilities.len()).for_each(|at| surroundings.add_to(&mut values, at));
        }
        Self { texts: vec![], values, width: WIDTH }
    }
}
