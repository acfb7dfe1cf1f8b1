//! Markdown, by way of mdream.

use mdream::{HtmlToMarkdownOptions, html_to_markdown};

use crate::inline::{CHECKED, HEADING, JOINT, LIST_END, UNCHECKED};

/// Converts HTML that [`crate::html`] wrote.
pub(crate) fn markdown(html: &str) -> String {
    replace_signs(&html_to_markdown(html, HtmlToMarkdownOptions::default()))
}

/// Replaces the signs that stood for what mdream would change.
fn replace_signs(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut chars = markdown.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            JOINT => {
                // mdream puts a space in front of a link.
                chars.next_if_eq(&' ');
                // Together with the link, the sign would make an image.
                if out.ends_with('!') && chars.peek() == Some(&'[') {
                    out.insert(out.len() - 1, '\\');
                }
            }
            CHECKED => out.push_str("[x]"),
            UNCHECKED => out.push_str("[ ]"),
            LIST_END => out.push_str("<!-- -->"),
            HEADING => out.push('#'),
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_replaced() {
        assert_eq!(replace_signs("a\u{e000} [b](c)\n- \u{e001} d\n- \u{e002} e"), "a[b](c)\n- [x] d\n- [ ] e");
        assert_eq!(replace_signs("!\u{e000} [b](c)"), "\\![b](c)");
    }
}
