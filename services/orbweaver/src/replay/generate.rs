//! A stream of URLs for which the correct result of deduplication is known.
//!
//! Each partition has its own stream of records. A record has [`LINKS`] links of one site, like a page. The share of
//! new URLs is exact for every prefix of links, so that record `n` introduces the ids from `ids_before(n)` to
//! `ids_before(n + 1)`, and any record can be generated without the preceding ones: a replay that was killed resumes at
//! its commit.
//!
//! **Distances of repeats.** A crawl visits a site for [`VISIT`] records, and returns after all other sites. Half of
//! the repeats are near: exponential with a mean of [`NEAR`] records back within the visit, like the navigation of a
//! site. The other half has a heavy tail: the logarithm of the distance is uniform over all earlier records of the same
//! site. A cache of 50,000 URLs then answers four of five repeats, as Broder, Najork and Wiener measured on a crawl
//! ("Efficient URL caching for World Wide Web crawling", WWW 2003), and URLs from every part of the history are
//! repeated.

use orbweaver_log::Partition;
use orbweaver_messages::{Discovered, DiscoveryKind};
use orbweaver_url::{partition_of, slot_of};

/// Crawl of the URLs.
pub(super) const CRAWL: &str = "default";
/// Links per record.
pub(super) const LINKS: u64 = 30;
/// Records per visit to a site.
const VISIT: u64 = 100;
/// Mean number of records back to a near repeat.
const NEAR: f64 = 10.0;
/// Sites per partition.
const SITES: u64 = 64;
/// Average number of links per link that is not in canonical form.
const ODDLY_WRITTEN: u64 = 32;
/// Shares are in millionths.
const MILLION: u64 = 1_000_000;

/// Parameters of the generated stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// URLs of all partitions.
    pub(super) urls: u64,
    /// New URLs per million.
    pub(super) new_ppm: u64,
    /// Seed for the choice of repeats.
    pub(super) seed: u64,
    /// Number of partitions.
    pub(super) partitions: Partition,
}

impl Plan {
    /// Returns the number of URLs of a partition.
    fn urls_of(&self, partition: Partition) -> u64 {
        let partitions = u64::from(self.partitions);
        self.urls / partitions + u64::from(u64::from(partition) < self.urls % partitions)
    }

    /// Returns the number of records of a partition.
    pub(super) fn records_of(&self, partition: Partition) -> u64 {
        self.urls_of(partition).div_ceil(LINKS)
    }

    /// Returns the number of distinct URLs of a partition; their ids are the numbers below it.
    pub(super) fn ids_of(&self, partition: Partition) -> u64 {
        self.ids_before(partition, self.records_of(partition))
    }

    /// Returns the number of distinct URLs of all records below `record`. The very first link is new.
    fn ids_before(&self, partition: Partition, record: u64) -> u64 {
        let links = (record * LINKS).min(self.urls_of(partition));
        (links * self.new_ppm).div_ceil(MILLION)
    }
}

/// The stream of one partition.
#[derive(Debug)]
pub(super) struct Stream {
    plan: Plan,
    partition: Partition,
    sites: Vec<String>,
}

impl Stream {
    pub(super) fn new(plan: Plan, partition: Partition) -> Self {
        let names = (0u64..).map(|number| format!("site-{number}.example"));
        let sites = names.filter(|site| partition_of(slot_of(site), plan.partitions) == partition);
        Self { plan, partition, sites: sites.take(SITES as usize).collect() }
    }

    /// Returns the record with this number, or `None` past the end.
    pub(super) fn record(&self, number: u64) -> Option<Discovered> {
        let (plan, partition) = (&self.plan, self.partition);
        let links = plan.urls_of(partition).checked_sub(number * LINKS).filter(|left| *left > 0)?.min(LINKS);
        let mut random = Random::new(plan.seed, partition, number);
        let new = plan.ids_before(partition, number)..plan.ids_before(partition, number + 1);
        let mut urls: Vec<String> = new.clone().map(|id| self.url(number, id, &mut random)).collect();
        while (urls.len() as u64) < links {
            let (record, id) = self.repeat(number, &mut random);
            let at = random.below(urls.len() as u64 + 1) as usize;
            urls.insert(at, self.url(record, id, &mut random));
        }
        Some(Discovered {
            crawl: CRAWL.to_owned(),
            site: self.site(number).to_owned(),
            via: Some(self.url(number, new.start, &mut random)),
            depth: 3,
            sighting: DiscoveryKind::Link,
            chain: vec![],
            trail: orbweaver_messages::Trail::default(),
            content: None,
            urls,
            found_at_ms: 0,
        })
    }

    fn site(&self, record: u64) -> &str {
        &self.sites[((record / VISIT) % SITES) as usize]
    }

    /// Returns a record of the same site that introduced new URLs, and one of their ids.
    fn repeat(&self, number: u64, random: &mut Random) -> (u64, u64) {
        let mut record = if random.next().is_multiple_of(2) { near(number, random) } else { far(number, random) };
        // With few new URLs, many records introduce none; the very first always does.
        let ids = loop {
            let ids = self.plan.ids_before(self.partition, record)..self.plan.ids_before(self.partition, record + 1);
            if !ids.is_empty() {
                break ids;
            }
            record = if record % VISIT > 0 { record - 1 } else { return self.last_of_site(record) };
        };
        (record, ids.start + random.below(ids.end - ids.start))
    }

    /// Returns the last id of the site's earlier visits, for a visit that has introduced none so far; if there is none,
    /// the next id to be introduced.
    fn last_of_site(&self, record: u64) -> (u64, u64) {
        let earlier = (1..=record / VISIT / SITES).map(|visits| record - visits * VISIT * SITES);
        let starts = earlier.map(|start| (start..start + VISIT).rev());
        let found = starts.flatten().find_map(|record| {
            let end = self.plan.ids_before(self.partition, record + 1);
            (end > self.plan.ids_before(self.partition, record)).then_some((record, end - 1))
        });
        found.unwrap_or((record, self.plan.ids_before(self.partition, record)))
    }

    fn url(&self, record: u64, id: u64, random: &mut Random) -> String {
        const WORDS: [&str; 8] = ["library", "articles", "guide", "reference", "people", "2024", "shop", "a%7Eb"];
        let (site, partition) = (self.site(record), self.partition);
        let (section, topic) = (WORDS[(id % 7) as usize], WORDS[(id / 7 % 7) as usize]);
        if random.next().is_multiple_of(ODDLY_WRITTEN) {
            return format!("https://WWW.{site}:443/{section}/./{topic}/item-{partition:x}-{id:x}.html");
        }
        format!("https://www.{site}/{section}/{topic}/item-{partition:x}-{id:x}.html")
    }
}

/// Returns partition and id of a generated URL within this text.
pub(super) fn id_in(text: &[u8]) -> Option<(Partition, u64)> {
    let at = memchr::memmem::find(text, b"/item-")? + b"/item-".len();
    let rest = &text[at..];
    let end = memchr::memchr(b'.', rest)?;
    let (partition, id) = std::str::from_utf8(&rest[..end]).ok()?.split_once('-')?;
    Some((Partition::from_str_radix(partition, 16).ok()?, u64::from_str_radix(id, 16).ok()?))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a distance, cut to what there is")]
fn near(number: u64, random: &mut Random) -> u64 {
    let distance = -(1.0 - random.unit()).ln() * NEAR;
    number - (distance as u64).min(number % VISIT)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a distance")]
fn far(number: u64, random: &mut Random) -> u64 {
    let distance = (number as f64 + 1.0).powf(random.unit()) as u64;
    if distance <= number % VISIT {
        return number - distance;
    }
    // Of the same site: whole rounds of all sites back, any record of that visit.
    let rounds = distance.div_ceil(VISIT * SITES).min(number / (VISIT * SITES));
    let visit = number / VISIT - rounds * SITES;
    let record = visit * VISIT + random.below(VISIT);
    record.min(number)
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): any record can be generated alone, since its seed is its number.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, partition: Partition, number: u64) -> Self {
        let mut random = Self(seed);
        random.0 ^= Self(u64::from(partition) << 40 ^ number).next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use orbweaver_url::{canonical_text, parse, site_of};

    use super::*;

    #[test]
    fn every_id_comes_up_the_share_of_new_urls_is_exact_and_sites_are_of_their_partition() {
        for (new_ppm, urls) in [(350_000, 100_003), (1_000_000, 5_000), (1_000, 100_000), (1, 1_000)] {
            let plan = Plan { urls, new_ppm, seed: 7, partitions: 4 };
            let (mut links, mut ids) = (0, 0);
            for partition in 0..4 {
                let stream = Stream::new(plan, partition);
                let mut sites = HashMap::new();
                for number in 0..plan.records_of(partition) {
                    let record = stream.record(number).unwrap();
                    assert_eq!(partition_of(slot_of(&record.site), 4), partition);
                    for text in &record.urls {
                        let url = parse(text).unwrap();
                        assert_eq!(site_of(&url), record.site);
                        let of = id_in(text.as_bytes()).unwrap();
                        let canonical = canonical_text(&url).into_owned();
                        assert_eq!(*sites.entry(of).or_insert_with(|| canonical.clone()), canonical, "one id, one URL");
                        links += 1;
                    }
                }
                assert!(stream.record(plan.records_of(partition)).is_none());
                let expected = (0..plan.ids_of(partition)).map(|id| (partition, id)).collect::<HashSet<_>>();
                assert_eq!(sites.keys().copied().collect::<HashSet<_>>(), expected);
                let different = sites.values().collect::<HashSet<_>>();
                assert_eq!(different.len(), sites.len(), "two ids, two URLs");
                ids += plan.ids_of(partition);
            }
            assert_eq!(links, urls);
            assert!(ids.abs_diff((urls * new_ppm).div_ceil(MILLION)) <= 4, "{ids}");
        }
    }

    #[test]
    fn most_repeats_are_near_and_some_are_from_the_beginning() {
        let stream = Stream::new(Plan { urls: 30_000_000, new_ppm: 350_000, seed: 1, partitions: 1 }, 0);
        let newest = 350_000 * 29;
        let (mut near, mut old, mut all) = (0, 0, 0);
        for number in 999_000..1_000_000 {
            for text in stream.record(number).unwrap().urls {
                let (_, id) = id_in(text.as_bytes()).unwrap();
                all += 1;
                near += usize::from(id + 50_000 > newest);
                old += usize::from(id < newest / 2);
            }
        }
        assert!(near * 100 > all * 80, "{near} of {all}");
        assert!(old * 100 > all, "{old} of {all}");
    }
}
