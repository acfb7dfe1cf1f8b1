//! `orbweaver seed`: writes URLs to `crawl.seeds`.

use bytes::Bytes;
use orbweaver_log::Log;
use orbweaver_messages::Seed;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::CrawlName;

use super::{
    args::{Cluster, SeedArgs},
    connection::block_on,
};
use crate::{
    crawl::{
        definition,
        prepare::{check_readable, seed_urls},
        seeds::SeedWriter,
    },
    exit::{Failure, failed},
};

/// Runs `orbweaver seed`.
///
/// # Errors
/// Fails if a URL is malformed, the crawl is not defined or has been stopped, the file cannot be read, or the log fails.
pub fn run(args: &SeedArgs) -> Result<(), Failure> {
    // Before anything is written.
    seed_urls(&args.urls)?;
    if let Some(seeds) = &args.seeds {
        check_readable(seeds)?;
    }
    block_on(async {
        let log = args.cluster.connect().await?;
        let crawl = check_crawl(&log, &args.crawl, &args.cluster).await?;
        let (crawl, priority) = (Some(crawl), args.priority);
        let defaults = Seed { crawl, priority, ..Seed::of_url("") };
        let written = write(&log, &args.urls, args.seeds.as_deref(), defaults).await?;
        notice!("{written} seeds");
        Ok(())
    })
}

/// Returns the name of the crawl that this name means ([`definition::resolve`]). Fails if it is not defined, or has been
/// stopped.
pub(super) async fn check_crawl(log: &dyn Log, crawl: &CrawlName, cluster: &Cluster) -> Result<CrawlName, Failure> {
    let name = definition::resolve(log, crawl).await?;
    let Some(definition) = definition::find(log, &name).await? else {
        return Err(Failure::Usage(format!(
            "there is no crawl `{crawl}`: create it with `orbweaver crawls create {crawl} --brokers {}`, and the crawl \
             `{}` with `orbweaver topics create`",
            cluster.brokers,
            CrawlName::default()
        )));
    };
    if definition.stopped {
        return Err(Failure::Usage(format!("the crawl `{crawl}` has been stopped: it admits no seeds")));
    }
    Ok(name)
}

/// Writes URLs and the lines of a file, with the settings of `defaults` where they have none. Returns their number once all
/// are acknowledged.
pub async fn write(
    log: &dyn Log,
    urls: &[String],
    file: Option<&std::path::Path>,
    defaults: Seed,
) -> Result<u64, Failure> {
    let mut writer = SeedWriter::new(log, SystemClock.now()).map_err(failed)?.with_defaults(defaults);
    for url in urls {
        writer.add(Bytes::copy_from_slice(url.as_bytes())).await.map_err(failed)?;
    }
    if let Some(file) = file {
        writer.add_file(file).await?;
    }
    writer.flush().await.map_err(failed)?;
    Ok(writer.written())
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, TopicPartition, TopicSpec};
    use orbweaver_messages::topic::SEEDS;

    use super::*;

    #[test]
    fn a_url_that_cannot_be_crawled_is_named() {
        let error = seed_urls(&["example.org".to_owned(), "mailto:me@example.org".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("`mailto:me@example.org`"), "{error}");
        assert_eq!(error.code(), 64);
    }

    #[tokio::test]
    async fn every_seed_has_the_name_of_its_crawl_also_if_that_is_default_and_a_priority() {
        let log = MemoryLog::new(&[TopicSpec::new(SEEDS, 1, Cleanup::Delete)]);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seeds.txt");
        std::fs::write(&file, "example.com\n{\"url\":\"example.net\",\"crawl\":\"news\",\"priority\":-1}\n").unwrap();
        let (crawl, priority) = (Some(CrawlName::default()), 2.try_into().unwrap());
        let (urls, defaults) = (["example.org".to_owned()], Seed { crawl, priority, ..Seed::of_url("") });
        assert_eq!(write(&log, &urls, Some(&file), defaults).await.unwrap(), 3);
        let records = log.records(TopicPartition::new(SEEDS, 0));
        let values: Vec<Bytes> = records.into_iter().filter_map(|record| record.value).collect();
        let seeds = [
            r#"{"url":"example.org","crawl":"default","priority":2}"#,
            r#"{"url":"example.com","crawl":"default","priority":2}"#,
            r#"{"url":"example.net","crawl":"news","priority":-1}"#,
        ];
        assert_eq!(values, seeds);
    }
}
