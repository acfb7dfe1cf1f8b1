//! Text output of the effective configuration and the list of keys.

use std::fmt::Write as _;

use super::{Key, Settings, settings::quoted};

/// Renders the keys that were read as a TOML file, with the origin of each value; secrets are redacted.
#[must_use]
pub fn effective(settings: &Settings) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in settings.keys() {
        if section != key.section {
            let gap = if section.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{}]", key.section);
            section = key.section;
        }
        for setting in &key.set {
            let _ = writeln!(text, "{} = {}  # {}", name(key, &setting.path), setting.shown, setting.origin);
        }
        if key.set.is_empty() {
            let _ = writeln!(text, "# {} is not set", key.field.listed());
        }
    }
    text
}

/// Returns the name below the section as TOML.
fn name(key: &Key, path: &str) -> String {
    let name = &path[key.section.len() + 1..];
    match name.strip_prefix(&*key.field.name).and_then(|rest| rest.strip_prefix('.')) {
        Some(rest) => format!("{}.{}", key.field.name, quoted(rest)),
        None => name.to_owned(),
    }
}

/// Lists the keys that were read, for a terminal.
#[must_use]
pub fn listed(settings: &Settings) -> String {
    let mut text = String::new();
    for key in settings.keys() {
        let default = if key.required { Some("none; it must be set") } else { key.default.as_deref() };
        let _ = writeln!(text, "{}  ({})", key.path(), key.variable());
        let _ = writeln!(text, "    {}", key.meaning());
        let _ = writeln!(text, "    allowed: {}", key.field.allowed_at(&key.path()));
        let _ = writeln!(text, "    default: {}\n", default.unwrap_or("none"));
    }
    text
}

/// Renders keys as a Markdown table for a README. `default` returns the text of a default that depends on the service.
#[must_use]
pub fn table<'a>(keys: impl IntoIterator<Item = &'a Key>, default: impl Fn(&str) -> Option<String>) -> String {
    let mut text = "| key | default | allowed | meaning |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let path = key.path();
        let default = match (key.required, default(&path), &key.default) {
            (true, ..) => "must be set".to_owned(),
            (_, Some(text), _) => text,
            (_, None, Some(text)) => format!("`{text}`"),
            _ => String::new(),
        };
        let allowed = key.field.allowed_at(&path).to_owned();
        let cells = [format!("`{path}`"), default, allowed, key.meaning().to_owned()];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
