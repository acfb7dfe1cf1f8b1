//! Kinds of values. A field names its kind in `#[serde(with = …)]`, which schemars reads, too.

use std::{net::SocketAddr, time::Duration};

use bytesize::ByteSize;
use humantime::format_duration;

/// Implements what serde and schemars call: `deserialize`, `serialize` and the description.
macro_rules! kind {
    (
        [$($range:tt)*] $kind:ty, $given:ty => $value:ty,
        read: $read:expr, show: $show:expr, allowed: $allowed:expr $(, $keyword:ident: $text:literal)*
    ) => {
        impl<$($range)*> $kind {
            /// Reads a value.
            ///
            /// # Errors
            /// Returns an error if the value is not allowed.
            pub fn deserialize<'de, D: serde::Deserializer<'de>, T: $crate::Held<$value>>(deserializer: D) -> Result<T, D::Error> {
                let read: fn(&$given) -> Option<$value> = $read;
                read(&<$given as serde::Deserialize>::deserialize(deserializer)?).and_then(T::of).ok_or_else(|| {
                    let allowed: String = $allowed;
                    serde::de::Error::invalid_value(serde::de::Unexpected::Other("this value"), &&*allowed)
                })
            }

            /// Writes a value as it may be written in a file.
            pub fn serialize<S: serde::Serializer>(held: &impl $crate::Held<$value>, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&held.value().map($show), serializer)
            }
        }

        impl<$($range)*> schemars::JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let allowed: String = $allowed;
                schemars::json_schema!({ "allowed": allowed $(, (stringify!($keyword)): $text)* })
            }
        }
    };
}
pub(crate) use kind;

/// Number in this inclusive range.
pub struct Count<const MIN: u64, const MAX: u64>;
/// Number from 1 to 1024, or `auto`: the number of cores available to this process.
pub struct Cores;
/// Duration in this inclusive range, in milliseconds.
pub struct Time<const MIN_MS: u64, const MAX_MS: u64>;
/// Number of bytes in this inclusive range.
pub struct Size<const MIN: u64, const MAX: u64>;
/// Letters, digits, `.`, `_` and `-`; may be empty.
pub struct Name;
/// List of `HOST:PORT`.
pub struct Servers;
/// IP address and port to listen on.
pub struct Address;

kind! {
    [const MIN: u64, const MAX: u64] Count<MIN, MAX>, String => u64,
    read: |text| number(text).filter(|count| (MIN..=MAX).contains(count)),
    show: |count| count,
    allowed: match MAX {
        u64::MAX => format!("a number from {MIN}"),
        _ => format!("a number from {MIN} to {MAX}"),
    }
}

kind! {
    [] Cores, String => u64,
    read: |text| match text.as_str() {
        "auto" => Some(std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)),
        text => number(text).filter(|count| (1..=1024).contains(count)),
    },
    show: |count| count,
    allowed: "a number from 1 to 1024, or `auto` (the number of cores)".to_owned(),
    default_text: "auto"
}

kind! {
    [const MIN_MS: u64, const MAX_MS: u64] Time<MIN_MS, MAX_MS>, String => Duration,
    read: |text| {
        let time = humantime::parse_duration(text).ok()?;
        (u128::from(MIN_MS)..=u128::from(MAX_MS)).contains(&time.as_millis()).then_some(time)
    },
    show: |time| format_duration(time).to_string(),
    allowed: {
        let [least, most] = [MIN_MS, MAX_MS].map(|ms| format_duration(Duration::from_millis(ms)));
        format!("a duration from {least} to {most}, such as `500ms` or `2m`")
    }
}

kind! {
    [const MIN: u64, const MAX: u64] Size<MIN, MAX>, String => u64,
    read: |text| text.parse::<ByteSize>().ok().map(|size| size.as_u64()).filter(|size| (MIN..=MAX).contains(size)),
    show: size,
    allowed: format!("a size from {} to {}, such as `64KiB` or `2MiB`", ByteSize(MIN), ByteSize(MAX))
}

kind! {
    [] Name, String => String,
    read: |text| is_name(text).then(|| text.clone()),
    show: |text| text,
    allowed: "letters, digits, `.`, `_` and `-`".to_owned()
}

kind! {
    [] Servers, Vec<String> => Vec<String>,
    read: |texts| (!texts.is_empty() && texts.iter().all(|text| is_server(text))).then(|| texts.clone()),
    show: |texts| texts,
    allowed: "`HOST:PORT`, several separated by commas".to_owned()
}

kind! {
    [] Address, String => SocketAddr,
    read: |text| text.parse().ok(),
    show: |address| address.to_string(),
    allowed: "an IP address and port, such as `127.0.0.1:9464` or `[::]:9464`".to_owned()
}

/// Parses a number, ignoring `_` and `,`.
fn number(text: &str) -> Option<u64> {
    text.replace(['_', ','], "").parse().ok()
}

/// Formats a number of bytes in the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(bits, _)| bytes != 0 && bytes.is_multiple_of(1 << bits));
    whole.map_or_else(|| format!("{bytes}B"), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && is_name(host),
    };
    host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value::Error};

    use super::*;

    macro_rules! read {
        ($kind:ty, $text:expr) => {
            <$kind>::deserialize(IntoDeserializer::<Error>::into_deserializer($text)).ok()
        };
    }

    #[test]
    fn each_kind_takes_what_it_says_and_nothing_else() {
        assert_eq!(read!(Time<1, 60_000>, "1m"), Some(Duration::from_secs(60)));
        assert_eq!(read!(Time<1, 60_000>, "1m"), Some(60_000_u64));
        for text in ["61s", "0s", "5", "", "-1s", "1 parsec", "99999999999999999999y"] {
            assert_eq!(read!(Time<1, 60_000>, text), None::<Duration>, "{text}");
        }
        assert_eq!(read!(Size<1, { 1 << 30 }>, "64MiB"), Some(64_usize << 20));
        assert_eq!(read!(Size<1, { 1 << 30 }>, "1024"), Some(Some(1024_u64)));
        for text in ["0", "2GiB", "1e400", "MiB", "-1B", "١MiB"] {
            assert_eq!(read!(Size<1, { 1 << 30 }>, text), None::<u64>, "{text}");
        }
        assert_eq!(read!(Count<1, 5>, "5"), Some(5_u8));
        assert_eq!(read!(Count<1, 5>, "6"), None::<u8>);
        assert_eq!(read!(Count<1, 1000>, "1000"), None::<u8>, "the field cannot hold it");
        assert!(read!(Cores, "auto").is_some_and(|cores: usize| cores > 0));
        assert_eq!(read!(Address, "localhost:1"), None::<SocketAddr>, "a name may mean several addresses");
        assert_eq!(read!(Name, "a b"), None::<String>);
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        let read = |texts: &[&str]| read!(Servers, texts.to_vec());
        let joined = "a:1,b.example:9092,[::1]:9092";
        assert_eq!(read(&["a:1", "b.example:9092", "[::1]:9092"]), Some(joined.to_owned()));
        for text in ["", "a", "a:", ":1", "a:0", "a:99999", "::1:9092", "http://a:1", "a b:1", "[x]:1"] {
            assert_eq!(read(&[text]), None, "{text}");
        }
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_size_is_shown_in_its_largest_whole_unit() {
        assert_eq!([0, 5, 1024, 64 << 20, 3 << 30].map(size), ["0B", "5B", "1KiB", "64MiB", "3GiB"]);
    }
}
