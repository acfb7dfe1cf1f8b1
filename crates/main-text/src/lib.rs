//! Main text.
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
