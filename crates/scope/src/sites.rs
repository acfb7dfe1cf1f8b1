//! Settings of single sites, as read from `crawl.control`: key `site/SITE`, in partition 0.

use std::collections::BTreeMap;

use orbweaver_messages::{SITE_KEY, SiteSettings, decode};
use orbweaver_url::SiteName;

use crate::{
    ControlRecord, DEFINITIONS_PARTITION, Version,
    setting::{Content, Setting},
};

/// The settings of all sites that have any, up to the offset that was read.
#[derive(Debug, Default)]
pub struct SiteControls {
    sites: BTreeMap<SiteName, Setting<SiteSettings>>,
}

/// Effect of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteChange {
    /// No effect: another setting, a version that does not apply, or one that was read before.
    Nothing,
    /// Other settings apply to this site from now on, or none.
    Applied(SiteName),
    /// No effect: the settings of this site are unreadable, or in a partition in which their offset is not a version.
    Refused(SiteName),
}

impl SiteControls {
    /// Applies a record of `crawl.control`. Records must be in log order.
    pub fn apply(&mut self, record: ControlRecord<'_>) -> SiteChange {
        let ControlRecord { partition, offset, key, value } = record;
        let key = key.and_then(|key| std::str::from_utf8(key).ok());
        let Some(site) = key.and_then(|key| key.strip_prefix(SITE_KEY)) else { return SiteChange::Nothing };
        let site = SiteName::from(site);
        if partition != DEFINITIONS_PARTITION {
            return SiteChange::Refused(site);
        }
        let content = match decode::<SiteSettings>("site-settings", value) {
            _ if value.is_none() => Content::Tombstone,
            Ok(settings) if settings.site == site => {
                let replaces = settings.replaces.clone();
                Content::Value(SiteSettings { replaces: vec![], ..settings }, replaces)
            }
            Ok(_) | Err(_) => Content::Unreadable,
        };
        let is_unreadable = matches!(content, Content::Unreadable);
        let applies = self.sites.entry(site.clone()).or_default().read(offset, content);
        match (applies, is_unreadable) {
            (true, _) => SiteChange::Applied(site),
            (false, true) => SiteChange::Refused(site),
            (false, false) => SiteChange::Nothing,
        }
    }

    /// Returns the settings of a site that apply; `None` if it has none.
    #[must_use]
    pub fn of(&self, site: &str) -> Option<&SiteSettings> {
        self.sites.get(site)?.value()
    }

    /// Returns the settings of all sites that have any, by name.
    pub fn all(&self) -> impl Iterator<Item = &SiteSettings> {
        self.sites.values().filter_map(Setting::value)
    }

    /// Returns the version of the settings of a site that apply.
    #[must_use]
    pub fn version(&self, site: &str) -> Option<Version> {
        self.sites.get(site)?.version()
    }

    /// Returns `true` if no request may be sent to the site.
    #[must_use]
    pub fn is_frozen(&self, site: &str) -> bool {
        self.of(site).is_some_and(|settings| settings.frozen)
    }

    /// Returns `true` if the record at this offset has ever applied to the site.
    #[must_use]
    pub fn has_applied(&self, site: &str, version: Version) -> bool {
        self.sites.get(site).is_some_and(|setting| setting.has_applied(version))
    }

    /// Returns the record to append so that these settings apply.
    #[must_use]
    pub fn following(&self, settings: SiteSettings) -> SiteSettings {
        let replaces = self.sites.get(&settings.site).map(Setting::to_replace).unwrap_or_default();
        SiteSettings { replaces, ..settings }
    }

    /// Returns the record to append so that a skipped record of the site cannot apply after compaction.
    #[must_use]
    pub fn repair(&self, site: &str) -> Option<SiteSettings> {
        let settings = self.of(site)?;
        let setting = self.sites.get(site)?;
        setting.wants_repair(settings).then(|| self.following(settings.clone()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_messages::{encode, site_key};

    use super::*;

    fn frozen(frozen: bool) -> SiteSettings {
        SiteSettings { frozen, ..SiteSettings::of("a.example".into(), 0) }
    }

    fn apply(controls: &mut SiteControls, offset: u64, settings: Option<&SiteSettings>) -> bool {
        let (key, value) = (site_key("a.example"), settings.map(encode));
        let applied = SiteChange::Applied("a.example".into());
        applied
            == controls.apply(ControlRecord { partition: 0, offset, key: Some(key.as_bytes()), value: value.as_ref() })
    }

    #[test]
    fn settings_apply_if_they_name_the_version_in_force_and_a_tombstone_ends_them() {
        let mut controls = SiteControls::default();
        assert!(apply(&mut controls, 3, Some(&frozen(true))));
        assert!(controls.is_frozen("a.example") && !controls.is_frozen("b.example"));
        assert!(!apply(&mut controls, 4, Some(&frozen(false))), "it names no version");
        assert!(controls.is_frozen("a.example") && !controls.has_applied("a.example", 4));
        let repair = controls.repair("a.example").unwrap();
        assert_eq!((repair.frozen, &repair.replaces), (true, &vec![3, 4]));
        assert!(apply(&mut controls, 5, Some(&repair)));
        assert_eq!((controls.repair("a.example"), controls.version("a.example")), (None, Some(5)));
        let thaw = controls.following(frozen(false));
        assert!(apply(&mut controls, 6, Some(&thaw)));
        assert!(!controls.is_frozen("a.example"));
        assert!(apply(&mut controls, 7, None));
        assert_eq!(controls.of("a.example"), None);
    }

    #[test]
    fn a_record_that_is_not_of_the_site_or_the_partition_changes_nothing() {
        let mut controls = SiteControls::default();
        let value = encode(&frozen(true));
        let refused = |site: &str| SiteChange::Refused(site.into());
        for (partition, key, change) in [
            (0, "site/b.example", refused("b.example")),
            (1, "site/a.example", refused("a.example")),
            (0, "crawl/a.example", SiteChange::Nothing),
        ] {
            let record = ControlRecord { partition, offset: 9, key: Some(key.as_bytes()), value: Some(&value) };
            assert_eq!(controls.apply(record), change, "{key}");
        }
        let broken = Bytes::from_static(b"{");
        let record = ControlRecord { partition: 0, offset: 10, key: Some(b"site/a.example"), value: Some(&broken) };
        assert_eq!(controls.apply(record), refused("a.example"));
        assert_eq!(controls.of("a.example"), None);
    }
}
