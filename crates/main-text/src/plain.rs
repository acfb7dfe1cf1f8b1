//! Plain text with paragraphs.

use crate::outline::{Block, BlockKind, Outline};
use crate::selection::{Part, Selection};
use crate::tag::Tag;

/// Writes the selected blocks: a blank line between paragraphs, a line per item of a list, a tab between cells.
pub(crate) fn text(outline: &Outline, selection: &Selection) -> String {
    let mut out = String::new();
    let mut previous: Option<&Block> = None;
    for (block, part) in outline.blocks.iter().zip(&selection.parts) {
        let is_shown = *part == Part::Written && matches!(block.kind, BlockKind::Text | BlockKind::Empty);
        if !is_shown && *part != Part::EmptyCell {
            continue;
        }
        let text = if *part == Part::EmptyCell { "".into() } else { outline.written_text(block) };
        let is_code = outline.nearest(block, &[Tag::Preformatted]).is_some();
        let text = if is_code { text.trim_matches('\n').trim_end() } else { text.trim() };
        let cell = selection.cell(outline, block);
        if text.is_empty() && cell.is_none() {
            continue;
        }
        if let Some(previous) = previous {
            out.push_str(separator(outline, selection, (previous, block)));
        }
        out.push_str(text);
        previous = Some(block);
    }
    let length = out.trim_end().len();
    out.truncate(length);
    // Empty rows at the start of a table; the tabs of empty cells before the first word remain.
    let before_words = out.len() - out.trim_start().len();
    let empty_rows = out[..before_words].rfind('\n').map_or(0, |newline| newline + 1);
    out.drain(..empty_rows);
    out
}

fn separator(outline: &Outline, selection: &Selection, (previous, block): (&Block, &Block)) -> &'static str {
    match (selection.cell(outline, previous), selection.cell(outline, block)) {
        (Some((_, before)), Some((_, cell))) if before == cell => " ",
        (Some((before, _)), Some((row, _))) if before == row => "\t",
        (Some((before, _)), Some((row, _))) if is_same_table(outline, before, row) => "\n",
        _ if is_in_same(outline, (previous, block), Tag::Preformatted) => "\n",
        _ if is_item(outline, previous) && is_item(outline, block) => "\n",
        _ => "\n\n",
    }
}

fn is_same_table(outline: &Outline, row: u32, other: u32) -> bool {
    let parent = |row: u32| outline.elements[row as usize].parent;
    let table = |row: u32| {
        let body = parent(row);
        if outline.elements[body as usize].tag == Tag::TableBody { parent(body) } else { body }
    };
    table(row) == table(other)
}

fn is_in_same(outline: &Outline, (previous, block): (&Block, &Block), tag: Tag) -> bool {
    let element = |block| outline.nearest(block, &[tag]).map(|(element, _)| element);
    element(previous).is_some() && element(previous) == element(block)
}

/// Returns `true` for a short line of a list.
fn is_item(outline: &Outline, block: &Block) -> bool {
    matches!(outline.element(block).tag, Tag::Item | Tag::Term | Tag::Definition | Tag::Option)
}
