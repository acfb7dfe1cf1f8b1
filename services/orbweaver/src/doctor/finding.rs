//! Findings of the checks (pure).

use serde::Serialize;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// A crawl works, but not as it should, or will not after one more failure.
    Warn,
    /// A crawl does not work, or records were lost.
    Bad,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: String,
    pub level: Level,
    /// Observation, on one line.
    pub seen: String,
    /// Remedy, on one line; `None` if all is well.
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(check: impl Into<String>, seen: impl AsRef<str>) -> Self {
        Self { check: check.into(), level: Level::Ok, seen: one_line(seen.as_ref()), advice: None }
    }

    pub fn warn(check: impl Into<String>, seen: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        let advice = Some(one_line(advice.as_ref()));
        Self { check: check.into(), level: Level::Warn, seen: one_line(seen.as_ref()), advice }
    }

    pub fn bad(check: impl Into<String>, seen: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        Self { level: Level::Bad, ..Self::warn(check, seen, advice) }
    }

    /// Returns the finding as text: one line, and a second, indented one with the remedy if there is one.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { check, level, seen, advice } = self;
        let line = format!("{:<6}{check:<36}  {seen}", level.name());
        match advice {
            Some(advice) => format!("{line}\n      {advice}"),
            None => line,
        }
    }
}

/// Replaces line feeds and other control characters, which errors of servers may contain.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the first names of a list, and the number of the others.
pub(super) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns a number with a noun, in the plural unless it is 1.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    let noun = if number == 1 { noun } else { &plural };
    format!("{} {noun}", crate::crawl::progress::number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_and_its_advice_a_second_indented_one() {
        let bad = Finding::bad("topics", "two\nlines\u{1b}[2J", "do\tthis");
        let lines: Vec<String> = bad.text().lines().map(ToOwned::to_owned).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("bad   topics ") && lines[0].ends_with("two lines [2J"), "{lines:?}");
        assert_eq!(lines[1], "      do this");
        assert_eq!(Finding::ok("disk", "free").text().lines().count(), 1);
    }

    #[test]
    fn as_json_a_finding_has_all_four_fields() {
        let json = serde_json::to_value(Finding::ok("disk", "free")).unwrap();
        assert_eq!(json, serde_json::json!({"check": "disk", "level": "ok", "seen": "free", "advice": null}));
        let json = serde_json::to_value(Finding::warn("disk", "full", "delete")).unwrap();
        assert_eq!((&json["level"], &json["advice"]), (&"warn".into(), &"delete".into()));
    }

    #[test]
    fn a_long_list_is_cut_with_the_number_of_the_others() {
        assert_eq!(listed(&["a", "b"]), "a, b");
        assert_eq!(listed(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
        assert_eq!(
            (count(1, "topic"), count(1_000, "topic"), count(0, "copy")),
            ("1 topic".into(), "1,000 topics".into(), "0 copies".into())
        );
    }
}
