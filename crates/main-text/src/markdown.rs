//! Markdown, by way of mdream.

use mdream::{HtmlToMarkdownOptions, html_to_markdown};

/// Converts HTML that [`crate::html`] wrote.
pub(crate) fn markdown(html: &str) -> String {
    html_to_markdown(html, HtmlToMarkdownOptions::default())
}
