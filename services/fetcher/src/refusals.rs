//! Refusals (429, 503, challenges) by the sites of one address, and the gap that they cause. Pure.

use orbweaver_messages::Millis;
use orbweaver_url::SiteName;

/// Number of sites of an address whose refusals, within [`WINDOW_MS`], lengthen its gap: one site that refuses is
/// blocked by itself.
const SITES: usize = 3;
/// Time within which refusals are counted together, in milliseconds.
const WINDOW_MS: Millis = 60_000;
/// First gap, in milliseconds; it doubles each time.
const FIRST_GAP_MS: u64 = 250;
/// Longest gap, in milliseconds: below the 20 s within which a dispatch is sent.
const LONGEST_GAP_MS: u64 = 16_000;
/// Time without further refusals after which a gap is halved, in milliseconds.
const FORGIVEN_MS: Millis = 300_000;

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Sites that refused a request, and when; at most [`SITES`].
    sites: Vec<(SiteName, Millis)>,
    /// Gap since `lengthened_ms`; 0: none.
    gap_ms: u64,
    lengthened_ms: Millis,
}

impl Refusals {
    /// Adds a refusal.
    pub(crate) fn add(&mut self, site: &SiteName, now: Millis) {
        self.sites.retain(|(known, at)| known != site && now.saturating_sub(*at) < WINDOW_MS);
        self.sites.push((site.clone(), now));
        if self.sites.len() >= SITES {
            self.gap_ms = (2 * self.gap_ms(now)).clamp(FIRST_GAP_MS, LONGEST_GAP_MS);
            self.lengthened_ms = now;
            self.sites.clear();
        }
    }

    /// Returns the gap between two requests, in milliseconds; 0: none.
    pub(crate) fn gap_ms(&self, now: Millis) -> u64 {
        let halved = now.saturating_sub(self.lengthened_ms).max(0) / FORGIVEN_MS;
        let gap_ms = u32::try_from(halved).ok().and_then(|halved| self.gap_ms.checked_shr(halved)).unwrap_or(0);
        if gap_ms < FIRST_GAP_MS { 0 } else { gap_ms }
    }

    /// Returns the time from which nothing is left of the refusals.
    pub(crate) fn forgotten_ms(&self) -> Millis {
        let counted = self.sites.iter().map(|(_, at)| at.saturating_add(WINDOW_MS)).max().unwrap_or(Millis::MIN);
        let halvings = (self.gap_ms / FIRST_GAP_MS).checked_ilog2().map_or(0, |halvings| Millis::from(halvings) + 1);
        let forgiven = if halvings == 0 { Millis::MIN } else { self.lengthened_ms + halvings * FORGIVEN_MS };
        counted.max(forgiven)
    }

    /// Counts the refusals as those of now, on a clock that stepped back.
    pub(crate) fn reset_clock(&mut self, now: Millis) {
        self.sites.iter_mut().for_each(|(_, at)| *at = now.min(*at));
        self.lengthened_ms = self.lengthened_ms.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(refusals: &mut Refusals, sites: [&str; 3], now: Millis) {
        sites.into_iter().for_each(|site| refusals.add(&site.into(), now));
    }

    #[test]
    fn refusals_of_three_sites_within_a_minute_cause_a_gap_which_doubles() {
        let mut refusals = Refusals::default();
        add(&mut refusals, ["a", "a", "b"], 0);
        assert_eq!(refusals.gap_ms(0), 0, "two sites");
        refusals.add(&"c".into(), 60_000);
        assert_eq!(refusals.gap_ms(60_000), 0, "the others refused more than a minute ago");
        add(&mut refusals, ["c", "d", "e"], 60_001);
        assert_eq!(refusals.gap_ms(60_001), 250);
        for gap_ms in [500, 1000, 2000, 4000, 8000, 16_000, 16_000] {
            add(&mut refusals, ["a", "b", "c"], 61_000);
            assert_eq!(refusals.gap_ms(61_000), gap_ms);
        }
    }

    #[test]
    fn a_gap_is_halved_every_five_minutes_and_then_forgotten() {
        let mut refusals = Refusals::default();
        add(&mut refusals, ["a", "b", "c"], 0);
        add(&mut refusals, ["a", "b", "c"], 1000);
        assert_eq!([300_999, 301_000, 600_999, 601_000].map(|now| refusals.gap_ms(now)), [500, 250, 250, 0]);
        assert_eq!(refusals.forgotten_ms(), 601_000);
        refusals.add(&"a".into(), 601_000);
        assert_eq!((refusals.gap_ms(601_000), refusals.forgotten_ms()), (0, 661_000));
    }
}
