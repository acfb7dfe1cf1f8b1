//! Main text of a web page: the text without navigation, advertisements and the like, as plain text or as Markdown.
//!
//! ```text
//! page ─> scan ──> outline    blocks of text, each with the elements around it; no tree, all limits are here
//!                    │
//!                    ├─> sums, features     numbers of each block: its text, place, elements, form, neighbours
//!                    │      └─> choice      a forest judges each block, a second one knows its surroundings too
//!                    └─> selection          the blocks that are written, and tables of data
//!                           ├─> plain       text with paragraphs
//!                           └─> html ─> markdown
//! ```
//!
//! Any text is accepted as a page: nothing panics, the cost is linear in its length, and depth costs no stack. A page is
//! cut at 500 nested elements, 20,000 blocks, 100,000 elements and 64 MiB of text; [`MainText::is_cut`] reports it.

mod attributes;
mod builder;
mod choice;
mod counts;
mod features;
mod forest;
mod html;
mod inline;
mod line;
mod markdown;
mod outline;
mod page;
mod plain;
mod scan;
mod selection;
mod sums;
mod surroundings;
mod tag;
#[cfg(feature = "training")]
mod training;
mod words;

pub use page::{MainText, MarkdownOptions};
#[cfg(feature = "training")]
pub use training::Figures;
