//! A single service on a prefilled topic.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Service};
use orbweaver_log::{Log, Record, TopicPartition};
use orbweaver_messages::{
    Discovered, DiscoveryKind, Dispatch, DispatchId, FrontierUrl, Millis, Priority, SeedMetadata, Topic, UrlContext,
    encode, topic,
};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, partition_of, slot_of};
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::bed::{Bed, PATIENCE, tps};
use crate::process::{megabytes, used};

/// URLs per record of `crawl.discovered`: the links of one page to one site.
const LINKS: u64 = 30;
/// Sites of the prefilled records.
const SITES: u64 = 1_000;
/// Records per append.
const AT_ONCE: u64 = 1_000;

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    let cluster = bed.cluster(options.partitions).await?;
    let urls = options.records * 3;
    discover(&cluster, options.partitions, urls, 10).await?;
    println!("prefilled: {urls} URLs, one in ten new, {LINKS} a record, for one normalizer-dedup");
    measure(&cluster, Service::NormalizerDedup, topic::DISCOVERED, urls, "URLs").await?;
    cluster.remove().await?;

    let cluster = bed.cluster(options.partitions).await?;
    dispatch(&cluster, options.partitions, options.records).await?;
    println!("prefilled: {} dispatches for one rate-limiter, no rate", options.records);
    measure(&cluster, Service::RateLimiter, topic::SCHEDULED, options.records, "dispatches").await?;
    cluster.remove().await
}

/// Starts one instance, waits until it has committed a whole topic, and prints the cost since its first commit: joining
/// the group is excluded.
async fn measure(cluster: &Cluster, service: Service, topic: Topic, count: u64, what: &str) -> Result<()> {
    let mut instance = start(cluster, service).await?;
    let (first, all) = until_committed(cluster, service, topic, &mut instance, |committed, _| committed > 0).await?;
    let (begun, before) = (Instant::now(), used(instance.id()).cpu);
    caught_up(cluster, service, topic, &mut instance).await?;
    let (took, after) = (begun.elapsed().as_secs_f64(), used(instance.id()));
    let cpu = (after.cpu - before).as_secs_f64();
    let count = count as f64 * (all - first) as f64 / all as f64;
    println!(
        "  {:.0} {what}/s in {took:.1} s; {:.2} µs CPU each, {:.0} a second and core; {} MB at most",
        count / took,
        cpu * 1e6 / count,
        count / cpu,
        megabytes(after.peak_rss_bytes)
    );
    Ok(())
}

async fn start(cluster: &Cluster, service: Service) -> Result<Instance> {
    cluster.start_in(service, cluster.dir_of(0)).await
}

/// Waits until a service has committed the end of a topic.
pub(crate) async fn caught_up(
    cluster: &Cluster,
    service: Service,
    topic: Topic,
    instance: &mut Instance,
) -> Result<()> {
    until_committed(cluster, service, topic, instance, |committed, all| committed >= all).await?;
    Ok(())
}

/// Waits until `done` of the number of committed records of a topic and the number of all its records. Returns both.
async fn until_committed(
    cluster: &Cluster,
    service: Service,
    topic: Topic,
    instance: &mut Instance,
    done: impl Fn(u64, u64) -> bool,
) -> Result<(u64, u64)> {
    let (deadline, tps) = (Instant::now() + PATIENCE, tps(topic, &cluster.log)?);
    loop {
        let ends = cluster.log.all_bounds(&tps).await?;
        let committed = cluster.log.committed(service.name(), &tps).await?;
        let committed = committed.iter().flatten().map(|commit| commit.offset).sum();
        let all = ends.iter().map(|bounds| bounds.end).sum();
        if done(committed, all) {
            return Ok((committed, all));
        }
        instance.still_runs()?;
        ensure!(Instant::now() < deadline, "{} is not through:\n{}", service.name(), instance.last_words());
        sleep(Duration::from_millis(50)).await;
    }
}

/// Fills `crawl.discovered` with URLs, one in `repeats` of them new.
pub(crate) async fn discover(cluster: &Cluster, partitions: u32, urls: u64, repeats: u64) -> Result<()> {
    let now = SystemClock.now();
    let records = urls / LINKS;
    for first in (0..records).step_by(AT_ONCE as usize) {
        let batch = (first..records.min(first + AT_ONCE)).map(|number| {
            // Every `repeats`-th URL is new; the others are spread over earlier ones.
            let fresh = number * LINKS / repeats;
            let site = site(number);
            let url = |link: u64| {
                let page = match link % repeats {
                    0 => fresh + link / repeats,
                    _ => {
                        number.wrapping_mul(LINKS).wrapping_add(link).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (fresh + 1)
                    }
                };
                format!("https://www.{site}/section/{}/page-{page}.html", page % 100)
            };
            let urls: Vec<_> = (0..LINKS).map(url).collect();
            let via = Some(format!("https://www.{site}/"));
            let message = Discovered {
                crawl: CrawlName::default(),
                site: site.as_str().into(),
                via,
                depth: 1,
                sighting: DiscoveryKind::Link,
                chain: vec![],
                trail: orbweaver_messages::Trail::default(),
                content: None,
                priority: Priority::default(),
                metadata: SeedMetadata::default(),
                urls,
                modified_ms: vec![],
                found_at_ms: now,
            };
            record(topic::DISCOVERED, &site, partitions, encode(&message), now)
        });
        cluster.log.append(batch.collect()).await?;
    }
    Ok(())
}

/// Fills `crawl.scheduled` with dispatches.
async fn dispatch(cluster: &Cluster, partitions: u32, dispatches: u64) -> Result<()> {
    let now = SystemClock.now();
    for first in (0..dispatches).step_by(AT_ONCE as usize) {
        let batch = (first..dispatches.min(first + AT_ONCE)).map(|number| {
            let site = site(number);
            let url = format!("https://www.{site}/section/page-{number}.html");
            let context = UrlContext {
                depth: 1,
                sighting: DiscoveryKind::Link,
                via: Some(format!("https://www.{site}/")),
                ..UrlContext::of_seed(CrawlName::default(), url, site.as_str().into())
            };
            let id = DispatchId { epoch: 0, sequence: number };
            let message = Dispatch {
                not_after_ms: now + 3_600_000,
                expires_ms: now + 7_200_000,
                ..Dispatch::of(&FrontierUrl::admitted(context, now), id, false, now)
            };
            record(topic::SCHEDULED, &site, partitions, encode(&message), now)
        });
        cluster.log.append(batch.collect()).await?;
    }
    Ok(())
}

fn site(number: u64) -> String {
    format!("site-{}.org", number % SITES)
}

fn record(topic: Topic, site: &str, partitions: u32, value: bytes::Bytes, now: Millis) -> Record {
    let tp = TopicPartition::new(topic, partition_of(slot_of(site), partitions));
    Record {
        tp,
        key: Some(bytes::Bytes::copy_from_slice(site.as_bytes())),
        value: Some(value),
        headers: vec![],
        timestamp_ms: now,
    }
}
