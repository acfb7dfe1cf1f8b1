//! Permitted changes of a running crawl.

use orbweaver_messages::{CrawlDefinition, CrawlOrder, FetchProfile, Millis, RevisitPolicy, Scope, Traps};
use orbweaver_url::CrawlName;

use crate::{
    order, profile, revisit,
    rules::{PatternError, Rules},
    setting_error::SettingError,
};

/// Changes to a crawl; fields that are `None` stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision {
    /// New scope; it may only become wider.
    pub scope: Option<Scope>,
    /// Include patterns that replace all present ones.
    pub include: Option<Vec<String>>,
    /// Exclude patterns that replace all present ones.
    pub exclude: Option<Vec<String>>,
    /// New depth limit; `Some(None)` for no limit.
    pub max_depth: Option<Option<u16>>,
    /// Whether links that lead out of the crawl are checked.
    pub check_external: Option<bool>,
    /// New page limit; `Some(None)` for no limit.
    pub max_pages: Option<Option<u64>>,
    /// New limit of pages per site; `Some(None)` for no limit.
    pub max_pages_per_site: Option<Option<u64>>,
    /// New limit of bytes; `Some(None)` for no limit.
    pub max_bytes: Option<Option<u64>>,
    /// New end, in milliseconds since the Unix epoch; `Some(None)` for none.
    pub ends_at_ms: Option<Option<Millis>>,
    /// New trap mode.
    pub traps: Option<Traps>,
    /// Whether the crawl is paused.
    pub paused: Option<bool>,
    /// Whether the crawl is stopped; a stopped crawl cannot continue.
    pub stopped: Option<bool>,
    /// Whether the crawl, which has been stopped, is deleted; nothing changes after that.
    pub deleted: bool,
    /// New fetch profile, in place of the present one.
    pub profile: Option<FetchProfile>,
    /// New order, for URLs that are admitted from now on.
    pub order: Option<CrawlOrder>,
    /// New share.
    pub share: Option<u32>,
    /// New revisit policy; `Some(None)` for no revisits: each URL then ends with its next visit.
    pub revisit: Option<Option<RevisitPolicy>>,
}

/// Reason why a crawl cannot be changed as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The scope would become narrower.
    #[error(
        "the scope of the crawl `{crawl}` is `{was}` and cannot become `{is}`, which is narrower: \
         the scopes of its seeds are recorded as `{was}`; narrow it with include and exclude patterns, or create \
         another crawl"
    )]
    Narrower {
        crawl: CrawlName,
        /// The present scope.
        was: &'static str,
        /// The requested scope.
        is: &'static str,
    },
    /// The crawl has been stopped.
    #[error("the crawl `{0}` has been stopped and cannot continue; create another crawl")]
    Stopped(CrawlName),
    /// The crawl has not been stopped.
    #[error("the crawl `{0}` has not been stopped; stop it before it is deleted")]
    Running(CrawlName),
    /// The crawl has been deleted.
    #[error("the crawl `{0}` has been deleted; create another crawl")]
    Deleted(CrawlName),
    /// A setting that determines the partitions and keys of records would change.
    #[error(
        "the {what} of the crawl `{crawl}` was `{was}` when it was created and is now `{is}`: it cannot change, \
         since the keys of its pages depend on it; create another crawl"
    )]
    Pinned {
        crawl: CrawlName,
        /// The pinned setting.
        what: &'static str,
        /// The value at the crawl's creation.
        was: String,
        /// The requested value.
        is: String,
    },
    /// The patterns are unusable.
    #[error(transparent)]
    Patterns(#[from] PatternError),
    /// A setting of the fetch profile, of the order or of the revisit policy is unusable.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl Revision {
    /// Returns the revised definition of a crawl.
    pub fn of(self, current: &CrawlDefinition) -> Result<CrawlDefinition, RevisionError> {
        if self.deleted {
            let revised = deleted(current);
            return changes(current, &revised).map(|()| revised);
        }
        let revised = CrawlDefinition {
            scope: self.scope.unwrap_or(current.scope),
            include: self.include.unwrap_or_else(|| current.include.clone()),
            exclude: self.exclude.unwrap_or_else(|| current.exclude.clone()),
            max_depth: self.max_depth.unwrap_or(current.max_depth),
            check_external: self.check_external.unwrap_or(current.check_external),
            max_pages: self.max_pages.unwrap_or(current.max_pages),
            max_pages_per_site: self.max_pages_per_site.unwrap_or(current.max_pages_per_site),
            max_bytes: self.max_bytes.unwrap_or(current.max_bytes),
            ends_at_ms: self.ends_at_ms.unwrap_or(current.ends_at_ms),
            traps: self.traps.unwrap_or(current.traps),
            paused: self.paused.unwrap_or(current.paused),
            stopped: self.stopped.unwrap_or(current.stopped),
            profile: self.profile.unwrap_or_else(|| current.profile.clone()),
            order: self.order.unwrap_or(current.order),
            share: self.share.unwrap_or(current.share),
            revisit: self.revisit.unwrap_or_else(|| current.revisit.clone()),
            ..current.clone()
        };
        changes(current, &revised)?;
        profile::check(&revised.profile)?;
        order::check(&revised.order, revised.share)?;
        revisit::check(revised.revisit.as_ref())?;
        Rules::compile(&revised)?;
        Ok(revised)
    }
}

/// Returns `true` if the definitions differ at most in the versions that they replace.
fn is_same(one: &CrawlDefinition, other: &CrawlDefinition) -> bool {
    CrawlDefinition { replaces: one.replaces.clone(), ..other.clone() } == *one
}

/// Returns the definition of a crawl after its deletion, without the settings that have no effect any longer.
fn deleted(current: &CrawlDefinition) -> CrawlDefinition {
    CrawlDefinition {
        include: vec![],
        exclude: vec![],
        max_depth: None,
        check_external: false,
        max_pages: None,
        max_pages_per_site: None,
        max_bytes: None,
        ends_at_ms: None,
        profile: FetchProfile::default(),
        order: CrawlOrder::default(),
        revisit: None,
        deleted: true,
        ..current.clone()
    }
}

/// Checks whether one definition of a crawl may be changed into another.
pub(crate) fn changes(from: &CrawlDefinition, to: &CrawlDefinition) -> Result<(), RevisionError> {
    let crawl = &from.name;
    if from.deleted && !is_same(from, to) {
        return Err(RevisionError::Deleted(crawl.clone()));
    }
    if to.deleted && !from.stopped {
        return Err(RevisionError::Running(crawl.clone()));
    }
    if from.stopped && (to.paused || !to.stopped) {
        return Err(RevisionError::Stopped(crawl.clone()));
    }
    let pinned = |what, was: String, is: String| match was == is {
        true => Ok(()),
        false => Err(RevisionError::Pinned { crawl: crawl.clone(), what, was, is }),
    };
    pinned("number of partitions", from.pins.partitions.to_string(), to.pins.partitions.to_string())?;
    pinned("suffix list", from.pins.suffix_list.clone(), to.pins.suffix_list.clone())?;
    pinned("canonical policy", from.pins.canonical_policy.clone(), to.pins.canonical_policy.clone())?;
    pinned("list of wide domains", from.pins.wide_domains.join(" "), to.pins.wide_domains.join(" "))?;
    if to.scope < from.scope {
        let (was, is) = (from.scope.name(), to.scope.name());
        return Err(RevisionError::Narrower { crawl: crawl.clone(), was, is });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> CrawlDefinition {
        serde_json::from_str(include_str!("../../../schemas/examples/crawl-definition/1/host.json")).unwrap()
    }

    #[test]
    fn what_is_given_changes_and_all_else_stays() {
        let revision =
            Revision { max_depth: Some(None), include: Some(vec!["/guide/".to_owned()]), ..Revision::default() };
        let revised = revision.of(&host()).unwrap();
        assert_eq!((revised.max_depth, &*revised.include), (None, &["/guide/".to_owned()][..]));
        assert_eq!(CrawlDefinition { max_depth: Some(5), include: vec![], ..revised }, host());
        assert_eq!(Revision::default().of(&host()), Ok(host()));
        let capped = Revision { max_pages: Some(Some(100)), ..Revision::default() }.of(&host()).unwrap();
        assert_eq!(CrawlDefinition { max_pages: None, ..capped.clone() }, host());
        for max_pages in [None, Some(7), Some(1000)] {
            let revised = Revision { max_pages: Some(max_pages), ..Revision::default() }.of(&capped).unwrap();
            assert_eq!(revised.max_pages, max_pages, "more, fewer, none");
        }
    }

    #[test]
    fn a_scope_becomes_wider_and_never_narrower() {
        for scope in [Scope::Path, Scope::Host, Scope::Site, Scope::Any] {
            let revised = Revision { scope: Some(scope), ..Revision::default() }.of(&host());
            assert_eq!(revised.is_ok(), scope >= Scope::Host, "{scope:?}");
        }
    }

    #[test]
    fn a_stopped_crawl_neither_continues_nor_pauses() {
        let stopped = Revision { stopped: Some(true), ..Revision::default() }.of(&host()).unwrap();
        for revision in [
            Revision { stopped: Some(false), ..Revision::default() },
            Revision { paused: Some(true), ..Revision::default() },
        ] {
            assert_eq!(revision.of(&stopped), Err(RevisionError::Stopped("docs".parse().unwrap())));
        }
        assert!(Revision { max_pages: Some(None), ..Revision::default() }.of(&stopped).is_ok());
    }

    #[test]
    fn a_crawl_is_deleted_after_its_stop_and_does_not_change_after_that() {
        let delete = || Revision { deleted: true, ..Revision::default() };
        assert_eq!(delete().of(&host()), Err(RevisionError::Running("docs".parse().unwrap())));
        let stopped = Revision { stopped: Some(true), ..Revision::default() }.of(&host()).unwrap();
        let deleted = delete().of(&stopped).unwrap();
        assert!(deleted.deleted && deleted.stopped && deleted.exclude.is_empty());
        assert_eq!(delete().of(&deleted).as_ref(), Ok(&deleted), "again");
        let changed = Revision { max_pages: Some(Some(7)), ..Revision::default() }.of(&deleted);
        assert_eq!(changed, Err(RevisionError::Deleted("docs".parse().unwrap())));
    }

    #[test]
    fn pins_are_named_with_both_values() {
        let mut other = host();
        other.pins.wide_domains = vec!["example.edu".to_owned()];
        let error = changes(&host(), &other).unwrap_err().to_string();
        assert!(error.starts_with("the list of wide domains of the crawl `docs` was `` when"), "{error}");
        assert!(error.contains("is now `example.edu`"), "{error}");
    }
}
