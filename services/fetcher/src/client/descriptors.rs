//! Limit of open files: each connection takes a descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files of this process to the hard one. Returns the limit, if there is one.
///
/// Most systems start processes with a soft limit of 1,024, for programs that use `select`. Connections are kept for
/// seconds, so a crawl of many hosts needs more; a connection beyond the limit would look like a failure of its site.
pub(super) fn raise_limit() -> Option<usize> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut limit = maximum;
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(?current, ?maximum, %error, "the limit of open files cannot be raised; connections may fail");
        limit = current;
    }
    limit.and_then(|limit| usize::try_from(limit).ok())
}
