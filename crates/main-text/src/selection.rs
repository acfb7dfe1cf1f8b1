//! Blocks that are written, as text or as Markdown.

use std::collections::{HashMap, HashSet};

use crate::outline::{Block, BlockKind, Outline, ROOT};
use crate::tag::Tag;

/// Maximum number of blocks in a cell of a table of data.
const MAX_CELL_BLOCKS: u32 = 12;

/// Use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Left,
    Written,
    /// A cell without its contents, so that the columns stay.
    EmptyCell,
}

/// Use of each block, and the tables that are written as such.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) parts: Vec<Part>,
    /// Elements of tables of data; others only lay out the page.
    tables: HashSet<u32>,
}

impl Selection {
    /// Selects all blocks, with `noscript` as in [`crate::sums::Sums`]: `texts` are the blocks with text that count.
    pub(crate) fn whole(outline: &Outline, texts: &[u32]) -> Self {
        let mut parts: Vec<Part> = outline.blocks.iter().map(|block| part(block.kind != BlockKind::Text)).collect();
        for index in texts {
            parts[*index as usize] = Part::Written;
        }
        Self { parts, tables: tables(outline) }
    }

    /// Selects blocks with text, and the rules and images between them.
    pub(crate) fn of(outline: &Outline, texts: &[u32], chosen: &[bool]) -> Self {
        let mut parts = vec![Part::Left; outline.blocks.len()];
        for (index, chosen) in texts.iter().zip(chosen) {
            parts[*index as usize] = part(*chosen);
        }
        let is_text = |at: usize| outline.blocks[at].kind == BlockKind::Text;
        let mut previous = vec![false; parts.len()];
        let mut last = false;
        for at in 0..parts.len() {
            previous[at] = last;
            last = if is_text(at) { parts[at] == Part::Written } else { last };
        }
        let mut next = false;
        for at in (0..parts.len()).rev() {
            if is_text(at) {
                next = parts[at] == Part::Written;
            } else if outline.blocks[at].kind != BlockKind::Empty {
                parts[at] = part(previous[at] && next);
            }
        }
        let mut selection = Self { parts, tables: tables(outline) };
        selection.complete_rows(outline);
        selection
    }

    pub(crate) fn is_data_table(&self, element: u32) -> bool {
        self.tables.contains(&element)
    }

    /// Returns the row of a table of data around a block, and the cell.
    pub(crate) fn cell(&self, outline: &Outline, block: &Block) -> Option<(u32, u32)> {
        let (cell, element) = outline.nearest(block, &[Tag::Cell, Tag::HeadCell, Tag::Table])?;
        let row = element.parent;
        let is_row = outline.elements[row as usize].tag == Tag::Row;
        (element.tag.is_cell() && is_row && self.tables.contains(&table_of(outline, row)?)).then_some((row, cell))
    }

    /// Keeps the cells of a row of which another cell is selected.
    fn complete_rows(&mut self, outline: &Outline) {
        let row_of = |at: usize| self.cell(outline, &outline.blocks[at]).map(|(row, _)| row);
        let rows: Vec<Option<u32>> = (0..self.parts.len()).map(row_of).collect();
        let selected: HashSet<u32> = rows
            .iter()
            .zip(&self.parts)
            .filter(|(_, part)| **part == Part::Written)
            .filter_map(|(row, _)| *row)
            .collect();
        for (row, part) in rows.iter().zip(&mut self.parts) {
            if *part == Part::Left && row.is_some_and(|row| selected.contains(&row)) {
                *part = Part::EmptyCell;
            }
        }
    }
}

fn part(is_written: bool) -> Part {
    if is_written { Part::Written } else { Part::Left }
}

/// Returns the table of a row.
fn table_of(outline: &Outline, row: u32) -> Option<u32> {
    let mut at = outline.elements[row as usize].parent;
    if outline.elements[at as usize].tag == Tag::TableBody {
        at = outline.elements[at as usize].parent;
    }
    (outline.elements[at as usize].tag == Tag::Table).then_some(at)
}

/// Returns the tables with several columns whose cells hold a few lines of text each.
fn tables(outline: &Outline) -> HashSet<u32> {
    let mut columns: HashMap<u32, u32> = HashMap::new();
    let mut tables: HashMap<u32, u32> = HashMap::new();
    let mut layouts: HashSet<u32> = HashSet::new();
    for (index, element) in outline.elements.iter().enumerate() {
        let index = index as u32;
        match element.tag {
            Tag::Table => {
                tables.entry(index).or_default();
                let outer = enclosing(outline, element.parent, Tag::Table);
                layouts.extend(outer);
            }
            Tag::Cell | Tag::HeadCell if outline.elements[element.parent as usize].tag == Tag::Row => {
                let cells = columns.entry(element.parent).or_default();
                *cells += 1;
                if let Some(table) = table_of(outline, element.parent) {
                    let most = tables.entry(table).or_default();
                    *most = (*most).max(*cells);
                }
            }
            Tag::Preformatted | Tag::Blockquote => layouts.extend(enclosing(outline, element.parent, Tag::Table)),
            tag if tag.is_heading() => layouts.extend(enclosing(outline, element.parent, Tag::Table)),
            _ => {}
        }
    }
    let mut blocks: HashMap<u32, u32> = HashMap::new();
    for block in &outline.blocks {
        let Some((cell, _)) = outline.nearest(block, &[Tag::Cell, Tag::HeadCell]) else { continue };
        let blocks = blocks.entry(cell).or_default();
        *blocks += 1;
        if *blocks > MAX_CELL_BLOCKS {
            layouts.extend(enclosing(outline, cell, Tag::Table));
        }
    }
    tables.into_iter().filter(|(table, most)| *most > 1 && !layouts.contains(table)).map(|(table, _)| table).collect()
}

/// Returns the nearest element with `tag` from `at` outwards.
fn enclosing(outline: &Outline, mut at: u32, tag: Tag) -> Option<u32> {
    while at != ROOT {
        if outline.elements[at as usize].tag == tag {
            return Some(at);
        }
        at = outline.elements[at as usize].parent;
    }
    None
}
