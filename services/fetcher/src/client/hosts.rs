//! Addresses of the hosts in use, as the client resolves them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::Instant;

use super::pins::{ConnectionTimes, Pins};

/// Addresses of the hosts in use, as the client resolves them.
#[derive(Clone)]
pub(super) struct Hosts(Arc<Mutex<Pins>>);

impl Hosts {
    pub(super) fn new(times: ConnectionTimes) -> Self {
        Self(Arc::new(Mutex::new(Pins::new(times))))
    }

    pub(super) fn pins(&self) -> MutexGuard<'_, Pins> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the start of a request; `None` if connections to another address may be open.
    pub(super) fn start(&self, host: &str, address: IpAddr) -> Option<InUse> {
        let starts = self.pins().start(host, address, Instant::now());
        starts.then(|| InUse { hosts: self.clone(), host: host.to_owned(), is_refused: false })
    }
}

impl Resolve for Hosts {
    fn resolve(&self, name: Name) -> Resolving {
        // There is no second lookup, so a name that changes its address (DNS rebinding) gains nothing.
        let address = self.pins().address(name.as_str());
        Box::pin(async move {
            let address = address.ok_or_else(|| io::Error::other("the host is not in use"))?;
            Ok(Box::new(std::iter::once(SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// A request to a host, until it is dropped.
pub(super) struct InUse {
    hosts: Hosts,
    host: String,
    /// Whether no connection was established.
    pub(super) is_refused: bool,
}

impl InUse {
    pub(super) fn take_lookup(&self) -> Option<Duration> {
        self.hosts.pins().take_lookup(&self.host)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.hosts.pins().end(&self.host, self.is_refused, Instant::now());
    }
}
