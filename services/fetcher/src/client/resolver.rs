//! Resolution of names to addresses that may be dialled.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};
use orbweaver_url::is_dns_name;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::{is_localhost, refusal};

/// Reason why a name cannot be dialled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// The name does not exist, or has no address.
    #[error("no such host: {0}")]
    Unknown(io::Error),
    /// The name servers do not answer, or fail.
    #[error("name resolution failed; a retry may succeed: {0}")]
    Failed(io::Error),
    /// All addresses of the name are refused.
    #[error("the name resolves to {address}, which is not public ({reason})")]
    Private {
        address: IpAddr,
        /// Reason for its refusal.
        reason: &'static str,
    },
}

/// Resolver that queries the system and returns only addresses that may be dialled. The returned addresses are those
/// that are dialled: there is no second lookup between the check and the connection, so a name that changes its address
/// (DNS rebinding) gains nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublicResolver {
    /// Whether to return all addresses.
    pub(crate) allow_private: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let addresses = look_up(name.as_str()).await?;
            let addresses = if allow_private { addresses } else { public(addresses)? };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Maximum number of addresses tried per name.
const MAX_ADDRESSES: usize = 16;

async fn look_up(name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    if is_localhost(name) {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        return Ok(loopback.map(|address| SocketAddr::new(address, 0)).to_vec());
    }
    // Resolvers answer these with errors of any kind, some of which mean that a retry may succeed.
    if !is_dns_name(name) {
        return Err(ResolveError::Unknown(io::Error::new(io::ErrorKind::InvalidInput, "not a name that dns can hold")));
    }
    let name = name.to_owned();
    let asked = tokio::task::spawn_blocking(move || ask(&name)).await;
    asked.unwrap_or_else(|ended| Err(ResolveError::Failed(io::Error::other(ended))))
}

/// Queries the system; blocks. Not through `std`, which hides the kind of a failure.
fn ask(name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    let hints = AddrInfoHints { socktype: SockType::Stream.into(), ..AddrInfoHints::default() };
    let found = getaddrinfo(Some(name), None, Some(hints)).map_err(|error| failure(error.kind(), error.into()))?;
    Ok(found.filter_map(Result::ok).map(|found| found.sockaddr).take(MAX_ADDRESSES).collect())
}

/// Maps a failure: an answer of the name servers is final; a failure or no answer is transient.
fn failure(kind: LookupErrorKind, error: io::Error) -> ResolveError {
    match kind {
        LookupErrorKind::NoName | LookupErrorKind::NoData => ResolveError::Unknown(error),
        _ => ResolveError::Failed(error),
    }
}

/// Returns the addresses that may be dialled.
fn public(mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ResolveError> {
    let refused = addresses.iter().find_map(|at| Some((at.ip(), refusal(at.ip())?)));
    addresses.retain(|at| refusal(at.ip()).is_none());
    match refused {
        Some((address, reason)) if addresses.is_empty() => Err(ResolveError::Private { address, reason }),
        _ => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn only_public_addresses_are_dialled_and_a_name_with_others_only_is_refused() {
        let mixed = addresses(&["10.0.0.1", "93.184.216.34", "::1"]);
        assert_eq!(public(mixed).unwrap(), addresses(&["93.184.216.34"]));
        assert!(matches!(public(addresses(&["127.0.0.1", "fe80::1"])), Err(ResolveError::Private { .. })));
        assert_eq!(public(vec![]).unwrap(), vec![]);
    }

    #[test]
    fn only_an_answer_of_the_name_servers_says_that_there_is_no_such_host() {
        let is_unknown = |kind| matches!(failure(kind, io::Error::other("")), ResolveError::Unknown(_));
        assert!(is_unknown(LookupErrorKind::NoName) && is_unknown(LookupErrorKind::NoData));
        for transient_failure in
            [LookupErrorKind::Again, LookupErrorKind::Fail, LookupErrorKind::System, LookupErrorKind::Memory]
        {
            assert!(!is_unknown(transient_failure), "{transient_failure:?}");
        }
    }

    #[tokio::test]
    async fn a_name_that_dns_cannot_hold_is_unknown() {
        for name in ["exmaple..com", &"a".repeat(64)] {
            let error = look_up(name).await.unwrap_err();
            assert!(matches!(error, ResolveError::Unknown(_)), "{error}");
        }
    }

    #[tokio::test]
    async fn localhost_is_loopback_without_asking_anybody() {
        let found = look_up("anything.LOCALHOST.").await.unwrap();
        assert!(found.iter().all(|at| at.ip().is_loopback()) && found.len() == 2);
    }
}
