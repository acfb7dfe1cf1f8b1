//! Resolution of names to addresses that may be dialled.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use hickory_resolver::{
    Hosts, TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::{Query, ResponseCode},
        rr::{Name, Record, RecordType},
    },
    system_conf::read_system_conf,
};
use orbweaver_url::is_dns_name;
use tokio::{sync::Semaphore, time::timeout};

use super::FetchError;
use crate::{
    address::{Networks, is_localhost, refusal},
    config::FetcherConfig,
};

/// Reason why a name cannot be dialled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// The name does not exist, or has no address.
    #[error("no such host: {0}")]
    Unknown(String),
    /// The name servers do not answer, or fail.
    #[error("name resolution failed; a retry may succeed: {0}")]
    Failed(String),
    /// All addresses of the name are refused.
    #[error("the name resolves to {address}, which is not public ({reason})")]
    Private {
        address: IpAddr,
        /// Reason for its refusal.
        reason: &'static str,
    },
}

impl ResolveError {
    /// Returns the failure of a request to such a name.
    pub(crate) fn failure(&self) -> FetchError {
        match self {
            Self::Unknown(_) => FetchError::UnknownHost,
            Self::Failed(_) => FetchError::Dns,
            Self::Private { .. } => FetchError::Private,
        }
    }
}

/// Resolver with a cache, which returns only addresses that may be dialled.
pub(crate) struct Resolver {
    dns: TokioResolver,
    hosts: Hosts,
    /// Permits for lookups that run at once.
    permits: Semaphore,
    timeout: Duration,
    /// Whether to return all addresses.
    allow_private: bool,
    /// Networks whose addresses are returned although they are not public.
    networks: Networks,
    /// Families of addresses, in the order in which they are looked up.
    families: [RecordType; 2],
}

/// Maximum number of addresses considered per name and family.
const MAX_ADDRESSES: usize = 16;
/// Queries per server until a lookup fails.
const QUERIES: u32 = 3;

impl Resolver {
    /// Builds the resolver. Reads the configuration of the system, unless servers are configured.
    pub(crate) fn new(config: &FetcherConfig) -> Result<Self, NetError> {
        let (servers, mut options) = servers(config);
        let seconds = |time: Duration| Some(Duration::from_secs(time.as_secs()));
        options.timeout = config.dns_timeout / QUERIES;
        options.attempts = QUERIES as usize - 1;
        options.cache_size = config.dns_cache_entries;
        options.positive_min_ttl = seconds(config.dns_min_ttl);
        // A maximum below its minimum, which `conflicts` rejects, would be a panic in the cache.
        options.positive_max_ttl = seconds(config.dns_max_ttl.max(config.dns_min_ttl));
        options.negative_min_ttl = seconds(config.dns_min_negative_ttl);
        options.negative_max_ttl = seconds(config.dns_max_negative_ttl.max(config.dns_min_negative_ttl));
        // Queries over one connection; beyond it the client reports that it is busy.
        options.max_active_requests = config.dns_concurrency.saturating_mul(2);
        // Looked up here, so that a name with one family of addresses there causes no query for the other.
        options.use_hosts_file = ResolveHosts::Never;
        let dns = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
        Ok(Self {
            dns: dns.with_options(options).build()?,
            hosts: Hosts::from_system().unwrap_or_default(),
            permits: Semaphore::new(config.dns_concurrency),
            timeout: config.dns_timeout,
            allow_private: config.allow_private,
            networks: config.allow_networks.clone(),
            families: families(),
        })
    }

    /// Returns addresses of a name that may be dialled, the preferred one first. `avoid` comes last: the other family
    /// is looked up before it.
    pub(crate) async fn look_up(&self, name: &str, avoid: Option<IpAddr>) -> Result<Vec<IpAddr>, ResolveError> {
        if is_localhost(name) {
            let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return self.chosen(addresses.to_vec(), avoid);
        }
        // Resolvers answer these with errors of any kind, some of which mean that a retry may succeed.
        let parsed = is_dns_name(name).then(|| Name::from_ascii(name).ok()).flatten();
        let Some(mut parsed) = parsed else {
            return Err(ResolveError::Unknown("not a name that dns can hold".to_owned()));
        };
        // A name with a dot is complete. The search domains of the system are for others, on an intranet: with them a
        // name that does not exist would take several queries, and could be found in a domain of the crawler.
        let complete = name.contains('.');
        parsed.set_fqdn(parsed.is_fqdn() || complete);
        if let Some(addresses) = self.in_hosts_file(&parsed) {
            return self.chosen(addresses, avoid);
        }
        // Waiting for a permit is no failure of the name servers. It ends, since each lookup does.
        let _permit = self.permits.acquire().await;
        match timeout(self.timeout, self.query(parsed, avoid)).await {
            Ok(result) => result,
            Err(_elapsed) => Err(ResolveError::Failed("no answer in time".to_owned())),
        }
    }

    /// Returns the addresses in the file of hosts, if the name is there.
    fn in_hosts_file(&self, name: &Name) -> Option<Vec<IpAddr>> {
        let of = |family| self.hosts.lookup_static_host(&Query::query(name.clone(), family));
        let answers: Vec<_> = self.families.into_iter().filter_map(of).collect();
        let found: Vec<_> = answers.iter().flat_map(|answer| addresses(answer.answers())).collect();
        (!found.is_empty()).then_some(found)
    }

    /// Asks cache and servers, family by family, until there is an address to dial.
    async fn query(&self, name: Name, avoid: Option<IpAddr>) -> Result<Vec<IpAddr>, ResolveError> {
        let (mut found, mut failed) = (vec![], None);
        for family in self.families {
            match self.dns.lookup(name.clone(), family).await {
                Ok(answer) => found.extend(addresses(answer.answers())),
                Err(NetError::Dns(DnsError::NoRecordsFound(none))) => match none.response_code {
                    ResponseCode::NXDomain => return Err(ResolveError::Unknown("the name does not exist".to_owned())),
                    ResponseCode::NoError => {}
                    code => failed = Some(code.to_string()),
                },
                Err(error) => failed = Some(error.to_string()),
            }
            let dials = |address: &IpAddr| Some(*address) != avoid && self.refusal(*address).is_none();
            if found.iter().any(dials) {
                break;
            }
        }
        match failed {
            Some(failure) if found.is_empty() => Err(ResolveError::Failed(failure)),
            _ => self.chosen(found, avoid),
        }
    }

    fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        let is_permitted = self.allow_private || self.networks.contains(address);
        if is_permitted { None } else { refusal(address) }
    }

    /// Returns the addresses that may be dialled, `avoid` last.
    fn chosen(&self, mut addresses: Vec<IpAddr>, avoid: Option<IpAddr>) -> Result<Vec<IpAddr>, ResolveError> {
        let refused = addresses.iter().find_map(|address| Some((*address, self.refusal(*address)?)));
        addresses.retain(|address| self.refusal(*address).is_none());
        addresses.sort_by_key(|address| Some(*address) == avoid);
        match refused {
            _ if !addresses.is_empty() => Ok(addresses),
            Some((address, reason)) => Err(ResolveError::Private { address, reason }),
            None => Err(ResolveError::Unknown("the name has no address".to_owned())),
        }
    }
}

/// Returns the addresses among the records of an answer.
fn addresses(records: &[Record]) -> impl Iterator<Item = IpAddr> + use<'_> {
    records.iter().filter_map(|record| record.data.ip_addr()).take(MAX_ADDRESSES)
}

/// Returns the configured servers, else those of the system. Without either it is the resolver of this machine, as in
/// the C library.
fn servers(config: &FetcherConfig) -> (ResolverConfig, ResolverOpts) {
    let configured = config.name_servers();
    if !configured.is_empty() {
        return (
            ResolverConfig::from_parts(None, vec![], configured.into_iter().map(server).collect()),
            ResolverOpts::default(),
        );
    }
    of_system(read_system_conf())
}

fn of_system(read: Result<(ResolverConfig, ResolverOpts), NetError>) -> (ResolverConfig, ResolverOpts) {
    read.unwrap_or_else(|error| {
        let this = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
        tracing::warn!(%error, fallback = %this, "cannot read the system's name servers; see fetcher.dns_servers");
        (ResolverConfig::from_parts(None, vec![], vec![server(this)]), ResolverOpts::default())
    })
}

fn server(at: SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = at.port());
    NameServerConfig::new(at.ip(), true, connections)
}

/// Returns the families of addresses in the order of preference: IPv4 first, unless this machine has only a route for
/// IPv6.
fn families() -> [RecordType; 2] {
    // Connecting a UDP socket sends nothing; it fails without a route. The addresses are those of public resolvers.
    let has_route =
        |local: &str, remote: &str| UdpSocket::bind(local).is_ok_and(|socket| socket.connect(remote).is_ok());
    if !has_route("0.0.0.0:0", "8.8.8.8:53") && has_route("[::]:0", "[2001:4860:4860::8888]:53") {
        return [RecordType::AAAA, RecordType::A];
    }
    [RecordType::A, RecordType::AAAA]
}

#[cfg(test)]
mod tests;
