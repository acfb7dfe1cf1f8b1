//! What is kept of pages, sites and redirects.

mod row;
mod traits;

pub use row::{FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, Write};
pub use traits::{Store, StoreError};
