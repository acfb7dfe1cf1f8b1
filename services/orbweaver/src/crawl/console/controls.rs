//! Changes by users of the console: settings in `crawl.control`, and the end of the crawl.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::BoxFuture;
use orbweaver_log::Log;
use orbweaver_messages::{Millis, SiteSettings, crawl_key, site_key};
use orbweaver_scope::Revision;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::SiteName;
use orbweaver_urlstore::{
    live::{Action, AppliedSetting, Controls, DeadLettersAnswer, SettingsAnswer, SiteChange, SiteSetting},
    problem::{Kind, Problem},
};
use tokio_util::sync::CancellationToken;

use super::crawl;
use crate::{
    crawl::{
        dead_letters::newest,
        definition::{definitions, revise},
        site_settings,
    },
    exit::Failure,
    export::rfc3339,
};

/// State that users have changed, as the figures show it.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    paused: AtomicBool,
    frozen: Mutex<BTreeSet<SiteName>>,
    pub(super) stop: CancellationToken,
}

impl Wishes {
    pub(super) fn new(frozen: BTreeSet<SiteName>) -> Self {
        Self { frozen: Mutex::new(frozen), ..Self::default() }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn frozen(&self) -> Vec<String> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner).iter().map(ToString::to_string).collect()
    }

    fn freeze(&self, site: &SiteName, frozen: bool) {
        let mut sites = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen {
            sites.insert(site.clone());
        } else {
            sites.remove(site);
        }
    }
}

/// Controls of the crawl of a log.
pub(super) struct LogControls {
    log: Arc<dyn Log>,
    wishes: Arc<Wishes>,
}

impl LogControls {
    pub(super) fn new(log: Arc<dyn Log>, wishes: Arc<Wishes>) -> Self {
        Self { log, wishes }
    }

    async fn pause(&self, paused: bool) -> Result<(), Problem> {
        let revision = Revision { paused: Some(paused), ..Revision::default() };
        revise(&*self.log, &crawl(), |_| revision, None, SystemClock.now()).await.map_err(|error| problem(&error))?;
        self.wishes.paused.store(paused, Ordering::Relaxed);
        Ok(())
    }

    async fn named(&self, site: &str) -> Result<SiteName, Problem> {
        site_settings::site_of(&*self.log, site).await.map_err(|error| match error {
            Failure::Usage(detail) => Problem::invalid("site", detail, "a site, or a host or URL of it"),
            error => problem(&error),
        })
    }

    async fn setting(&self, site: SiteName) -> Result<SiteSetting, Problem> {
        let controls = site_settings::controls(&*self.log).await.map_err(|error| problem(&error))?;
        Ok(shown(&site, controls.of(&site)))
    }

    async fn all(&self) -> Result<SettingsAnswer, Problem> {
        let failed = |error: Failure| problem(&error);
        let crawls = definitions(&*self.log).await.map_err(failed)?;
        let applied =
            |key: String, version, at: Millis, value| AppliedSetting { key, version, time: rfc3339(at), value };
        let mut settings = vec![];
        for (name, crawl) in crawls.all() {
            let value = serde_json::to_value(&crawl.definition).unwrap_or_default();
            settings.push(applied(crawl_key(name), crawl.version, crawl.definition.created_at_ms, value));
        }
        let sites = site_settings::controls(&*self.log).await.map_err(failed)?;
        for site in sites.all() {
            let value = serde_json::to_value(site).unwrap_or_default();
            let version = sites.version(&site.site).unwrap_or_default();
            settings.push(applied(site_key(&site.site), version, site.set_at_ms, value));
        }
        Ok(SettingsAnswer { settings })
    }
}

impl Controls for LogControls {
    fn act(&self, action: Action) -> BoxFuture<'_, Result<(), Problem>> {
        Box::pin(async move {
            tracing::info!(?action, "a user of the console changes the crawl");
            match action {
                Action::Pause => self.pause(true).await,
                Action::Resume => self.pause(false).await,
                Action::Stop => {
                    self.wishes.stop.cancel();
                    Ok(())
                }
            }
        })
    }

    fn site(&self, site: String) -> BoxFuture<'_, Result<SiteSetting, Problem>> {
        Box::pin(async move { self.setting(self.named(&site).await?).await })
    }

    fn change_site(&self, site: String, change: SiteChange) -> BoxFuture<'_, Result<SiteSetting, Problem>> {
        Box::pin(async move {
            let site = self.named(&site).await?;
            let edit = |settings: &mut SiteSettings| {
                settings.frozen = change.frozen;
                settings.interval_ms = change.requests_per_second.map(interval_ms);
            };
            tracing::info!(%site, ?change, "a user of the console changes a site");
            site_settings::change(&*self.log, &site, None, edit).await.map_err(|error| problem(&error))?;
            self.wishes.freeze(&site, change.frozen);
            self.setting(site).await
        })
    }

    fn dead_letters(&self, cursor: Option<String>, limit: usize) -> BoxFuture<'_, Result<DeadLettersAnswer, Problem>> {
        Box::pin(async move {
            let ends = cursor.as_deref().map(ends).transpose()?;
            let found = newest(&*self.log, ends, limit).await;
            let (letters, ends) = found.map_err(|error| Problem::new(Kind::Unavailable, error.to_string()))?;
            let dead_letters = letters.iter().map(|letter| serde_json::to_value(letter).unwrap_or_default()).collect();
            let next = ends.map(|ends| ends.iter().map(ToString::to_string).collect::<Vec<_>>().join("-"));
            Ok(DeadLettersAnswer { dead_letters, next })
        })
    }

    fn settings(&self) -> BoxFuture<'_, Result<SettingsAnswer, Problem>> {
        Box::pin(self.all())
    }
}

/// Reads a cursor of dead letters: the offset of each partition up to which they are left.
fn ends(cursor: &str) -> Result<Vec<u64>, Problem> {
    let ends: Result<Vec<u64>, _> = cursor.split('-').map(str::parse).collect();
    ends.map_err(|_| {
        Problem::invalid("cursor", "the value is not a cursor of this list", "`next` of the previous answer")
    })
}

fn shown(site: &SiteName, settings: Option<&SiteSettings>) -> SiteSetting {
    #[allow(clippy::cast_precision_loss, reason = "a human-readable rate")]
    let rate = |ms: u64| 1000.0 / ms.max(1) as f64;
    SiteSetting {
        site: site.to_string(),
        frozen: settings.is_some_and(|settings| settings.frozen),
        requests_per_second: settings.and_then(|settings| settings.interval_ms).map(rate),
        changed_at: settings.map(|settings| rfc3339(settings.set_at_ms)),
    }
}

/// Returns the interval of a rate from 0.001 to 10 requests per second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "100 to 1,000,000")]
fn interval_ms(rate: f64) -> u64 {
    (1000.0 / rate).round().clamp(100.0, 1_000_000.0) as u64
}

/// Returns the problem of a change that failed.
fn problem(error: &Failure) -> Problem {
    let kind = match error {
        Failure::Usage(_) | Failure::Stopped(_) => Kind::Conflict,
        _ => Kind::Unavailable,
    };
    Problem::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::{
        Scope,
        topic::{CONTROL, DEAD_LETTERS},
    };
    use orbweaver_url::Policy;

    use super::*;
    use crate::crawl::definition;

    async fn controls() -> LogControls {
        let topics = [(CONTROL, Cleanup::Compact), (DEAD_LETTERS, Cleanup::Delete)];
        let log = MemoryLog::new(&topics.map(|(topic, cleanup)| TopicSpec::new(topic, 2, cleanup)));
        let pins = definition::pins(2, Policy::STANDARD, vec![]);
        definition::write(&log, &definition::new(&crawl(), Scope::Host, pins, 5), 5).await.unwrap();
        LogControls::new(Arc::new(log), Arc::default())
    }

    #[tokio::test]
    async fn a_pause_and_its_end_are_definitions_of_the_crawl() {
        let controls = controls().await;
        for (action, paused) in [(Action::Pause, true), (Action::Pause, true), (Action::Resume, false)] {
            controls.act(action).await.unwrap();
            let definition = definition::find(&*controls.log, &crawl()).await.unwrap().unwrap();
            assert_eq!((definition.paused, controls.wishes.is_paused()), (paused, paused));
        }
        assert!(!controls.wishes.stop.is_cancelled());
        controls.act(Action::Stop).await.unwrap();
        assert!(controls.wishes.stop.is_cancelled());
    }

    #[tokio::test]
    async fn the_setting_of_a_site_is_found_by_its_hosts_and_ends_with_the_next_one() {
        let controls = controls().await;
        let none = controls.site("www.example.org".to_owned()).await.unwrap();
        assert_eq!((&*none.site, none.frozen, none.changed_at), ("example.org", false, None));
        let change = SiteChange { frozen: true, requests_per_second: Some(0.5) };
        let changed = controls.change_site("https://www.example.org/a".to_owned(), change).await.unwrap();
        assert_eq!((&*changed.site, changed.frozen, changed.requests_per_second), ("example.org", true, Some(0.5)));
        assert_eq!(controls.wishes.frozen(), ["example.org"]);
        let keys: Vec<_> = controls.settings().await.unwrap().settings.into_iter().map(|setting| setting.key).collect();
        assert_eq!(keys, ["crawl/default", "site/example.org"]);
        let thawed = SiteChange { frozen: false, requests_per_second: None };
        let changed = controls.change_site("example.org".to_owned(), thawed).await.unwrap();
        assert_eq!((changed.frozen, changed.requests_per_second), (false, None));
        assert!(changed.changed_at.is_some() && controls.wishes.frozen().is_empty());
    }

    #[tokio::test]
    async fn a_text_that_is_no_site_and_a_cursor_that_is_none_are_invalid() {
        let controls = controls().await;
        let site = controls.site("not a site".to_owned()).await.unwrap_err();
        assert_eq!((site.status, site.part.as_deref()), (400, Some("site")));
        for cursor in ["", "1-", "1-a", "-1", "99999999999999999999"] {
            let refused = controls.dead_letters(Some(cursor.to_owned()), 1).await.unwrap_err();
            assert_eq!((refused.status, refused.part.as_deref()), (400, Some("cursor")), "{cursor}");
        }
        let none = controls.dead_letters(Some("9-9".to_owned()), 1).await.unwrap();
        assert_eq!((none.dead_letters.len(), none.next), (0, None));
    }

    #[test]
    fn a_rate_is_kept_as_an_interval() {
        let kept: Vec<_> = [0.001, 0.3, 1.0, 10.0].into_iter().map(interval_ms).collect();
        assert_eq!(kept, [1_000_000, 3_333, 1_000, 100]);
    }
}
