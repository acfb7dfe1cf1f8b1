//! Permitted fetch profiles.

use orbweaver_messages::{CrawlPurpose, FetchProfile, ProxyUrl};

use crate::{
    media_range::{is_media_range, is_token_byte},
    setting_error::SettingError,
};

/// Headers set by the client itself, or that would change the meaning of a response.
pub const RESERVED_HEADERS: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "host",
    "if-modified-since",
    "if-none-match",
    "range",
    "transfer-encoding",
    "user-agent",
];
/// Setting of the accepted types, as errors name it.
pub const ACCEPTED_TYPES: &str = "accepted types";
/// Permitted politeness delays of a crawl, in milliseconds: ten requests per second to one per day.
const INTERVALS_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;
/// Maximum number of headers of a profile, and of its media types, and maximum length of each name, value, type and
/// agent, in bytes: the profile is part of a record that every service keeps in memory.
const MAX_HEADERS: usize = 32;
const MAX_TYPES: usize = 32;
const MAX_TEXT_BYTES: usize = 300;

/// Checks the fetch profile of a definition.
pub(crate) fn check(profile: &FetchProfile) -> Result<(), SettingError> {
    let refused = |setting, allowed: String| Err(SettingError::new(setting, allowed));
    let begins_with_token = |agent: &str| agent.starts_with(|c: char| c.is_ascii_alphanumeric() || "_-".contains(c));
    if profile.user_agent.as_deref().is_some_and(|agent| !is_text(agent) || !begins_with_token(agent)) {
        let allowed = "visible ASCII characters that begin with a product token of letters, digits, `_` and `-`";
        return refused("user_agent", format!("at most {MAX_TEXT_BYTES} {allowed}"));
    }
    if profile.contact.as_deref().is_some_and(|contact| !is_text(contact) || contact.is_empty()) {
        return refused("contact", format!("1 to {MAX_TEXT_BYTES} visible ASCII characters"));
    }
    if profile.headers.len() > MAX_HEADERS {
        return refused("headers", format!("at most {MAX_HEADERS}"));
    }
    for (name, value) in &profile.headers {
        let is_token = !name.is_empty() && name.len() <= MAX_TEXT_BYTES && name.bytes().all(is_token_byte);
        if !is_token || RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let reserved = RESERVED_HEADERS.join(", ");
            return refused("headers", format!("a valid header name other than {reserved}; {name:?} is not"));
        }
        if !is_text(value) {
            return refused(
                "headers",
                format!("at most {MAX_TEXT_BYTES} visible ASCII characters as the value of {name:?}"),
            );
        }
    }
    if profile.interval_ms.is_some_and(|interval| !INTERVALS_MS.contains(&interval)) {
        let (least, most) = (INTERVALS_MS.start(), INTERVALS_MS.end());
        return refused("interval_ms", format!("{least} to {most} milliseconds"));
    }
    if profile.max_body_bytes == Some(0) {
        return refused("max_body_bytes", "at least 1 byte".to_owned());
    }
    if profile.accept.len() > MAX_TYPES {
        return refused(ACCEPTED_TYPES, format!("at most {MAX_TYPES}"));
    }
    if let Some(range) = profile.accept.iter().find(|range| !is_media_range(range)) {
        return refused(
            ACCEPTED_TYPES,
            format!("`type/subtype`, `type/*` or `*/*`, without parameters; {range:?} is not"),
        );
    }
    if profile.purpose.as_ref().is_some_and(|purposes| purposes.len() > CrawlPurpose::ALL.len()) {
        return refused("purpose", format!("at most {}", CrawlPurpose::ALL.len()));
    }
    if profile.proxy.as_ref().is_some_and(|proxy| !proxy.is_valid()) {
        return refused("proxy", ProxyUrl::ALLOWED.to_owned());
    }
    Ok(())
}

/// Returns `true` for the value of a header: visible ASCII characters and spaces.
fn is_text(text: &str) -> bool {
    text.len() <= MAX_TEXT_BYTES && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_cannot_be_used_is_named_with_what_is_allowed() {
        let with_header = |name: &str, value: &str| FetchProfile {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..FetchProfile::default()
        };
        let with_agent = |agent: &str| FetchProfile { user_agent: Some(agent.to_owned()), ..FetchProfile::default() };
        let with_proxy = |url: &str| FetchProfile { proxy: Some(url.to_owned().into()), ..FetchProfile::default() };
        let with_interval = |ms| FetchProfile { interval_ms: Some(ms), ..FetchProfile::default() };
        let with_types = |types: &[&str]| FetchProfile {
            accept: types.iter().map(|&range| range.to_owned()).collect(),
            ..FetchProfile::default()
        };
        let many = (0..33).map(|number| (format!("x-{number}"), String::new())).collect();
        for (profile, setting) in [
            (with_agent(""), "user_agent"),
            (with_agent(" Bot"), "user_agent"),
            (with_agent("/1.0"), "user_agent"),
            (with_agent("Bot\n"), "user_agent"),
            (with_agent(&"b".repeat(301)), "user_agent"),
            (FetchProfile { contact: Some("a\r\nb".to_owned()), ..FetchProfile::default() }, "contact"),
            (with_header("Host", "x"), "headers"),
            (with_header("a b", "x"), "headers"),
            (with_header("", "x"), "headers"),
            (with_header("x", "a\r\nb: c"), "headers"),
            (FetchProfile { headers: many, ..FetchProfile::default() }, "headers"),
            (with_interval(99), "interval_ms"),
            (with_interval(86_400_001), "interval_ms"),
            (FetchProfile { max_body_bytes: Some(0), ..FetchProfile::default() }, "max_body_bytes"),
            (FetchProfile { purpose: Some(vec![CrawlPurpose::Search; 5]), ..FetchProfile::default() }, "purpose"),
            (with_proxy("http://me:hunter2@"), "proxy"),
            (with_types(&["image/png"; 33]), ACCEPTED_TYPES),
            (with_types(&["image/*", "pdf"]), ACCEPTED_TYPES),
        ] {
            let error = check(&profile).unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        for profile in [
            with_agent("MJ12bot/2 (x)"),
            with_header("X-Team", ""),
            with_interval(100),
            with_interval(86_400_000),
            with_proxy("socks5://me:hunter2@proxy.example"),
            with_proxy("none"),
            with_types(&["application/vnd.ms-excel", "image/*", "*/*"]),
        ] {
            assert_eq!(check(&profile), Ok(()));
        }
    }
}
