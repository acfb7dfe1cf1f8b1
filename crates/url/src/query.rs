//! Query parameters: sorting and removal.

use crate::{
    Policy, Rule,
    parameters::{is_session, is_tracking},
};

/// Rules for the parameters of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParameterRules {
    sort: bool,
    drop_empty: bool,
    drop_tracking: bool,
    drop_sessions: bool,
}

impl ParameterRules {
    /// Returns the rules of a policy; `None` if it has none.
    pub(crate) fn of(policy: Policy) -> Option<Self> {
        let rules = Self {
            sort: policy.has(Rule::SortQuery),
            drop_empty: policy.has(Rule::DropEmptyParameters),
            drop_tracking: policy.has(Rule::DropTracking),
            drop_sessions: policy.has(Rule::DropSessions),
        };
        (rules.sort || rules.drop_empty || rules.drop_tracking || rules.drop_sessions).then_some(rules)
    }

    /// Applies the rules to a query; returns `None` if nothing changes. Parameters are separated by `&`; a `;`
    /// separates nothing (WHATWG URL section 5.1), except before `jsessionid`, which servlet containers append wherever
    /// possible.
    pub(crate) fn apply(self, query: &str) -> Option<String> {
        if self.holds(query) {
            return None;
        }
        let mut kept: Vec<&str> = query.split('&').map(|piece| self.without_suffix(piece)).collect();
        kept.retain(|piece| !self.drops(piece));
        if self.sort {
            kept.sort_by_key(|piece| key(piece));
        }
        Some(kept.join("&"))
    }

    fn holds(self, query: &str) -> bool {
        let mut before = "";
        query.split('&').all(|piece| {
            let in_order = !self.sort || before <= key(piece);
            before = key(piece);
            in_order && !self.drops(piece) && self.without_suffix(piece).len() == piece.len()
        })
    }

    fn drops(self, piece: &str) -> bool {
        if piece.is_empty() {
            return self.drop_empty;
        }
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        (self.drop_tracking && is_tracking(name)) || (self.drop_sessions && is_session(name, value))
    }

    fn without_suffix(self, piece: &str) -> &str {
        if !self.drop_sessions {
            return piece;
        }
        let mut rest = piece;
        while let Some((before, last)) = rest.rsplit_once(';') {
            if !last.split_once('=').is_some_and(|(name, _)| name.eq_ignore_ascii_case("jsessionid")) {
                break;
            }
            rest = before;
        }
        rest
    }
}

/// Returns the sort key of a parameter.
fn key(piece: &str) -> &str {
    piece.split_once('=').map_or(piece, |(key, _)| key)
}
