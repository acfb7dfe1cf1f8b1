//! robots.txt: rules, their verdicts and explanations.

use orbweaver_politeness::robots::{AgentRules, explain};

/// The input is a path, a zero byte, and a robots.txt.
pub(crate) fn check(data: &[u8]) {
    let (path, file) = crate::split(data);
    let path = format!("/{}", String::from_utf8_lossy(path));
    let rules = AgentRules::parse(file, "orbweaver");
    let verdict = rules.verdict(&path);
    assert_eq!(verdict.line.is_some(), verdict.rule.is_some());
    assert!(verdict.allowed || verdict.rule.is_some(), "only a rule forbids");
    assert!(rules.verdict("/robots.txt").allowed);
    let explained = explain(file, "orbweaver", &format!("http://a.example.com{path}"));
    serde_json::to_string(&explained).unwrap();
}
