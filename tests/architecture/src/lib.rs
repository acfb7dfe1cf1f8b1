//! The rules of the workspace, as checks over what `cargo metadata` says and over the text of files.
//!
//! Each check returns what breaks its rule. The tests of this crate show each check something bad first, so that a check
//! that finds nothing is known to look; `tests/workspace.rs` then applies them to the workspace.

mod layers;
mod source;
mod workspace;

pub use layers::{arrows_that_point_up, libraries_of_others};
pub use source::{MAX_LINES, forbidden_names, metrics_without_alert, too_long, unfinished};
pub use workspace::{Dependency, Package, files_below, packages, root};
