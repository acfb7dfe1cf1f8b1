//! Crawl definitions from `crawl.control`, and their changes while a crawl runs. Pure: the caller reads the log and
//! passes in its records.
//!
//! A definition is the value of a record with the key `crawl/NAME` in partition 0; the record's offset is its version.
//! Every service that needs definitions applies the same records in the same order to [`Definitions`], and therefore
//! decides by the same version once it has read up to the same offset. A queued URL carries the version under which it
//! was admitted, so that a reader that lags behind never judges it by an older version.
//!
//! | module | contents |
//! |---|---|
//! | `rules` | compiled patterns and depth limit: whether a URL is out of scope, and why |
//! | `definitions` | the record of `crawl.control` that applies to each crawl; writing one while others may write one |
//! | `pins` | comparison of the pinned settings of a crawl with those of a pipeline |
//! | `profile` | permitted fetch profiles |
//! | `order` | permitted orders; ranks and weights of URLs |
//! | `revisit` | permitted revisit policies |
//! | `revision` | permitted and prohibited changes of a crawl |
//! | `consumers` | declared consumer groups, whose records are protected from deletion |
//! | `sites` | settings of single sites |
//! | `controls` | frozen sites and paused crawls, for services that send requests |
//! | `labels` | crawls as values of a metric label |
//! | `setting` | one setting whose records name the versions they replace |
//! | `history` | history of a setting, for writers |

mod consumers;
mod controls;
mod definitions;
mod history;
mod labels;
mod media_range;
mod order;
mod pins;
mod profile;
mod revision;
mod revisit;
mod rules;
mod setting;
mod setting_error;
mod sites;

pub use consumers::Consumers;
pub use controls::{ControlChange, Controls, Hold};
pub use definitions::{Applied, Change, ControlRecord, DefinitionError, Definitions, Version};
pub use labels::{CrawlLabels, LABELLED_CRAWLS, OTHER_CRAWLS};
pub use media_range::{is_html, is_within, media_type, revisit_bounds};
pub use order::{rank, rank_of_depth, weight};
pub use pins::check_pins;
pub use profile::{ACCEPTED_TYPES, RESERVED_HEADERS};
pub use revision::{Revision, RevisionError};
pub use revisit::{LONGEST_REVISIT, REVISIT_TYPES, SHORTEST_REVISIT};
pub use rules::{PATTERN_BYTES, PatternError, RuleRejection, Rules};
pub use setting_error::SettingError;
pub use sites::{SiteChange, SiteControls};

/// The partition of `crawl.control` that holds the definitions of all crawls, the declared consumer groups and the
/// settings of sites. Versions are offsets, which are comparable only within one partition.
pub const DEFINITIONS_PARTITION: u32 = 0;
