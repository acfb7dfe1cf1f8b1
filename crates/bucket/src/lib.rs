//! Prefixes of buckets in S3-compatible object stores: addresses, the connection that the environment describes, and errors
//! in a few words. The order of requests is up to the packages that use it.
//!
//! | module | contents |
//! |---|---|
//! | `address` | `s3://bucket/prefix` |
//! | `connect` | settings from the environment |
//! | `faulty` | a store that fails on demand, for tests (feature `testing`) |
//! | `reason` | errors of a store, without URLs and headers of requests |

mod address;
mod connect;
#[cfg(feature = "testing")]
pub mod faulty;
mod reason;

use std::sync::Arc;

use object_store::{ObjectStore, multipart::MultipartStore};

pub use self::{
    address::{Address, AddressError},
    connect::{ConnectError, RETRIES, connect, connect_by_environment},
    reason::reason,
};

/// Store with uploads in parts.
pub type Store = Arc<dyn Objects>;

/// Operations of a store, by which tests replace it.
pub trait Objects: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Objects for T {}
