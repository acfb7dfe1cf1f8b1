//! Rules of the workspace, checked against the output of `cargo metadata` and the text of files.
//!
//! Each check returns the violations of its rule. The tests of this crate first feed each check a violation, to show
//! that it detects one; `tests/workspace.rs` then applies the checks to the workspace.

mod layers;
mod links;
mod named_tests;
mod prose;
mod protocol;
mod source;
mod workspace;

pub use layers::{arrows_that_point_up, libraries_of_others};
pub use links::dead_links;
pub use named_tests::missing_tests;
pub use prose::Prose;
pub use protocol::Protocol;
pub use source::{MAX_LINES, fields_named_as_log_keys, forbidden_names, metrics_without_alert, too_long, unfinished};
pub use workspace::{Dependency, Package, files_below, packages, root};
