//! Rules for files and their text.

use std::path::Path;

/// Maximum number of lines of a source file.
pub const MAX_LINES: usize = 500;

/// Names that do not describe their content.
const FORBIDDEN: [&str; 8] = ["common", "util", "utils", "helper", "helpers", "core", "types", "misc"];

/// Returns a finding if `text` has more than [`MAX_LINES`] lines.
#[must_use]
pub fn too_long(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MAX_LINES).then(|| format!("{}: {lines} lines", path.display()))
}

/// Returns the directories in the path and the file stem with a forbidden name.
#[must_use]
pub fn forbidden_names(path: &Path) -> Vec<String> {
    let stem = path.with_extension("");
    let parts = stem.iter().filter_map(|part| part.to_str()).filter(|part| FORBIDDEN.contains(part));
    parts.map(|part| format!("{}: `{part}`", path.display())).collect()
}

/// Returns lines that mark unfinished work.
#[must_use]
pub fn unfinished(path: &Path, text: &str) -> Vec<String> {
    let marks =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("// TO", "DO"), concat!("// FIX", "ME")];
    let lines = text.lines().enumerate().filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
    lines.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())).collect()
}

/// Keys that each JSON line of a log has by itself.
const LOG_KEYS: [&str; 4] = ["timestamp", "level", "message", "target"];

/// Returns log statements with a field whose name is a key of each JSON line: readers of JSON keep one of the two. The target of
/// a statement (`target: "…"`) is no field.
#[must_use]
pub fn fields_named_as_log_keys(path: &Path, text: &str) -> Vec<String> {
    let mut found = vec![];
    for (at, macros) in text.match_indices("tracing::") {
        let rest = &text[at + macros.len()..];
        let Some((_, arguments)) =
            rest.split_once("!(").filter(|(level, _)| level.bytes().all(|b| b.is_ascii_lowercase()))
        else {
            continue;
        };
        // Texts and nested calls may contain anything; the fields come first.
        let fields = arguments.split([';', '"']).next().unwrap_or_default();
        let fields = if fields.trim_end().ends_with("target:") {
            arguments.splitn(3, '"').nth(2).and_then(|rest| rest.split([';', '"']).next()).unwrap_or_default()
        } else {
            fields
        };
        let names = fields.split(',').map(|field| field.split('=').next().unwrap_or_default());
        for name in names.map(|name| name.trim().trim_start_matches(['%', '?'])) {
            if LOG_KEYS.contains(&name) {
                let line = text[..at].lines().count().max(1);
                found.push(format!("{}:{line}: a log line has the key `{name}` already", path.display()));
            }
        }
    }
    found
}

/// Returns constants of `metrics.rs` whose name does not start with `prefix`, and public ones whose doc comment does
/// not state when to alert.
#[must_use]
pub fn metrics_without_alert(path: &Path, text: &str, prefix: &str) -> Vec<String> {
    let (mut broken, mut docs) = (vec![], String::new());
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
            continue;
        }
        if let Some((declared, value)) = line.split_once(": &str = ")
            && let Some(name) = declared.strip_prefix("pub const ").or(declared.strip_prefix("pub(crate) const "))
        {
            if !docs.contains("Alert") {
                broken.push(format!("{}: `{name}` does not say when to alert", path.display()));
            }
            if !value.trim_start_matches('"').starts_with(prefix) {
                broken.push(format!("{}: `{name}` is not named {prefix}…", path.display()));
            }
        }
        // Attributes may appear between a doc comment and its constant.
        if !line.starts_with("#[") {
            docs.clear();
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let path = Path::new("a.rs");
        assert_eq!(too_long(path, &"x\n".repeat(MAX_LINES)), None);
        assert_eq!(too_long(path, &"x\n".repeat(MAX_LINES + 1)), Some("a.rs: 501 lines".to_owned()));
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_directories_and_files() {
        assert_eq!(forbidden_names(Path::new("crates/utils/src/a.rs")).len(), 1);
        assert_eq!(forbidden_names(Path::new("crates/log/src/types.rs")), ["crates/log/src/types.rs: `types`"]);
        assert_eq!(forbidden_names(Path::new("crates/log/src/scores.rs")), Vec::<String>::new());
    }

    #[test]
    fn unfinished_work_is_found_with_its_line() {
        let text = format!("fn a() {{\n    {}\"later\")\n}}", concat!("to", "do!("));
        assert_eq!(unfinished(Path::new("a.rs"), &text).len(), 1);
        assert!(unfinished(Path::new("a.rs"), &text)[0].starts_with("a.rs:2: "));
    }

    #[test]
    fn a_field_with_the_name_of_a_key_of_each_log_line_is_found() {
        let found =
            |statement: &str| fields_named_as_log_keys(Path::new("a.rs"), &format!("fn a() {{\n{statement}\n}}"));
        let call = concat!("trac", "ing::info!(");
        for bad in
            ["target, \"x\");", "target: \"audit\", %target, \"x\");", "a, level = b.c(), \"x\");", "?message, \"x\");"]
        {
            assert_eq!(found(&format!("{call}{bad}")).len(), 1, "{bad}");
        }
        for good in ["target: \"audit\", path, \"the target\");", "a = target, \"x, target, y\");", "targets, \"x\");"]
        {
            assert_eq!(found(&format!("{call}{good}")), [""; 0], "{good}");
        }
    }

    #[test]
    fn a_metric_without_alert_or_with_a_foreign_name_is_found() {
        let text = "/// A. Alert: any.\npub const A: &str = \"orbweaver_x_a\";\n/// B.\npub const B: &str = \"orbweaver_x_b\";\n\
                    /// Alert: any.\n#[rustfmt::skip]\npub const C: &str = \"orbweaver_y_c\";\nconst D: &str =
                    /// \"d\";\n";
        let found = metrics_without_alert(Path::new("m.rs"), text, "orbweaver_x_");
        assert_eq!(found, ["m.rs: `B` does not say when to alert", "m.rs: `C` is not named orbweaver_x_…"]);
    }
}
