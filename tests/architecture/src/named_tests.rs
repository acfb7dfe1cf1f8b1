//! Tests that pages name, as `path/to/file.rs::name` in a code span.

use std::path::Path;

/// Returns the tests that a Markdown page names and that do not exist. `read` returns the text of a file.
#[must_use]
pub fn missing_tests(path: &Path, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let named = spans.filter_map(|span| span.split_once(".rs::").map(|(file, name)| (span, file, name)));
    let missing = named.filter(|(_, file, name)| {
        let source = read(Path::new(&format!("{file}.rs"))).unwrap_or_default();
        !source.contains(&format!("fn {name}("))
    });
    missing.map(|(span, ..)| format!("{}: {span}", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let read = |path: &Path| (path == Path::new("a/b.rs")).then(|| "fn it_holds() {}".to_owned());
        let page = "| `a/b.rs::it_holds`, `a/b.rs::it_hold` | `other` |\n`a/c.rs::it_holds`";
        let missing = missing_tests(Path::new("p.md"), page, read);
        assert_eq!(missing, ["p.md: a/b.rs::it_hold", "p.md: a/c.rs::it_holds"]);
    }
}
