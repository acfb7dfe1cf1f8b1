//! Files of an index that a service keeps on local disk: one directory for each partition, locked together, in which a
//! damaged partition is discarded, since the log has everything that is in it.
//!
//! Nothing is synced: after a power failure each file is either intact or found damaged.

mod dir;
mod error;
mod hashed_file;
mod kept_file;

pub use dir::{IndexDir, OpenPartition};
pub use error::{IndexFilesError, damage};
pub use hashed_file::{read_hashed, replace_hashed};
pub use kept_file::KeptFile;
