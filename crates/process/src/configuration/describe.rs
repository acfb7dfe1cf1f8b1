//! Text output of the effective configuration and the list of keys.

use std::fmt::Write as _;

use super::{KEYS, Key, Settings, value::quoted};
use crate::service::ServiceId;

/// Renders the keys that the service reads as a TOML file, with the origin of each value; secrets are redacted.
#[must_use]
pub fn effective(settings: &Settings) -> String {
    let service = settings.service();
    let mut text = String::new();
    let mut section = "";
    for key in KEYS.iter().filter(|key| key.is_read_by(service)) {
        let mut lines = String::new();
        for (path, setting) in settings.iter().filter(|(_, setting)| setting.key.path() == key.path()) {
            let _ = writeln!(lines, "{} = {}  # {}", name(key, path), setting.shown(path), setting.origin);
        }
        if lines.is_empty() {
            let _ = writeln!(lines, "# {} is not set", key.name);
        }
        if section != key.section {
            let gap = if section.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{}]", key.section);
            section = key.section;
        }
        text.push_str(&lines);
    }
    text
}

/// Returns the name below the section as TOML.
fn name(key: &Key, path: &str) -> String {
    let name = &path[key.section.len() + 1..];
    match key.name.strip_suffix('*') {
        Some(prefix) => format!("{prefix}{}", quoted(&name[prefix.len()..])),
        None => name.to_owned(),
    }
}

/// Lists the keys that the service reads, for a terminal.
#[must_use]
pub fn listed(service: ServiceId) -> String {
    let mut text = String::new();
    for key in KEYS.iter().filter(|key| key.is_read_by(service)) {
        let _ = writeln!(text, "{}  ({})", key.path(), key.variable());
        let _ = writeln!(text, "    {}", key.meaning);
        let _ = writeln!(text, "    allowed: {}", key.kind_at(&key.path()));
        let _ = writeln!(text, "    default: {}\n", default(key, service).unwrap_or("none"));
    }
    text
}

fn default(key: &Key, service: ServiceId) -> Option<&'static str> {
    if key.is_required() { Some("none; it must be set") } else { key.default_for(service) }
}

/// Renders the keys of the given sections as a Markdown table for a README.
#[must_use]
pub fn table(sections: &[&str]) -> String {
    let mut text = "| key | default | allowed | meaning |\n|---|---|---|---|\n".to_owned();
    for key in KEYS.iter().filter(|key| sections.contains(&key.section)) {
        let default = match (key.is_required(), key.default) {
            (true, _) => "must be set".to_owned(),
            (_, super::key::Default::Listen) => "`127.0.0.1:` 9461 to 9465 by service".to_owned(),
            (_, super::key::Default::Records) => "`10000`; normalizer-dedup `2500`, rate-limiter `40000`".to_owned(),
            (_, super::key::Default::Is(text)) => format!("`{text}`"),
            _ => String::new(),
        };
        let (path, kind) = (key.path(), key.kind_at(&key.path()));
        let cells = [format!("`{path}`"), default, kind.to_string(), key.meaning.to_owned()];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
