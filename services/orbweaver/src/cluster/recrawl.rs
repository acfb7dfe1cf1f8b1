//! `orbweaver recrawl`: requests URLs again that a crawl knows.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use futures::{StreamExt as _, stream};
use orbweaver_log::Log;
use orbweaver_messages::{Millis, Priority, Seed, SeenBatch, SeenEntry, encode};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_store::{CqlStore, PageRow, Store, StoreError, StoreMetrics};
use orbweaver_url::{CrawlName, Fingerprint, SiteName, slot_of};

use super::{
    args::Cluster,
    connection::{block_on, cql_config},
    crawl_urls::{CrawlUrls, UrlBatch},
    seed,
};
use crate::{
    crawl::{
        prepare::{check_readable, seed_urls},
        seeds::SeedWriter,
        site_settings::site_of,
    },
    exit::{Failure, failed},
};

/// Rows that are read at the same time.
const CONCURRENT_READS: usize = 64;
/// Copies of the rows of a keyspace that this command creates, because no service has written to it: as few as possible.
const REPLICATION: u8 = 1;

/// Arguments of `orbweaver recrawl`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orbweaver recrawl https://docs.example.org/guide/ --crawl docs
  orbweaver recrawl --site example.org --older-than 7days --crawl docs --cql localhost:9042")]
pub struct RecrawlArgs {
    /// URLs; a bare host means https.
    #[arg(value_name = "URL", required_unless_present_any = ["seeds", "site", "all"])]
    urls: Vec<String>,
    /// Read URLs from a file, one URL or JSON object (schemas/seed.v1.schema.json) per line; `-` is stdin.
    #[arg(long, value_name = "FILE|-")]
    seeds: Option<PathBuf>,
    /// All pages that were fetched from this site (the site, one of its hosts, or a URL), as the store has them.
    #[arg(long, value_name = "SITE", conflicts_with_all = ["urls", "seeds"], requires = "cql")]
    site: Option<String>,
    /// All pages of the crawl that were fetched, as the store has them.
    #[arg(long, conflicts_with_all = ["urls", "seeds", "site"], requires = "cql")]
    all: bool,
    /// Of these, only pages whose last fetch is longer ago, such as 12h or 7days.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration, conflicts_with_all = ["urls", "seeds"])]
    older_than: Option<Duration>,
    /// CQL servers, as HOST:PORT[,HOST:PORT…].
    #[arg(long, value_name = "NODES", env = "ORBWEAVER_CQL__NODES")]
    cql: Option<String>,
    /// Keyspace of the tables.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_CQL__KEYSPACE", default_value = "orbweaver")]
    keyspace: String,
    /// Crawl of the URLs, unless a JSON object names another.
    #[arg(long, value_name = "NAME", default_value_t)]
    crawl: CrawlName,
    /// Priority of the URLs, and of those that are found from there, from -10 to 10: each step doubles their weight.
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, allow_negative_numbers = true)]
    priority: Priority,
    #[command(flatten)]
    cluster: Cluster,
}

/// Runs `orbweaver recrawl`.
///
/// # Errors
/// Fails if a URL is malformed, the crawl is not defined or has been stopped, the file cannot be read, or log or store fail.
pub fn run(args: &RecrawlArgs) -> Result<(), Failure> {
    // Before anything is written.
    seed_urls(&args.urls)?;
    if let Some(seeds) = &args.seeds {
        check_readable(seeds)?;
    }
    block_on(async {
        let log = args.cluster.connect().await?;
        let crawl = &seed::check_crawl(&log, &args.crawl, &args.cluster).await?;
        let again = Seed { crawl: Some(crawl.clone()), priority: args.priority, recrawl: true, ..Seed::of_url("") };
        let Some(nodes) = args.cql.as_ref().filter(|_| args.all || args.site.is_some()) else {
            let written = seed::write(&log, &args.urls, args.seeds.as_deref(), again).await?;
            notice!("{written} URLs to fetch again");
            return Ok(());
        };
        let metrics = StoreMetrics::register(&prometheus::Registry::new()).map_err(failed)?;
        let config = cql_config(nodes, &args.keyspace, REPLICATION)?;
        let store = CqlStore::connect(config, metrics).await.map_err(failed)?;
        let now = SystemClock.now();
        let older_ms = args.older_than.map(|age| Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX));
        let site = match &args.site {
            Some(text) => Some(site_of(&log, text).await?),
            None => None,
        };
        let selection = Selection {
            crawl: crawl.clone(),
            site,
            before_ms: older_ms.map_or(Millis::MAX, |age_ms| now.saturating_sub(age_ms)),
        };
        let found = selection.request_again(&log, &store, &again).await?;
        notice!("{} URLs to fetch again, of {} that were read", found.requested, found.read);
        Ok(())
    })
}

/// Fetched pages of a crawl.
#[derive(Debug)]
struct Selection {
    crawl: CrawlName,
    /// Site of the pages; `None`: all sites.
    site: Option<SiteName>,
    /// Time before which they were last fetched, in milliseconds since the Unix epoch.
    before_ms: Millis,
}

/// Number of pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Admitted URLs whose row was read.
    read: u64,
    /// Pages that were requested again.
    requested: u64,
}

impl Selection {
    fn may_be(&self, entry: &SeenEntry) -> bool {
        self.site.as_ref().is_none_or(|site| slot_of(site) == entry.slot)
    }

    fn selects(&self, fingerprint: Fingerprint, row: &PageRow) -> bool {
        row.status.is_some()
            && row.fetched_at_ms < self.before_ms
            && self.site.as_ref().is_none_or(|site| *site == row.site)
            && Fingerprint::of(&self.crawl, &row.key) == fingerprint
    }

    /// Writes a seed like `again` for each of these pages: they are in `crawl.seen`, which has the fingerprints of all
    /// admitted URLs, and have a row.
    async fn request_again(&self, log: &dyn Log, store: &dyn Store, again: &Seed) -> Result<Found, Failure> {
        let mut writer = SeedWriter::new(log, SystemClock.now()).map_err(failed)?;
        let mut found = Found::default();
        let mut urls = CrawlUrls::new(log, &self.crawl, self.site.as_ref())?;
        while let Some(UrlBatch { batch, .. }) = urls.next().await? {
            self.request_batch(&batch, store, (&mut writer, again), &mut found).await?;
        }
        writer.flush().await.map_err(failed)?;
        Ok(found)
    }

    async fn request_batch(
        &self,
        batch: &SeenBatch,
        store: &dyn Store,
        (writer, again): (&mut SeedWriter<'_>, &Seed),
        found: &mut Found,
    ) -> Result<(), Failure> {
        let entries = batch.entries.iter().filter(|entry| self.may_be(entry)).map(|entry| entry.fingerprint);
        let mut rows = stream::iter(entries).map(|fingerprint| row_of(store, fingerprint)).buffered(CONCURRENT_READS);
        while let Some(row) = rows.next().await {
            let (fingerprint, Some(row)) = row.map_err(failed)? else { continue };
            found.read += 1;
            if self.selects(fingerprint, &row) {
                found.requested += 1;
                writer.add(encode(&Seed { url: row.url, ..again.clone() })).await.map_err(failed)?;
            }
        }
        Ok(())
    }
}

async fn row_of(store: &dyn Store, fingerprint: Fingerprint) -> Result<(Fingerprint, Option<PageRow>), StoreError> {
    Ok((fingerprint, store.page(fingerprint).await?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicPartition, TopicSpec, topic_partitions};
    use orbweaver_messages::{
        CRAWL_HEADER,
        topic::{SEEDS, SEEN},
    };
    use orbweaver_store::{MemoryStore, Write};
    use orbweaver_url::partition_of;

    use super::*;

    const PARTITIONS: u32 = 4;

    /// Writes the row of a page, and returns its entry.
    async fn fetched(store: &MemoryStore, crawl: &str, url: &str, fetched_at_ms: Millis) -> SeenEntry {
        let parsed = orbweaver_url::parse(url).unwrap();
        let site = SiteName::from(orbweaver_url::WideDomains::default().site_of(&parsed));
        let fingerprint = Fingerprint::of(&crawl.parse().unwrap(), url);
        let entry = SeenEntry { slot: slot_of(&site), depth: 1, fingerprint };
        let row = PageRow {
            fingerprint,
            key: url.to_owned(),
            url: url.to_owned(),
            site,
            fetched_at_ms,
            status: Some(200),
            outcome: "fetched".to_owned(),
            reason: None,
            content_type: None,
            etag: None,
            last_modified: None,
            bytes: 1,
            content_hash: None,
            depth: 1,
            via: None,
        };
        store.write(vec![Write::Page { crawl: crawl.parse().unwrap(), row: Box::new(row) }]).await.unwrap();
        entry
    }

    /// Appends a batch to the partition of its first entry.
    async fn admitted(log: &MemoryLog, crawl: Option<&'static str>, entries: Vec<SeenEntry>) {
        let tp = TopicPartition::new(SEEN, partition_of(entries[0].slot, PARTITIONS));
        let mut record = Record::new(tp, None, Some(SeenBatch { entries }.encode()), 1);
        record.headers.extend(crawl.map(|name| (CRAWL_HEADER, Bytes::from_static(name.as_bytes()))));
        log.append(vec![record]).await.unwrap();
    }

    /// Returns the URLs that are requested again of these, and the number of rows that were read.
    async fn requested(site: Option<&str>, before_ms: Millis) -> (Vec<String>, u64) {
        let log = MemoryLog::new(&[SEEN, SEEDS].map(|topic| TopicSpec::new(topic, PARTITIONS, Cleanup::Keep)));
        let store = MemoryStore::default();
        let of = |crawl, url, at_ms| fetched(&store, crawl, url, at_ms);
        let (old, new) = (of("docs", "https://a.org/old", 10).await, of("docs", "https://a.org/new", 90).await);
        let queued = SeenEntry { fingerprint: Fingerprint([7; 16]), ..old };
        admitted(&log, Some("docs"), vec![old, queued, new]).await;
        admitted(&log, Some("docs"), vec![of("docs", "https://b.org/", 10).await]).await;
        admitted(&log, Some("news"), vec![of("news", "https://a.org/news", 10).await]).await;
        // Of an earlier version.
        let mixed = vec![of("news", "https://a.org/mixed", 10).await, of("docs", "https://a.org/mixed", 10).await];
        admitted(&log, None, mixed).await;
        let selection = Selection { crawl: "docs".parse().unwrap(), site: site.map(SiteName::from), before_ms };
        let again = Seed { crawl: Some("docs".parse().unwrap()), recrawl: true, ..Seed::of_url("") };
        let found = selection.request_again(&log, &store, &again).await.unwrap();
        let records = topic_partitions(&log, &[SEEDS]).unwrap().into_iter().flat_map(|tp| log.records(tp));
        let seeds = records.map(|record| serde_json::from_slice::<Seed>(&record.value.unwrap()).unwrap());
        let mut urls: Vec<_> = seeds
            .map(|seed| {
                assert_eq!((seed.crawl.as_deref(), seed.recrawl), (Some("docs"), true));
                seed.url
            })
            .collect();
        assert_eq!(urls.len() as u64, found.requested);
        urls.sort_unstable();
        (urls, found.read)
    }

    #[tokio::test]
    async fn the_fetched_pages_of_a_crawl_are_requested_again_and_those_of_no_other() {
        let all = ["https://a.org/mixed", "https://a.org/new", "https://a.org/old", "https://b.org/"];
        assert_eq!(requested(None, Millis::MAX).await, (all.map(str::to_owned).to_vec(), 5));
    }

    #[tokio::test]
    async fn pages_are_selected_by_their_site_and_the_time_of_their_last_fetch() {
        let (urls, read) = requested(Some("a.org"), 90).await;
        assert_eq!(urls, ["https://a.org/mixed", "https://a.org/old"]);
        assert_eq!(read, 4, "of the site alone");
        assert_eq!(requested(Some("b.org"), 10).await.0, [""; 0]);
    }
}
