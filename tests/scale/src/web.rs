//! A synthetic web: sites with registrable names, and a heavy-tailed number of URLs per site.

use orbweaver_url::{SLOTS, Slot, slot_of};

/// The share of sites with more than `x` URLs falls as `x^-TAIL`. The density then falls as `x^-1.8`, the middle of the
/// 1.7 to 1.9 of Huberman and Adamic (Nature 399, 1999).
pub const TAIL: f64 = 0.8;
/// URLs of the largest site: 0.2 % of 10^9, the share of wikipedia.org in a crawl of Common Crawl. With it the mean is
/// 69 URLs per site, that of CC-MAIN-2024-51.
pub const LARGEST: f64 = 2e6;
/// Caps on the URLs of a site, under which loads are counted. A day has 86,400 seconds, so this is also the number of
/// polite requests per day; under a cap of 1 the load is the number of sites.
pub const CAPS: [u64; 4] = [u64::MAX, 86_400, 10_000, 1];

const WORDS: [&str; 32] = [
    "alpen", "art", "auto", "best", "blog", "blue", "book", "casa", "city", "club", "data", "eco", "foto", "garden",
    "green", "haus", "info", "kino", "land", "media", "mein", "news", "nord", "open", "pro", "shop", "smart", "sport",
    "tech", "the", "travel", "web",
];
/// Frequent public suffixes; about half of the names are in `com`.
const SUFFIXES: [&str; 16] = [
    "com", "com", "com", "com", "com", "com", "com", "com", "org", "net", "de", "ru", "co.uk", "com.br", "fr", "co.jp",
];

/// SplitMix64: the same numbers for a seed on every machine.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the registrable domain of site number `site`: a word, and the number in syllables, such as
/// `techjemubifa.co.uk`.
#[must_use]
pub fn name(site: u64) -> String {
    let picks = Random(site).draw();
    let mut name = WORDS[picks as usize % WORDS.len()].to_owned();
    let mut rest = site;
    while rest > 0 || name.len() < 5 {
        let (consonant, vowel) = (rest as usize % 16, rest as usize / 16 % 5);
        name.push(char::from(b"bdfghjklmnprstvz"[consonant]));
        name.push(char::from(b"aeiou"[vowel]));
        rest /= 80;
    }
    name.push('.');
    name.push_str(SUFFIXES[(picks >> 32) as usize % SUFFIXES.len()]);
    name
}

/// Returns the number of URLs of a site for a uniform `unit` in `0.0..1.0`: a Pareto distribution from 1 to [`LARGEST`].
#[must_use]
pub fn urls(unit: f64) -> u64 {
    let above_largest = LARGEST.powf(-TAIL);
    (1.0 - unit * (1.0 - above_largest)).powf(-1.0 / TAIL) as u64
}

/// Load of each slot, and the largest sites. Sites themselves are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Web {
    /// Loads by slot under each of [`CAPS`].
    pub loads: [Vec<u64>; 4],
    /// Number of sites with more URLs than each of [`CAPS`].
    pub above: [u64; 4],
    /// Ten largest sites: URLs and slot, largest first.
    pub largest: Vec<(u64, Slot)>,
}

impl Web {
    /// Draws sites until they have at least `total` URLs.
    #[must_use]
    pub fn new(total: u64, seed: u64) -> Self {
        let slots = usize::from(SLOTS);
        let mut web = Self { loads: [(); 4].map(|()| vec![0; slots]), above: [0; 4], largest: vec![] };
        let (mut random, mut drawn, mut site) = (Random(seed), 0, 0);
        while drawn < total {
            let (size, slot) = (urls(random.unit()), slot_of(&name(site)));
            for (cap, (loads, above)) in CAPS.into_iter().zip(web.loads.iter_mut().zip(&mut web.above)) {
                loads[usize::from(slot)] += size.min(cap);
                *above += u64::from(size > cap);
            }
            if web.largest.len() < 10 || web.largest.last().is_some_and(|&(least, _)| size > least) {
                let at = web.largest.partition_point(|&(larger, _)| larger >= size);
                web.largest.insert(at, (size, slot));
                web.largest.truncate(10);
            }
            drawn += size;
            site += 1;
        }
        web
    }

    /// Returns the URLs under a cap, by its place in [`CAPS`].
    #[must_use]
    pub fn total(&self, cap: usize) -> u64 {
        self.loads[cap].iter().sum()
    }
}
