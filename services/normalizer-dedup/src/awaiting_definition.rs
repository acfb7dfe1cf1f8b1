//! Records of crawls without a usable definition: held until the absence of one is proven, then rejected. Seeds of stopped
//! crawls: held until it is certain that no other crawl was created with the name.

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, crawl_key, encode, topic};
use orbweaver_seen::SeenError;
use orbweaver_stage::{Origin, Token};
use orbweaver_url::CrawlName;

use crate::{
    crawls::CrawlLookup,
    stage::{NormalizerDedup, Wanted},
};

/// Record whose crawl has no usable definition, or has been stopped, in the part of `crawl.control` read so far. A definition written before
/// the record may still be unread, since it is in another log; one may also be written shortly after it.
#[derive(Debug)]
struct Held {
    origin: Origin,
    record: ConsumerRecord,
    crawl: CrawlName,
    /// Refresh of `crawl.control` requested after the record arrived.
    refresh: Token,
    /// End of the grace time, in milliseconds since the Unix epoch.
    until: Millis,
}

/// All held records, oldest first. Bounded by the budget, to which they are charged.
#[derive(Debug, Default)]
pub(crate) struct AwaitingDefinition {
    held: Vec<Held>,
    next_refresh: Token,
    /// Refreshes with a lower token are complete.
    refreshed: Token,
    /// `true` if a record waits for the next refresh.
    wants_refresh: bool,
}

impl AwaitingDefinition {
    /// Holds a record until a refresh that starts after this call is complete and `until` has passed.
    pub(crate) fn hold(&mut self, origin: Origin, record: ConsumerRecord, crawl: CrawlName, until: Millis) {
        self.wants_refresh = true;
        self.held.push(Held { origin, record, crawl, refresh: self.next_refresh, until });
    }

    /// Returns the refresh to request for records held since the last call.
    pub(crate) fn take_refresh(&mut self) -> Option<Token> {
        let refresh = std::mem::take(&mut self.wants_refresh).then_some(self.next_refresh)?;
        self.next_refresh += 1;
        Some(refresh)
    }

    /// Completes a refresh. Refreshes complete in the order of their requests.
    pub(crate) fn end_refresh(&mut self, refresh: Token) {
        self.refreshed = self.refreshed.max(refresh + 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the earliest time at which a record may be rejected; `None` while every record waits for a refresh.
    pub(crate) fn next(&self) -> Option<Millis> {
        let refreshed = self.held.iter().filter(|held| held.refresh < self.refreshed);
        refreshed.map(|held| held.until).min()
    }

    pub(crate) fn is_due(&self, now: Millis) -> bool {
        self.next().is_some_and(|until| now >= until)
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.held.retain(|held| held.origin.tp.partition != partition);
    }
}

impl NormalizerDedup {
    /// Holds a record whose crawl has no usable definition. Only an absent definition has a grace time: an unusable one
    /// has already arrived.
    pub(crate) fn hold(&mut self, origin: Origin, record: ConsumerRecord, crawl: &CrawlName, now: Millis) {
        let absent = matches!(self.crawls.find(crawl), CrawlLookup::Unknown);
        let grace_ms = if absent { self.config.definition_grace_ms } else { 0 };
        self.held.hold(origin, record, crawl.clone(), now.saturating_add(grace_ms));
    }

    /// Processes the held records whose crawl is now defined, and rejects those that are due.
    pub(crate) fn look_again(&mut self, now: Millis, actions: &mut Wanted) -> Result<(), SeenError> {
        let mut define = false;
        for held in std::mem::take(&mut self.held.held) {
            let creates = self.config.creates_default_crawl && held.crawl == self.config.default_crawl;
            let reason = match self.crawls.find(&held.crawl) {
                CrawlLookup::Defined(rules, _) => {
                    if held.origin.tp.topic != topic::SEEDS {
                        self.one(held.origin, held.record, now, actions)?;
                    } else if rules.applied.rules.is_stopped() && held.refresh >= self.held.refreshed {
                        self.held.held.push(held);
                    } else if let Err(reason) = self.forward_held(held.origin, &held.record, now) {
                        self.reject(held.origin, reason, actions);
                    }
                    continue;
                }
                _ if held.refresh >= self.held.refreshed || now < held.until => {
                    self.held.held.push(held);
                    continue;
                }
                CrawlLookup::Unknown if creates => {
                    // The record waits until the new definition is read back, as in all other instances.
                    let until = now.saturating_add(self.config.definition_grace_ms.max(1));
                    self.held.hold(held.origin, held.record, held.crawl, until);
                    define = true;
                    continue;
                }
                CrawlLookup::Unknown => format!(
                    "there is no crawl `{}`; create it first, then replay the dead letter: {} has no definition of it",
                    held.crawl,
                    topic::CONTROL
                ),
                CrawlLookup::Unusable(reason) => {
                    format!("the definition of the crawl `{}` cannot be used: {reason}", held.crawl)
                }
            };
            self.reject(held.origin, reason, actions);
        }
        if define {
            actions.produce(vec![self.default_definition(now)], vec![]);
        }
        self.end_call(now, actions);
        Ok(())
    }

    /// Creates the record that defines the default crawl. Several instances may write one concurrently: the last
    /// applies, and all have the same configuration.
    fn default_definition(&self, now: Millis) -> Record {
        let crawl = &self.config.default_crawl;
        let definition = self.config.definition(self.partitions, now);
        tracing::info!(%crawl, scope = ?definition.scope, "the default crawl has no definition: writing one");
        let tp = TopicPartition::new(topic::CONTROL, 0);
        Record::new(tp, Some(Bytes::from(crawl_key(crawl))), Some(encode(&definition)), now)
    }
}
