//! Limit of open files: each connection takes a descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files of this process to the hard one.
///
/// Most systems start processes with a soft limit of 1,024, for programs that use `select`. Connections are kept for
/// seconds, so a crawl of many hosts needs more; a connection beyond the limit would look like a failure of its site.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(?current, ?maximum, %error, "the limit of open files cannot be raised; connections may fail");
    }
}
