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

use std::collections::BTreeMap;

use bytes::Bytes;
use clap::Args;
use fastrand::Rng;
use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Discovered, DiscoveryKind, Priority, SeedMetadata, encode, topic};
use orbweaver_url::{CrawlName, partition_of, slot_of};
use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Plan {
    /// Number of URLs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub urls: u64,
    /// Share of repeated URLs, from 0 to 0.999999.
    // Kept as the number of new URLs per million.
    #[arg(long = "repeat", value_name = "SHARE", default_value = "0.65", value_parser = new_ppm)]
    pub new_ppm: u64,
    /// Seed for the choice of repeats.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Partitions per topic; a power of two.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub partitions: Partition,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is below one")]
fn new_ppm(repeats: &str) -> Result<u64, String> {
    match repeats.parse::<f64>() {
        Ok(share) if (0.0..=0.999_999).contains(&share) => Ok(MILLION - (share * 1e6).round() as u64),
        _ => Err("expected a number from 0 to 0.999999".to_owned()),
    }
}

impl Plan {
    /// Returns the number of URLs of a partition.
    fn urls_of(&self, partition: Partition) -> u64 {
        let partitions = u64::from(self.partitions);
        self.urls / partitions + u64::from(u64::from(partition) < self.urls % partitions)
    }

    /// Returns the number of records of a partition.
    fn records_of(&self, partition: Partition) -> u64 {
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

/// A record, and its number of URLs.
pub(super) type Made = (ConsumerRecord, u64);

/// Generates the records of some partitions in turn, from the given offsets on.
pub(super) fn generated(plan: Plan, from: BTreeMap<Partition, Offset>) -> impl Iterator<Item = Made> + Send {
    let streams = from.into_iter().map(|(partition, from)| (Stream::new(plan, partition), from));
    let mut streams: Vec<_> = streams.collect();
    let mut turn = 0;
    std::iter::from_fn(move || {
        while !streams.is_empty() {
            turn = (turn + 1) % streams.len();
            let (stream, next) = &mut streams[turn];
            let Some(record) = stream.record(*next) else {
                streams.swap_remove(turn);
                continue;
            };
            let made = ConsumerRecord {
                tp: TopicPartition::new(topic::DISCOVERED, stream.partition),
                offset: *next,
                timestamp_ms: 0,
                key: Some(Bytes::copy_from_slice(record.site.as_bytes())),
                value: Some(encode(&record)),
                headers: vec![],
            };
            *next += 1;
            return Some((made, record.urls.len() as u64));
        }
        None
    })
}

/// The stream of one partition.
#[derive(Debug)]
struct Stream {
    plan: Plan,
    partition: Partition,
    sites: Vec<String>,
}

impl Stream {
    fn new(plan: Plan, partition: Partition) -> Self {
        let names = (0u64..).map(|number| format!("site-{number}.example"));
        let sites = names.filter(|site| partition_of(slot_of(site), plan.partitions) == partition);
        Self { plan, partition, sites: sites.take(SITES as usize).collect() }
    }

    /// Returns the record with this number, or `None` past the end.
    fn record(&self, number: u64) -> Option<Discovered> {
        let (plan, partition) = (&self.plan, self.partition);
        let links = plan.urls_of(partition).checked_sub(number * LINKS).filter(|left| *left > 0)?.min(LINKS);
        let mut random = random_of(plan.seed, partition, number);
        let new = plan.ids_before(partition, number)..plan.ids_before(partition, number + 1);
        let mut urls: Vec<String> = new.clone().map(|id| self.url(number, id, &mut random)).collect();
        while (urls.len() as u64) < links {
            let (record, id) = self.repeat(number, &mut random);
            let at = random.usize(..=urls.len());
            urls.insert(at, self.url(record, id, &mut random));
        }
        Some(Discovered {
            crawl: CrawlName::default(),
            site: self.site(number).into(),
            via: Some(self.url(number, new.start, &mut random)),
            depth: 3,
            sighting: DiscoveryKind::Link,
            chain: vec![],
            trail: orbweaver_messages::Trail::default(),
            content: None,
            priority: Priority::default(),
            metadata: SeedMetadata::default(),
            urls,
            modified_ms: vec![],
            found_at_ms: 0,
        })
    }

    fn site(&self, record: u64) -> &str {
        &self.sites[((record / VISIT) % SITES) as usize]
    }

    /// Returns a record of the same site that introduced new URLs, and one of their ids; if the site has none yet, its
    /// next id.
    fn repeat(&self, number: u64, random: &mut Rng) -> (u64, u64) {
        let record = if random.bool() { near(number, random) } else { far(number, random) };
        let ids =
            |record| self.plan.ids_before(self.partition, record)..self.plan.ids_before(self.partition, record + 1);
        // With few new URLs, many records introduce none.
        let mut earlier = std::iter::successors(Some(record), |record| before(*record));
        match earlier.find(|record| !ids(*record).is_empty()) {
            Some(record) => (record, random.u64(ids(record))),
            None => (record, ids(record).start),
        }
    }

    fn url(&self, record: u64, id: u64, random: &mut Rng) -> String {
        const WORDS: [&str; 8] = ["library", "articles", "guide", "reference", "people", "2024", "shop", "a%7Eb"];
        let (site, partition) = (self.site(record), self.partition);
        let (section, topic) = (WORDS[(id % 7) as usize], WORDS[(id / 7 % 7) as usize]);
        if random.u64(..ODDLY_WRITTEN) == 0 {
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

/// Returns the previous record of the same site.
fn before(record: u64) -> Option<u64> {
    record.checked_sub(if record.is_multiple_of(VISIT) { VISIT * (SITES - 1) + 1 } else { 1 })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a distance, cut to what there is")]
fn near(number: u64, random: &mut Rng) -> u64 {
    let distance = -(1.0 - random.f64()).ln() * NEAR;
    number - (distance as u64).min(number % VISIT)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a distance")]
fn far(number: u64, random: &mut Rng) -> u64 {
    let distance = (number as f64 + 1.0).powf(random.f64()) as u64;
    if distance <= number % VISIT {
        return number - distance;
    }
    // Of the same site: whole rounds of all sites back, any record of that visit.
    let rounds = distance.div_ceil(VISIT * SITES).min(number / (VISIT * SITES));
    let visit = number / VISIT - rounds * SITES;
    let record = visit * VISIT + random.u64(..VISIT);
    record.min(number)
}

/// Returns the random numbers of a record, whose seed is its number, so that any record can be generated alone.
fn random_of(seed: u64, partition: Partition, number: u64) -> Rng {
    let mut seeds = Rng::with_seed(u64::from(partition) << 40 ^ number);
    Rng::with_seed(seed ^ seeds.u64(..))
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
                        assert_eq!(*site_of(&url), *record.site);
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
