//! Statements on the use of the content: `noai`, the TDM Reservation Protocol, Content-Signal and Content-Usage.

use orbweaver_messages::UsageStatements;

use crate::robots::{self, is_separator};
use crate::text::folded;

/// Maximum length of a statement, in bytes.
const MAX_STATEMENT_BYTES: usize = 1024;

/// Adds the statement of a `meta` element, if its name says that it is one. `agent` is the product token of the crawler.
pub(super) fn add_meta(usage: &mut UsageStatements, (name, content): (&str, &str), agent: &str) {
    match name {
        "tdm-reservation" => add_reservation(usage, content),
        "tdm-policy" => add_policy(usage, content),
        _ if robots::is_addressed(name, agent) => {
            content.split(is_separator).for_each(|word| add_directive(usage, word));
        }
        _ => {}
    }
}

/// Adds the statement of a header of the response, if its name says that it is one.
pub(crate) fn add_header(usage: &mut UsageStatements, (name, value): (&str, &str), agent: &str) {
    let statement = || Some(folded(value, MAX_STATEMENT_BYTES).0);
    match name.to_ascii_lowercase().as_str() {
        "tdm-reservation" => add_reservation(usage, value),
        "tdm-policy" => add_policy(usage, value),
        "content-signal" => usage.content_signal = usage.content_signal.take().or_else(statement),
        "content-usage" => usage.content_usage = usage.content_usage.take().or_else(statement),
        "x-robots-tag" => robots::header_words(value, agent).for_each(|word| add_directive(usage, word)),
        _ => {}
    }
}

fn add_directive(usage: &mut UsageStatements, word: &str) {
    usage.noai |= word.eq_ignore_ascii_case("noai");
    usage.noimageai |= word.eq_ignore_ascii_case("noimageai");
}

/// Of several statements the one that reserves rights applies.
fn add_reservation(usage: &mut UsageStatements, value: &str) {
    match value.trim() {
        "1" => usage.tdm_reservation = Some(true),
        "0" => usage.tdm_reservation = usage.tdm_reservation.or(Some(false)),
        _ => {}
    }
}

fn add_policy(usage: &mut UsageStatements, url: &str) {
    let policy = || Some(url.trim()).filter(|url| !url.is_empty()).map(str::to_owned);
    usage.tdm_policy = usage.tdm_policy.take().or_else(policy);
}
