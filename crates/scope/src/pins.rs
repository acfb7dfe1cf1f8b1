//! Comparison of the settings that a crawl pins with those of a pipeline (docs/protocol.md#one-partition).

use orbweaver_messages::Pins;
use orbweaver_url::{SUFFIX_LIST_VERSION, WideDomains};

/// Checks the pins on which sites and partitions of records depend. The canonical policy is not compared: only the
/// service that computes keys needs it.
///
/// # Errors
/// The first difference, with a remedy.
pub fn check_pins(crawl: &str, pins: &Pins, partitions: u32, wide: &WideDomains) -> Result<(), String> {
    let differs = |what: &str, pinned: String, own: String, remedy: String| {
        Err(format!(
            "the crawl `{crawl}` was created with {what} {pinned}, and {own}: its records would not be found again; \
             {remedy}, or create the crawl again"
        ))
    };
    if pins.suffix_list != SUFFIX_LIST_VERSION {
        let (pinned, own) = (pins.suffix_list.clone(), format!("this is {SUFFIX_LIST_VERSION}"));
        return differs("the suffix list", pinned.clone(), own, format!("use a build with {pinned}"));
    }
    let own: Vec<&str> = wide.iter().collect();
    if pins.wide_domains != own {
        let shown = |domains: String| if domains.is_empty() { "none".to_owned() } else { domains };
        let (pinned, own) = (shown(pins.wide_domains.join(" ")), shown(own.join(" ")));
        let remedy = "set `normalizer_dedup.wide_domains` of all services to those".to_owned();
        return differs("the wide domains", pinned, format!("this pipeline has {own}"), remedy);
    }
    if pins.partitions != partitions {
        let (pinned, own) = (pins.partitions.to_string(), format!("this is {partitions}"));
        return differs("a number of partitions of", pinned.clone(), own, format!("use topics with {pinned}"));
    }
    Ok(())
}
