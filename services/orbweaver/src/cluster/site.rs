//! `orbweaver site`: shows the settings of a site, changes them, freezes and thaws the site while crawls run.

use orbweaver_log::Log;
use orbweaver_messages::SiteSettings;
use orbweaver_scope::Version;
use orbweaver_url::SiteName;
use serde::Serialize;

use super::{
    args::{SiteChange, SiteRate, SiteVerb},
    connection::block_on,
};
use crate::{
    crawl::site_settings::{change, controls, site_of},
    exit::Failure,
    export::rfc3339,
    output::{json_line, to_stdout},
};

/// Runs `orbweaver site`.
///
/// # Errors
/// Fails if the site is malformed, another change came first, or the log fails.
pub fn run(verb: &SiteVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            SiteVerb::Show { site, json, cluster } => {
                let log = cluster.connect().await?;
                show(&log, &site_of(&log, site).await?, *json).await
            }
            SiteVerb::Set { rate, weight, target } => {
                let edit = |settings: &mut SiteSettings| {
                    match rate {
                        Some(SiteRate::Default) => settings.interval_ms = None,
                        Some(SiteRate::Interval(interval_ms)) => settings.interval_ms = Some(*interval_ms),
                        None => {}
                    }
                    settings.weight_percent = weight.or(settings.weight_percent);
                };
                set(target, edit).await
            }
            SiteVerb::Freeze { target } => set(target, |settings| settings.frozen = true).await,
            SiteVerb::Thaw { target } => set(target, |settings| settings.frozen = false).await,
        }
    })
}

/// Settings as printed by `site show --json`.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    version: Option<Version>,
    settings: &'a SiteSettings,
}

async fn show(log: &dyn Log, site: &SiteName, json: bool) -> Result<(), Failure> {
    let controls = controls(log).await?;
    let none = SiteSettings::of(site.clone(), 0);
    let shown = Shown { version: controls.version(site), settings: controls.of(site).unwrap_or(&none) };
    to_stdout(|out| if json { json_line(out, &shown) } else { writeln!(out, "{}", text(&shown)) })
}

fn text(shown: &Shown<'_>) -> String {
    let SiteSettings { site, frozen, interval_ms, weight_percent, set_at_ms, .. } = shown.settings;
    let Some(version) = shown.version else { return format!("site `{site}` has no settings of its own") };
    let rate = interval_ms.map_or_else(|| "as configured".to_owned(), |ms| format!("a request every {ms} ms at most"));
    let lines = [
        format!("site `{site}`, version {version} of its settings"),
        format!("  frozen  {}", if *frozen { "yes" } else { "no" }),
        format!("  rate    {rate}"),
        format!("  weight  {} %", weight_percent.unwrap_or(100)),
        format!("  set     {}", rfc3339(*set_at_ms)),
    ];
    lines.join("\n")
}

async fn set(target: &SiteChange, edit: impl Fn(&mut SiteSettings)) -> Result<(), Failure> {
    let log = target.cluster.connect().await?;
    let site = site_of(&log, &target.site).await?;
    let said = match change(&log, &site, target.expect, edit).await? {
        (version, None) => format!("site `{site}`: version {version} already has these values"),
        (version, Some(before)) => format!("site `{site}`: version {version} applies{before}"),
    };
    to_stdout(|out| writeln!(out, "{said}"))
}
