//! Observations of an existing log: commits, dead letters, crawls.

use std::collections::BTreeSet;

use orbweaver_log::{Log, LogError, topic_partitions};
use orbweaver_messages::{Topic, topic, topic::CONTROL};
use orbweaver_process::declared_groups;
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot};
use orbweaver_url::CrawlName;

use super::{
    crawls::{CrawlsSeen, Refused},
    progress::{Reading, Waits},
};
use crate::{
    cluster::caps::Caps,
    crawl::site_settings::controls,
    exit::{Failure, failed},
};

/// Groups of services, and groups that `crawl.control` declares, each with the topics that exist.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<GroupTopic>,
    pub(super) declared: BTreeSet<String>,
}

impl Pairs {
    /// Returns the groups of the services, in the order in which records pass them, and the declared ones.
    pub(super) async fn read(log: &dyn Log) -> Result<Self, LogError> {
        let exists = |topic: Topic| log.partitions(topic).is_ok();
        let mut pairs = vec![];
        for described in topic::topics().iter().filter(|described| exists(described.topic)) {
            let of = |group: &&str| GroupTopic { group: (*group).to_owned(), topic: described.topic };
            pairs.extend(described.consumers.iter().map(of));
        }
        let mut declared = BTreeSet::new();
        if exists(CONTROL) {
            for group in declared_groups::declared(log).await?.groups() {
                let topics = group.topics.iter().filter_map(|name| topic::named(name)).filter(|topic| exists(*topic));
                pairs.extend(topics.map(|topic| GroupTopic { group: group.group.clone(), topic }));
                declared.insert(group.group.clone());
            }
        }
        Ok(Self { pairs, declared })
    }
}

/// Reads offsets and commits of these groups.
pub(super) async fn reading(log: &dyn Log, pairs: &[GroupTopic]) -> Result<Reading, Failure> {
    let offsets = OffsetSnapshot::take(log, pairs).await.map_err(failed)?;
    let mut commits = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let tps = topic_partitions(log, &[pair.topic]).map_err(failed)?;
        commits.push(log.committed(&pair.group, &tps).await.map_err(failed)?);
    }
    Ok(Reading { offsets, commits })
}

/// Reads crawls and settings of sites.
pub(super) async fn crawls(log: &dyn Log) -> Result<CrawlsSeen, Failure> {
    let (mut caps, mut names) = (Caps::default(), BTreeSet::<CrawlName>::new());
    caps.update(log, |record| {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        names.extend(key.and_then(|key| key.strip_prefix("crawl/")).and_then(|name| CrawlName::new(name).ok()));
    })
    .await?;
    let definitions = caps.definitions();
    let refused = names.iter().filter_map(|name| {
        let reason = definitions.refused(name)?.to_string();
        Some(Refused { crawl: name.to_string(), reason, applies: definitions.applied(name).is_some() })
    });
    let capped = caps.crawls().into_iter().filter(|crawl| crawl.at_cap).map(|crawl| crawl.crawl.to_string());
    let has_sleeping = definitions.all().any(|(name, _)| caps.counts(name).asleep > 0);
    Ok(CrawlsSeen {
        crawls: definitions.all().count(),
        stopped: definitions.all().filter(|(_, applied)| applied.definition.stopped).count(),
        refused: refused.collect(),
        waits: Waits {
            paused: caps.paused().iter().map(ToString::to_string).collect(),
            capped: capped.collect(),
            frozen_sites: controls(log).await?.all().filter(|site| site.frozen).count(),
            has_sleeping,
        },
    })
}
