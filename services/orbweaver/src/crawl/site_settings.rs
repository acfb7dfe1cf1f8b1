//! Settings of single sites in `crawl.control`: read, and changed.

use orbweaver_log::Log;
use orbweaver_messages::{SiteSettings, site_key};
use orbweaver_scope::{SiteControls, Version};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{SiteName, WideDomains, parse_seed};

use super::definition;
use crate::exit::{Failure, failed};

/// Returns the site of a URL, host or site, by the wide domains of the pipeline.
pub async fn site_of(log: &dyn Log, text: &str) -> Result<SiteName, Failure> {
    let url = parse_seed(text).map_err(|error| Failure::Usage(format!("`{text}` is not a site: {error}")))?;
    let wide = definition::wide_domains(log).await?.unwrap_or_default();
    let wide = WideDomains::new(&wide).map_err(|error| Failure::Output(error.to_string()))?;
    Ok(wide.site_of(&url).into())
}

/// Returns the settings of all sites.
pub async fn controls(log: &dyn Log) -> Result<SiteControls, Failure> {
    definition::read(log, |controls: &mut SiteControls, record| drop(controls.apply(record))).await
}

/// Changes the settings of a site. Returns the version that applies and, if it is a new one, which it replaces. With
/// `expected`, changes them only if that version applies now; 0: none.
pub async fn change(
    log: &dyn Log,
    site: &SiteName,
    expected: Option<Version>,
    edit: impl Fn(&mut SiteSettings),
) -> Result<(Version, Option<String>), Failure> {
    let before = controls(log).await?;
    let version = before.version(site);
    let first = |version: Option<Version>| {
        let version = version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
        Failure::Stopped(format!(
            "another change of the site `{site}` came first: {version} applies, and nothing was changed; check it with \
             `orbweaver site show`, then repeat the command"
        ))
    };
    if expected.is_some_and(|expected| expected != version.unwrap_or(0)) {
        return Err(first(version));
    }
    let was = before.of(site).cloned();
    let mut wanted = was.clone().unwrap_or_else(|| SiteSettings::of(site.clone(), 0));
    edit(&mut wanted);
    if let (Some(version), Some(_)) = (version, was.filter(|was| *was == wanted)) {
        return Ok((version, None));
    }
    let (key, now) = (site_key(site), SystemClock.now());
    wanted.set_at_ms = now;
    let own = definition::append(log, &key, &before.following(wanted), now).await?;
    let after =
        definition::read_back(log, &key, |log| Box::pin(controls(log)), |after| after.repair(site), now).await?;
    if !after.has_applied(site, own) {
        return Err(first(after.version(site)));
    }
    Ok((own, Some(version.map_or_else(String::new, |before| format!(", in place of {before}")))))
}

/// Records that are appended at once.
const BATCH: usize = 1000;

/// Sets the weights of sites, in percent, and leaves their other settings. Returns the number of weights that were not set before.
///
/// # Errors
/// Fails if other changes of some sites came first, or the log fails.
pub async fn weigh(log: &dyn Log, weights: &[(SiteName, u32)]) -> Result<usize, Failure> {
    let (before, now) = (controls(log).await?, SystemClock.now());
    let (mut changed, mut records) = (vec![], vec![]);
    for (site, weight) in weights {
        let was = before.of(site).cloned().unwrap_or_else(|| SiteSettings::of(site.clone(), now));
        if was.weight_percent.unwrap_or(100) == *weight {
            continue;
        }
        let wanted = SiteSettings { weight_percent: Some(*weight), set_at_ms: now, ..was };
        changed.push(site);
        records.push(definition::record(&site_key(site), &before.following(wanted), now));
    }
    let mut versions = vec![];
    for batch in records.chunks(BATCH) {
        versions.extend(log.append(batch.to_vec()).await.map_err(failed)?);
    }
    let mut after = controls(log).await?;
    let repairs: Vec<_> = changed.iter().filter_map(|site| after.repair(site)).collect();
    if !repairs.is_empty() {
        let record = |settings: &SiteSettings| definition::record(&site_key(&settings.site), settings, now);
        log.append(repairs.iter().map(record).collect()).await.map_err(failed)?;
        after = controls(log).await?;
    }
    let lost = changed.iter().zip(&versions).filter(|(site, version)| !after.has_applied(site, **version)).count();
    if lost > 0 {
        return Err(Failure::Stopped(format!(
            "other changes of {lost} of {} sites came first: these have not changed; repeat the command",
            changed.len()
        )));
    }
    Ok(changed.len())
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::topic::CONTROL;

    use super::*;

    fn log() -> MemoryLog {
        MemoryLog::new(&[TopicSpec { topic: CONTROL, partitions: 2, cleanup: Cleanup::Compact }])
    }

    #[tokio::test]
    async fn a_site_is_frozen_slowed_down_and_thawed_each_change_keeping_the_other() {
        let (log, site) = (log(), SiteName::from("a.example"));
        assert_eq!(
            change(&log, &site, None, |settings| settings.frozen = true).await.unwrap(),
            (0, Some(String::new()))
        );
        let slow = |settings: &mut SiteSettings| settings.interval_ms = Some(5000);
        assert_eq!(change(&log, &site, Some(0), slow).await.unwrap(), (1, Some(", in place of 0".to_owned())));
        assert_eq!(change(&log, &site, None, slow).await.unwrap(), (1, None));
        change(&log, &site, None, |settings| settings.frozen = false).await.unwrap();
        let settings = controls(&log).await.unwrap().of(&site).cloned().unwrap();
        assert_eq!((settings.frozen, settings.interval_ms), (false, Some(5000)));
    }

    #[tokio::test]
    async fn a_change_of_a_version_that_no_longer_applies_changes_nothing() {
        let (log, site) = (log(), SiteName::from("a.example"));
        change(&log, &site, Some(0), |settings| settings.frozen = true).await.unwrap();
        let error = change(&log, &site, Some(7), |settings| settings.frozen = false).await.unwrap_err();
        assert_eq!(error.code(), 75);
        assert!(controls(&log).await.unwrap().is_frozen(&site));
    }

    #[tokio::test]
    async fn weights_are_set_once_and_keep_the_other_settings() {
        let log = log();
        let [slow, other, mean] = ["slow.example", "other.example", "mean.example"].map(SiteName::from);
        change(&log, &slow, None, |settings| settings.interval_ms = Some(5000)).await.unwrap();
        let weights = [(slow.clone(), 250), (other.clone(), 40), (mean.clone(), 100)];
        assert_eq!(weigh(&log, &weights).await.unwrap(), 2, "100 is the weight of a site without settings");
        assert_eq!(weigh(&log, &weights).await.unwrap(), 0);
        let controls = controls(&log).await.unwrap();
        let of = |site: &SiteName| controls.of(site).map(|settings| (settings.weight_percent, settings.interval_ms));
        assert_eq!((of(&slow), of(&other)), (Some((Some(250), Some(5000))), Some((Some(40), None))));
        assert_eq!(of(&mean), None);
        assert_eq!(weigh(&log, &[(slow.clone(), 100)]).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_url_or_a_host_stands_for_its_site() {
        let log = log();
        for text in ["https://www.example.org/a", "www.example.org", "example.org"] {
            assert_eq!(site_of(&log, text).await.unwrap(), "example.org");
        }
        assert_eq!(site_of(&log, "not a site").await.unwrap_err().code(), 64);
    }
}
