//! HTML of the text of one block.

use std::cell::Cell;

use url::Url;

use crate::MarkdownOptions;
use crate::html::absolute;
use crate::outline::{Block, Mark, Outline, Piece};

/// Sign between the parts of a word, which is removed from the Markdown.
pub(crate) const JOINT: char = '\u{e000}';
/// Signs in place of the boxes of a list of tasks, whose brackets would be taken for text.
pub(crate) const CHECKED: char = '\u{e001}';
pub(crate) const UNCHECKED: char = '\u{e002}';
/// Sign in place of the comment between two lists, which Markdown would take for one.
pub(crate) const LIST_END: char = '\u{e003}';
/// Sign in place of each `#` of a heading that is not the first in its item of a list: mdream would continue the line before.
pub(crate) const HEADING: char = '\u{e004}';

/// Maximum size of the addresses and titles of all links and images; further ones are left out. A long base, or a link around
/// many blocks, could otherwise make a page grow a thousandfold.
const MAX_LINK_BYTES: usize = 16 << 20;

/// Writer of the text of blocks.
pub(crate) struct Inline<'a> {
    outline: &'a Outline,
    base: Url,
    options: MarkdownOptions,
    /// Bytes left of [`MAX_LINK_BYTES`].
    room: Cell<usize>,
}

/// An open mark: where its start tag begins and ends in the output, if it has one.
type OpenMark = (Mark, usize, usize);

impl<'a> Inline<'a> {
    pub(crate) fn new(outline: &'a Outline, base: &Url, options: MarkdownOptions) -> Self {
        let own = outline.base.as_ref().and_then(|own| base.join(own.trim()).ok());
        let own = own.filter(|own| matches!(own.scheme(), "http" | "https"));
        let base = own.unwrap_or_else(|| base.clone());
        Self { outline, base, options, room: Cell::new(MAX_LINK_BYTES) }
    }

    /// Returns the text of a block with its marks.
    pub(crate) fn of(&self, block: &Block) -> String {
        let mut out = String::new();
        let mut open: Vec<OpenMark> = vec![];
        // For each open mark of the page, whether it is written: in code only links are.
        let mut written: Vec<bool> = vec![];
        let pieces = self.outline.pieces_of(block);
        let following = self.following(pieces);
        for (piece, next) in pieces.iter().zip(following) {
            let in_code = open.last().filter(|(mark, ..)| *mark == Mark::Code).copied();
            match piece {
                Piece::Text(range) => write_text(&mut out, &mut open, self.outline.text_of(range)),
                Piece::Break => out.push_str("<br>"),
                Piece::Open(mark) => {
                    let is_link = matches!(mark, Mark::Link(_));
                    written.push(in_code.is_none() || is_link);
                    match in_code {
                        // Code has no links in Markdown, but links may have code.
                        Some(_) if is_link => {
                            self.end(next, &mut open, &mut out);
                            self.begin(*mark, &mut open, &mut out);
                            self.begin(Mark::Code, &mut open, &mut out);
                        }
                        Some(_) => {}
                        None => self.begin(*mark, &mut open, &mut out),
                    }
                }
                Piece::Close(_) if written.pop() != Some(true) => {}
                Piece::Close(mark) => {
                    self.end(next, &mut open, &mut out);
                    if in_code.is_some() && *mark != Mark::Code {
                        self.end(next, &mut open, &mut out);
                        self.begin(Mark::Code, &mut open, &mut out);
                    }
                }
                Piece::Image(index) => self.write_image(*index, &mut out),
                Piece::Permalink(_) => {}
                Piece::Box(is_checked) => out.extend([if *is_checked { CHECKED } else { UNCHECKED }, ' ']),
            }
        }
        let mut text = out.as_str().trim();
        // A line break at either end means nothing.
        while let Some(rest) = text.strip_suffix("<br>").or_else(|| text.strip_prefix("<br>")) {
            text = rest.trim();
        }
        text.to_owned()
    }

    /// Returns for each piece the first character of the next text after it.
    fn following(&self, pieces: &[Piece]) -> Vec<Option<char>> {
        let mut following = vec![None; pieces.len()];
        let mut next = None;
        for (piece, following) in pieces.iter().zip(&mut following).rev() {
            *following = next;
            if let Piece::Text(range) = piece {
                next = self.outline.text_of(range).chars().next().or(next);
            }
        }
        following
    }

    fn begin(&self, mark: Mark, open: &mut Vec<OpenMark>, out: &mut String) {
        let start = out.len();
        self.write_start(mark, out);
        open.push((mark, start, out.len()));
    }

    /// Ends the innermost open mark.
    fn end(&self, next: Option<char>, open: &mut Vec<OpenMark>, out: &mut String) {
        let Some(own) = open.pop() else { return };
        if is_readable(own, out, next) {
            close(own, out);
        } else {
            out.replace_range(own.1..own.2, "");
        }
    }

    /// Writes the text of a block as it is.
    pub(crate) fn write_code(&self, block: &Block, out: &mut String) {
        for piece in self.outline.pieces_of(block) {
            match piece {
                Piece::Text(range) => escape(self.outline.text_of(range), out),
                Piece::Break => out.push('\n'),
                _ => {}
            }
        }
    }

    /// Returns the absolute address of a link or an image, if it has one and there is room for it.
    fn address(&self, address: &str, title: &str) -> Option<String> {
        let room = self.room.get();
        if room == 0 {
            return None;
        }
        let address = absolute(address, &self.base)?;
        self.room.set(room.saturating_sub(address.len() + title.len()));
        Some(address)
    }

    fn write_start(&self, mark: Mark, out: &mut String) {
        match mark {
            Mark::Strong => out.push_str("<strong>"),
            Mark::Emphasis => out.push_str("<em>"),
            Mark::Deleted => out.push_str("<del>"),
            Mark::Code => out.push_str("<code>"),
            Mark::Link(link) => {
                let Some(link) = self.outline.links.get(link as usize) else { return };
                let Some(address) = self.address(&link.address, &link.title) else { return };
                // Without it, a space is put in front of the link.
                if out.ends_with(|char: char| !char.is_whitespace()) {
                    out.push(JOINT);
                }
                out.push_str("<a href=\"");
                escape(&address, out);
                write_title(&link.title, out);
                out.push('>');
            }
        }
    }

    fn write_image(&self, index: u32, out: &mut String) {
        if !self.options.images {
            return;
        }
        let Some(image) = self.outline.images.get(index as usize) else { return };
        let Some(address) = self.address(&image.address, &image.title) else { return };
        out.push_str("<img src=\"");
        escape(&address, out);
        out.push_str("\" alt=\"");
        escape(&fold(&image.text), out);
        write_title(&image.title, out);
        out.push('>');
    }
}

/// Returns `false` for emphasis that Markdown would read as plain signs: with punctuation at its edge, and a letter
/// directly outside, which is common in languages without spaces.
fn is_readable((mark, start, inner): OpenMark, out: &str, next: Option<char>) -> bool {
    if !matches!(mark, Mark::Strong | Mark::Emphasis | Mark::Deleted) {
        return true;
    }
    let is_sign = |char: Option<char>| {
        char.is_some_and(|char| !char.is_alphanumeric() && !char.is_whitespace() && !"<>".contains(char))
    };
    let is_letter = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    let inside = &out[inner..];
    let breaks_start = is_sign(inside.chars().next()) && is_letter(out[..start].chars().next_back());
    let breaks_end = is_sign(inside.chars().next_back()) && is_letter(next);
    !breaks_start && !breaks_end
}

fn close((mark, start, inner): OpenMark, out: &mut String) {
    if out.len() == inner {
        out.truncate(start);
        return;
    }
    let tag = match mark {
        Mark::Strong => "</strong>",
        Mark::Emphasis => "</em>",
        Mark::Deleted => "</del>",
        Mark::Code => "</code>",
        Mark::Link(_) if inner > start => "</a>",
        Mark::Link(_) => return,
    };
    // White space at the end of a mark moves out of it: Markdown has none there.
    let length = out.trim_end().len().max(inner);
    let space = out.split_off(length);
    out.push_str(tag);
    out.push_str(&space);
}

/// Ends an attribute, and writes a title if there is one.
fn write_title(title: &str, out: &mut String) {
    let title = fold(title);
    if !title.is_empty() {
        out.push_str("\" title=\"");
        escape(&title, out);
    }
    out.push('"');
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes text; white space directly after the start of marks moves in front of them.
fn write_text(out: &mut String, open: &mut [OpenMark], text: &str) {
    let rest = text.trim_start();
    let space = &text[..text.len() - rest.len()];
    let begun = open.iter().rev().take_while(|(_, start, inner)| *inner == out.len() || *inner == *start).count();
    let is_fresh = open.last().is_some_and(|(_, _, inner)| *inner == out.len());
    if space.is_empty() || !is_fresh {
        escape(text, out);
        return;
    }
    // Marks of which each begins where the one around it ends.
    let mut first = open.len() - 1;
    while first > open.len() - begun && open[first - 1].2 == open[first].1 {
        first -= 1;
    }
    out.insert_str(open[first].1, space);
    for (_, start, inner) in &mut open[first..] {
        *start += space.len();
        *inner += space.len();
    }
    escape(rest, out);
}

/// Writes text as HTML.
pub(crate) fn escape(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            JOINT | CHECKED | UNCHECKED | LIST_END | HEADING => {}
            _ => out.push(char),
        }
    }
}
