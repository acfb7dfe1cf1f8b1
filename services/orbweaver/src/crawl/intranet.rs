//! Crawls of sites that the public cannot reach.

use clap::Args;
use orbweaver_fetcher::{Network, read_authorities};

use crate::exit::Failure;

/// Addresses and authorities in addition to those of the public web.
#[derive(Debug, Args)]
pub struct IntranetOptions {
    /// Also fetch from private and loopback addresses.
    #[arg(long)]
    pub allow_private: bool,
    /// Also fetch from the addresses of this network that are not public, such as 10.0.0.0/8. Several are separated by
    /// commas (may be repeated).
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow_network: Vec<Network>,
    /// Also trust the certificate authorities in this file (PEM).
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<String>,
}

impl IntranetOptions {
    /// Returns the permitted networks as texts.
    pub fn networks(&self) -> Vec<String> {
        self.allow_network.iter().map(ToString::to_string).collect()
    }

    /// Returns the file of authorities.
    ///
    /// # Errors
    /// Fails if it cannot be used.
    pub fn authorities(&self) -> Result<Option<String>, Failure> {
        let read = read_authorities(self.ca_file.as_deref());
        read.map_err(|error| Failure::Usage(format!("--ca-file: {error}")))?;
        Ok(self.ca_file.clone())
    }
}
