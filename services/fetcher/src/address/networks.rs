//! Networks whose addresses are dialled although they are not public.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{embedded_v4, is_within_v4, is_within_v6};

/// Maximum number of networks: each address that is not public is compared with all of them.
const MAX_NETWORKS: usize = 1024;

/// A block of addresses in CIDR notation (RFC 4632, RFC 4291 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// Reason why a text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("is neither an address nor an address with a prefix length, such as `10.0.0.0/8` or `fd00::/8`")]
    Malformed,
    #[error("has bits after its prefix; the network of this address is `{0}`")]
    BeyondPrefix(Network),
    #[error("is a block of IPv4 addresses within IPv6; these are permitted by the IPv4 network")]
    Embedded,
}

impl Network {
    /// Creates the network of an address; `None` if the prefix is longer than an address.
    fn of(address: IpAddr, prefix: u8) -> Option<Self> {
        let first = match address {
            IpAddr::V4(address) => {
                let kept = u32::MAX.checked_shl(32_u32.checked_sub(prefix.into())?).unwrap_or(0);
                IpAddr::V4((address.to_bits() & kept).into())
            }
            IpAddr::V6(address) => {
                let kept = u128::MAX.checked_shl(128_u32.checked_sub(prefix.into())?).unwrap_or(0);
                IpAddr::V6((address.to_bits() & kept).into())
            }
        };
        Some(Self { first, prefix })
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => is_within_v4(address, (first, self.prefix.into())),
            (IpAddr::V6(first), IpAddr::V6(address)) => is_within_v6(address, (first, self.prefix.into())),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Malformed)?;
        let prefix = match prefix {
            None if address.is_ipv4() => 32,
            None => 128,
            Some(digits) if digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| NetworkError::Malformed)?
            }
            Some(_) => return Err(NetworkError::Malformed),
        };
        let network = Self::of(address, prefix).ok_or(NetworkError::Malformed)?;
        if network.first != address {
            return Err(NetworkError::BeyondPrefix(network));
        }
        match address {
            IpAddr::V6(address) if prefix >= 96 && embedded_v4(address).is_some() => Err(NetworkError::Embedded),
            _ => Ok(network),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// Networks of a setting, and its texts that are none: these are reported with the other faults of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Networks {
    networks: Vec<Network>,
    invalid: Vec<(String, NetworkError)>,
}

impl Networks {
    /// Returns `true` if an address is within one of the networks. An IPv4 address within an IPv6 address is judged as
    /// the IPv4 address that it is: a network of IPv6 contains none.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let embedded = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => embedded_v4(address),
        };
        let address = embedded.map_or(address, IpAddr::V4);
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Returns a description of the allowed values, if anything else was given.
    pub(crate) fn conflict(&self) -> Option<String> {
        if let Some((text, error)) = self.invalid.first() {
            return Some(format!("{ALLOWED}; {text:?} {error}"));
        }
        let count = self.networks.len();
        (count > MAX_NETWORKS).then(|| format!("at most {MAX_NETWORKS} networks; there are {count}"))
    }
}

const ALLOWED: &str = "networks such as `10.0.0.0/8` or `fd00::/8`, several separated by commas";

impl From<Vec<String>> for Networks {
    fn from(texts: Vec<String>) -> Self {
        let mut networks = Self::default();
        for text in texts {
            match text.parse() {
                Ok(network) => networks.networks.push(network),
                Err(error) => networks.invalid.push((text, error)),
            }
        }
        networks
    }
}

impl From<Vec<Network>> for Networks {
    fn from(networks: Vec<Network>) -> Self {
        Self { networks, invalid: vec![] }
    }
}

impl From<Networks> for Vec<String> {
    fn from(Networks { networks, invalid }: Networks) -> Self {
        let valid = networks.iter().map(ToString::to_string);
        valid.chain(invalid.into_iter().map(|(text, _)| text)).collect()
    }
}

impl JsonSchema for Networks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Networks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string" }, (orbweaver_settings::ALLOWED): ALLOWED })
    }
}

#[cfg(test)]
mod tests;
