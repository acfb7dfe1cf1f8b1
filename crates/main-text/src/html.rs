//! Small and well-formed HTML of the selected blocks: the input of the Markdown writer.

use url::Url;

use crate::inline::{HEADING, Inline, LIST_END};
use crate::outline::{Block, BlockKind, Element, Outline};
use crate::selection::{Part, Selection};
use crate::tag::Tag;

/// Maximum number of lists, quotes and the like within each other; deeper ones are left out.
const MAX_NESTING: usize = 40;

/// An element that Markdown has a form for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Quote,
    Bullets,
    Numbers,
    Item,
    Table,
    Row,
    Cell,
    Code,
}

/// An element in the output; an element of the page may need two, such as an item without a list.
type Key = (u32, Kind);

/// Writes the selected blocks as HTML.
pub(crate) fn html(outline: &Outline, selection: &Selection, inline: &Inline<'_>) -> String {
    let mut writer = Writer { outline, inline, out: String::new(), open: vec![], has_text: vec![] };
    for (block, part) in outline.blocks.iter().zip(&selection.parts) {
        if *part != Part::Left {
            writer.write(block, *part, selection);
        }
    }
    writer.close_to(0);
    writer.out
}

struct Writer<'a> {
    outline: &'a Outline,
    inline: &'a Inline<'a>,
    out: String,
    open: Vec<Key>,
    /// For each open element whether it has text already.
    has_text: Vec<bool>,
}

impl Writer<'_> {
    fn write(&mut self, block: &Block, part: Part, selection: &Selection) {
        let chain = chain(self.outline, block, selection);
        let common = self.open.iter().zip(&chain).take_while(|(open, key)| open == key).count();
        self.close_to(common);
        for key in &chain[common..] {
            self.open(*key);
        }
        let is_in = |kind: Kind| chain.iter().any(|(_, other)| *other == kind);
        if part == Part::EmptyCell || block.kind == BlockKind::Empty {
            return;
        }
        if block.kind == BlockKind::Rule {
            if !is_in(Kind::Cell) && !is_in(Kind::Code) {
                self.out.push_str("<hr>");
            }
            return;
        }
        if is_in(Kind::Code) {
            self.write_code(block);
            return;
        }
        let text = self.inline.of(block);
        if text.trim().is_empty() {
            return;
        }
        let had_text = self.has_text.last_mut().is_some_and(|has| std::mem::replace(has, true));
        if is_in(Kind::Cell) {
            self.out.push_str(if had_text { "<br>" } else { "" });
            self.out.push_str(&text);
            return;
        }
        let heading = self.outline.chain(block).find_map(|(_, element)| element.tag.heading_level());
        match heading {
            Some(level) if is_in(Kind::Item) && !self.out.ends_with("<li>") => {
                let signs = String::from(HEADING).repeat(usize::from(level));
                self.out.push_str(&format!("<p>{signs} {}</p>", text.replace("<br>", " ")));
            }
            Some(level) => self.out.push_str(&format!("<h{level}>{text}</h{level}>")),
            None => self.out.push_str(&format!("<p>{text}</p>")),
        }
    }

    fn write_code(&mut self, block: &Block) {
        let had_text = self.has_text.last_mut().is_some_and(|has| std::mem::replace(has, true));
        if had_text && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.inline.write_code(block, &mut self.out);
    }

    fn open(&mut self, key: Key) {
        let element = &self.outline.elements[key.0 as usize];
        let is_like_last = match key.1 {
            Kind::Bullets => self.out.ends_with("</ul>"),
            Kind::Numbers => self.out.ends_with("</ol>"),
            _ => false,
        };
        if is_like_last {
            self.out.push_str("<p>");
            self.out.push(LIST_END);
            self.out.push_str("</p>");
        }
        match key.1 {
            Kind::Quote => self.out.push_str("<blockquote>"),
            Kind::Bullets => self.out.push_str("<ul>"),
            Kind::Numbers if element.number != 1 => self.out.push_str(&format!("<ol start=\"{}\">", element.number)),
            Kind::Numbers => self.out.push_str("<ol>"),
            Kind::Item => self.out.push_str("<li>"),
            Kind::Table => self.out.push_str("<table>"),
            Kind::Row => self.out.push_str("<tr>"),
            Kind::Cell => self.out.push_str(if element.tag == Tag::HeadCell { "<th>" } else { "<td>" }),
            Kind::Code => match &element.language {
                Some(language) => self.out.push_str(&format!("<pre><code class=\"language-{language}\">")),
                None => self.out.push_str("<pre><code>"),
            },
        }
        self.open.push(key);
        self.has_text.push(false);
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.has_text.pop();
            let Some((index, kind)) = self.open.pop() else { return };
            let element = &self.outline.elements[index as usize];
            self.out.push_str(match kind {
                Kind::Quote => "</blockquote>",
                Kind::Bullets => "</ul>",
                Kind::Numbers => "</ol>",
                Kind::Item => "</li>",
                Kind::Table => "</table>",
                Kind::Row => "</tr>",
                Kind::Cell if element.tag == Tag::HeadCell => "</th>",
                Kind::Cell => "</td>",
                Kind::Code => "</code></pre>",
            });
        }
    }
}

/// Returns the elements around a block that Markdown has a form for, from the outside in, with those that the page
/// leaves out.
fn chain(outline: &Outline, block: &Block, selection: &Selection) -> Vec<Key> {
    let around: Vec<(u32, &Element)> = outline.chain(block).collect();
    let mut chain: Vec<Key> = vec![];
    let mut in_cell = false;
    for (index, element) in around.into_iter().rev() {
        let last = chain.last().map(|(_, kind)| *kind);
        if chain.len() >= MAX_NESTING || last == Some(Kind::Code) {
            break;
        }
        let in_list = matches!(last, Some(Kind::Bullets | Kind::Numbers));
        let kind = match element.tag {
            Tag::Table if selection.is_data_table(index) => Kind::Table,
            Tag::Row if last == Some(Kind::Table) => Kind::Row,
            Tag::Cell | Tag::HeadCell if last == Some(Kind::Row) => Kind::Cell,
            _ if in_cell || matches!(last, Some(Kind::Table | Kind::Row)) => continue,
            Tag::Blockquote => Kind::Quote,
            Tag::UnorderedList => Kind::Bullets,
            Tag::OrderedList => Kind::Numbers,
            Tag::Item => Kind::Item,
            Tag::Preformatted => Kind::Code,
            _ => continue,
        };
        if kind == Kind::Item && !in_list {
            chain.push((element.parent, Kind::Bullets));
        } else if kind != Kind::Item && in_list {
            chain.push((index, Kind::Item));
        }
        in_cell |= kind == Kind::Cell;
        chain.push((index, kind));
    }
    close_gaps(&mut chain, block.element);
    chain
}

/// Makes text that is directly in a list an item of it, and drops a table around text that is in no cell of it.
fn close_gaps(chain: &mut Vec<Key>, element: u32) {
    while matches!(chain.last(), Some((_, Kind::Table | Kind::Row))) {
        chain.pop();
    }
    if matches!(chain.last(), Some((_, Kind::Bullets | Kind::Numbers))) {
        chain.push((element, Kind::Item));
    }
}

/// Returns the address of a link, absolute; `None` for one that leads to no page.
pub(crate) fn absolute(address: &str, base: &Url) -> Option<String> {
    let address: String = address.trim().chars().filter(|char| !matches!(char, '\n' | '\r' | '\t')).collect();
    if address.is_empty() {
        return None;
    }
    match Url::parse(&address) {
        Ok(url) if matches!(url.scheme(), "javascript" | "data" | "vbscript") => None,
        // As written: a normal form of it may differ.
        Ok(_) => Some(address),
        Err(url::ParseError::RelativeUrlWithoutBase) => base.join(&address).ok().map(String::from),
        Err(_) => Some(address).filter(|address| address.contains("://")),
    }
}
