//! Statements on the use of the content: `noai`, the TDM Reservation Protocol, Content-Signal and Content-Usage.

use orbweaver_messages::UsageStatements;
use orbweaver_politeness::statements::{self, Statement};

use crate::text::folded;

/// Maximum length of a statement, in bytes.
const MAX_STATEMENT_BYTES: usize = 1024;

/// Adds the statements of a `meta` element, if its name says that it has some. `agent` is the product token of the
/// crawler.
pub(super) fn add_meta(usage: &mut UsageStatements, element: (&str, &str), agent: &str) {
    statements::of_meta(element, agent, |statement| add(usage, statement));
}

/// Adds the statements of a header of the response, if its name says that it has some.
pub(crate) fn add_header(usage: &mut UsageStatements, header: (&str, &str), agent: &str) {
    statements::of_header(header, agent, |statement| add(usage, statement));
}

fn add(usage: &mut UsageStatements, statement: Statement<'_>) {
    let first = |known: &mut Option<String>, value: &str| {
        if known.is_none() {
            *known = Some(folded(value, MAX_STATEMENT_BYTES).0);
        }
    };
    match statement {
        Statement::Directive(word) => {
            usage.noai |= word.eq_ignore_ascii_case("noai");
            usage.noimageai |= word.eq_ignore_ascii_case("noimageai");
        }
        // Of several statements the one that reserves rights applies.
        Statement::TdmReservation(true) => usage.tdm_reservation = Some(true),
        Statement::TdmReservation(false) => usage.tdm_reservation = usage.tdm_reservation.or(Some(false)),
        Statement::TdmPolicy("") => {}
        Statement::TdmPolicy(url) => usage.tdm_policy = usage.tdm_policy.take().or_else(|| Some(url.to_owned())),
        Statement::ContentSignal(value) => first(&mut usage.content_signal, value),
        Statement::ContentUsage(value) => first(&mut usage.content_usage, value),
    }
}
