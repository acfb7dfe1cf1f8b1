//! Numbers of a block's surroundings, given what the first forest makes of each block: further input of the second.

use std::collections::HashMap;

use crate::outline::ROOT;
use crate::sums::Sums;

/// Number of values that a row gets.
pub(crate) const WIDTH: usize = 36;

/// A mean of probabilities, weighted by words.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f32,
    weight: f32,
}

impl Mean {
    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.weight += other.weight;
    }

    /// Returns the mean without one of its parts, or -1 if that is all.
    fn without(self, part: Self) -> f32 {
        let weight = self.weight - part.weight;
        if weight < 0.5 { -1.0 } else { (self.sum - part.sum) / weight }
    }
}

/// Probabilities of the blocks of a page, and means of them.
pub(crate) struct Surroundings<'a> {
    sums: &'a Sums<'a>,
    probabilities: &'a [f32],
    elements: Vec<Mean>,
    near: HashMap<u32, Mean>,
    far: HashMap<u32, Mean>,
    /// Sums over the blocks before each block.
    before: Vec<Mean>,
    /// Number of the chosen block before or at each block, and after or at it.
    last: Vec<f32>,
    next: Vec<f32>,
    highest: f32,
}

impl<'a> Surroundings<'a> {
    /// `probabilities`: one per block with text.
    pub(crate) fn of(sums: &'a Sums<'a>, probabilities: &'a [f32]) -> Self {
        let elements = vec![Mean::default(); sums.outline.elements.len()];
        let length = probabilities.len();
        let mut found = Self {
            sums,
            probabilities,
            elements,
            near: HashMap::new(),
            far: HashMap::new(),
            before: vec![Mean::default()],
            last: vec![-1.0; length],
            next: vec![-1.0; length],
            highest: probabilities.iter().copied().fold(0.0, f32::max),
        };
        let mut total = Mean::default();
        for at in 0..length {
            let own = found.own(at);
            let element = sums.block(at).element;
            total.add(own);
            found.before.push(total);
            found.elements[element as usize].add(own);
            found.near.entry(sums.form(element)).or_default().add(own);
            found.far.entry(sums.chains[element as usize]).or_default().add(own);
        }
        for index in (1..found.elements.len()).rev() {
            let mean = found.elements[index];
            found.elements[sums.outline.elements[index].parent as usize].add(mean);
        }
        let (mut last, mut next) = (-1.0, -1.0);
        for at in 0..length {
            last = if probabilities[at] >= 0.5 { at as f32 } else { last };
            found.last[at] = last;
            let back = length - 1 - at;
            next = if probabilities[back] >= 0.5 { back as f32 } else { next };
            found.next[back] = next;
        }
        found
    }

    fn own(&self, at: usize) -> Mean {
        let weight = self.sums.counts[at].words as f32 + 1.0;
        Mean { sum: self.probabilities[at] * weight, weight }
    }

    fn between(&self, from: usize, to: usize) -> Mean {
        let (from, to) = (self.before[from], self.before[to]);
        Mean { sum: to.sum - from.sum, weight: to.weight - from.weight }
    }

    /// Appends the values of the block at `at` to `row`.
    pub(crate) fn add_to(&self, row: &mut Vec<f32>, at: usize) {
        let length = self.probabilities.len();
        let own = self.own(at);
        let element = self.sums.block(at).element;
        row.push(self.probabilities[at]);
        for offset in [-3, -2, -1, 1, 2, 3] {
            let other = at.checked_add_signed(offset).and_then(|other| self.probabilities.get(other));
            row.push(other.copied().unwrap_or(-1.0));
        }
        for (before, after) in [(4, 0), (0, 4), (12, 0), (0, 12), (3, 3), (8, 8), (25, 25)] {
            let (from, to) = (at.saturating_sub(before), (at + after + 1).min(length));
            row.push(self.between(from, to).without(own));
        }
        let mut index = element;
        for _ in 0..6 {
            let mean = self.elements[index as usize];
            row.extend([mean.without(own), mean.weight / self.elements[ROOT as usize].weight]);
            index = self.sums.outline.elements[index as usize].parent;
        }
        let near = self.near.get(&self.sums.form(element)).copied().unwrap_or_default();
        let far = self.far.get(&self.sums.chains[element as usize]).copied().unwrap_or_default();
        let all = self.elements[ROOT as usize];
        let (last, next) = (self.last[at], self.next[at]);
        row.extend([
            near.without(own),
            far.without(own),
            all.sum / all.weight,
            self.highest,
            self.before[at].sum / all.sum.max(0.1),
            if last < 0.0 { 999.0 } else { at as f32 - last },
            if next < 0.0 { 999.0 } else { next - at as f32 },
            (all.sum + 1.0).ln(),
            self.between(0, at).without(Mean::default()),
            self.between(at, length).without(own),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::scan;

    #[test]
    fn a_row_has_its_width_and_sees_the_blocks_nearby() {
        let outline = scan("<div><p>one<p>two</div><p>three");
        let sums = Sums::of(&outline);
        let surroundings = Surroundings::of(&sums, &[0.9, 0.1, 0.6]);
        let mut row = vec![];
        surroundings.add_to(&mut row, 1);
        assert_eq!(row.len(), WIDTH);
        assert_eq!(row[..7], [0.1, -1.0, -1.0, 0.9, 0.6, -1.0, -1.0]);
    }

    #[test]
    fn a_page_of_one_block_has_no_surroundings() {
        let outline = scan("<p>one");
        let sums = Sums::of(&outline);
        let mut row = vec![];
        Surroundings::of(&sums, &[0.7]).add_to(&mut row, 0);
        assert!(row[1..14].iter().all(|value| *value < 0.0), "{row:?}");
    }
}
