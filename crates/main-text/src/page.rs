//! Main text of a page.

use url::Url;

use crate::choice::choose;
use crate::html::html;
use crate::inline::Inline;
use crate::markdown::markdown;
use crate::outline::Outline;
use crate::plain;
use crate::scan::scan;
use crate::selection::Selection;
use crate::sums::{Sums, shown_texts};

/// Main text of a page, without navigation, advertisements and the like.
#[derive(Debug)]
pub struct MainText {
    outline: Outline,
    selection: Selection,
}

/// Contents of the Markdown.
#[derive(Default, Clone, Copy, Debug)]
pub struct MarkdownOptions {
    /// Whether images are written too.
    pub images: bool,
}

impl MainText {
    /// Chooses the main text of a page. Where nothing is chosen, the whole page is taken.
    #[must_use]
    pub fn of(html: &str) -> Self {
        let outline = scan(html);
        let selection = {
            let sums = Sums::of(&outline);
            Selection::of(&outline, &sums.texts, &choose(&sums))
        };
        Self { outline, selection }
    }

    /// Takes all text of a page.
    #[must_use]
    pub fn whole(html: &str) -> Self {
        let outline = scan(html);
        let selection = Selection::whole(&outline, &shown_texts(&outline));
        Self { outline, selection }
    }

    /// Returns the text: paragraphs with a blank line between them, a line per item of a list and per row of a table.
    /// Cells are separated by tabs.
    #[must_use]
    pub fn text(&self) -> String {
        plain::text(&self.outline, &self.selection)
    }

    /// Returns the text as Markdown (CommonMark, with tables and strikethrough of GitHub's). Links are resolved against
    /// `base`, the address of the page.
    #[must_use]
    pub fn markdown(&self, base: &Url, options: MarkdownOptions) -> String {
        let inline = Inline::new(&self.outline, base, options);
        markdown(&html(&self.outline, &self.selection, &inline))
    }

    /// Returns `true` if a limit was reached, so that a part of the page was left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.outline.is_cut
    }
}
