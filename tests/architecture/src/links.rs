//! Links between pages.

use std::path::{Component, Path, PathBuf};

/// Returns the links of a Markdown page to a file that does not exist, or to a heading that it does not have. `read`
/// returns the text of a file, empty for a directory.
#[must_use]
pub fn dead_links(path: &Path, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut dead = vec![];
    for rest in text.split("](").skip(1) {
        let link = rest.split([')', ' ']).next().unwrap_or_default();
        if link.contains("://") {
            continue;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { path.to_path_buf() } else { resolved(path, file) };
        let has_heading = |text: &str| {
            heading.is_empty() || text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
        };
        if !read(&target).is_some_and(|text| has_heading(&text)) {
            dead.push(format!("{}: {link}", path.display()));
        }
    }
    dead
}

/// Resolves a link on the page at `path` to a path without `..`.
fn resolved(path: &Path, link: &str) -> PathBuf {
    let mut resolved = path.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

/// Returns the anchor of a heading: lower case, hyphens for spaces, without other punctuation.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_no_file_and_to_no_heading_is_found() {
        let read = |path: &Path| match path.to_str().unwrap() {
            "docs/a.md" | "README.md" => Some("# One thing, `two`\n".to_owned()),
            "docs" => Some(String::new()),
            _ => None,
        };
        let dead = |link: &str| !dead_links(Path::new("docs/a.md"), &format!("see [x]({link})."), read).is_empty();
        assert!(dead("b.md") && dead("../docs/b.md") && dead("#two") && dead("../README.md#one"));
        assert!(!dead("../README.md#one-thing-two") && !dead("#one-thing-two") && !dead("../docs") && !dead("a.md"));
        assert!(!dead("https://example.com/none"));
    }
}
