//! Query parameters: sorting and removal.

use crate::{
    Policy, Rule,
    parameters::{is_session, is_tracking},
};

/// Rules for the parameters of a query.
const RULES: [Rule; 4] = [Rule::SortQuery, Rule::DropEmptyParameters, Rule::DropTracking, Rule::DropSessions];

/// Applies the rules of a policy to a query; returns `None` if nothing changes. Parameters are separated by `&`; a `;`
/// separates nothing (WHATWG URL section 5.1), except before `jsessionid`, which servlet containers append wherever
/// possible.
pub(crate) fn apply_rules(policy: Policy, query: &str) -> Option<String> {
    if !RULES.iter().any(|rule| policy.has(*rule)) || holds(policy, query) {
        return None;
    }
    let mut kept: Vec<&str> = query.split('&').map(|piece| without_suffix(policy, piece)).collect();
    kept.retain(|piece| !drops(policy, piece));
    if policy.has(Rule::SortQuery) {
        kept.sort_by_key(|piece| key(piece));
    }
    Some(kept.join("&"))
}

fn holds(policy: Policy, query: &str) -> bool {
    let mut before = "";
    query.split('&').all(|piece| {
        let in_order = !policy.has(Rule::SortQuery) || before <= key(piece);
        before = key(piece);
        in_order && !drops(policy, piece) && without_suffix(policy, piece).len() == piece.len()
    })
}

fn drops(policy: Policy, piece: &str) -> bool {
    if piece.is_empty() {
        return policy.has(Rule::DropEmptyParameters);
    }
    let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
    (policy.has(Rule::DropTracking) && is_tracking(name)) || (policy.has(Rule::DropSessions) && is_session(name, value))
}

fn without_suffix(policy: Policy, piece: &str) -> &str {
    let mut rest = piece;
    while policy.has(Rule::DropSessions)
        && let Some((before, last)) = rest.rsplit_once(';')
        && last.split_once('=').is_some_and(|(name, _)| name.eq_ignore_ascii_case("jsessionid"))
    {
        rest = before;
    }
    rest
}

/// Returns the sort key of a parameter.
fn key(piece: &str) -> &str {
    piece.split_once('=').map_or(piece, |(key, _)| key)
}
