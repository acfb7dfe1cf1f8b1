//! Kinds of values.

use std::{fmt, net::SocketAddr, time::Duration};

use bytesize::ByteSize;

use super::{given::Raw, value::Value};

/// Kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text without control characters.
    Text,
    /// Any text without NUL, not trimmed: it is never shown, and a PEM key spans several lines.
    Secret,
    /// Letters, digits, `.`, `_` and `-`; may be empty.
    Name,
    /// One of these words.
    Word(&'static [&'static str]),
    Switch,
    /// Number in this inclusive range.
    Count(u64, u64),
    /// Number from 1 to 1024, or `auto`: the number of cores available to this process.
    Cores,
    /// Duration in this inclusive range, in milliseconds.
    Time(u64, u64),
    /// Number of bytes in this inclusive range.
    Size(u64, u64),
    /// Maximum request rate to a site.
    Rate,
    /// IP address and port to listen on.
    Address,
    /// List of `HOST:PORT`.
    Servers,
    /// List of texts.
    Texts,
    /// Path.
    Dir,
}

impl fmt::Display for Kind {
    /// Writes the allowed values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: u64| humantime::format_duration(Duration::from_millis(ms));
        match self {
            Self::Text => f.write_str("text without control characters"),
            Self::Secret => f.write_str("text without NUL"),
            Self::Name => f.write_str("letters, digits, `.`, `_` and `-`"),
            Self::Word(words) => write!(f, "`{}`", words.join("` or `")),
            Self::Switch => f.write_str("`true` or `false`"),
            Self::Count(least, u64::MAX) => write!(f, "a number from {least}"),
            Self::Count(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Cores => f.write_str("a number from 1 to 1024, or `auto` (the number of cores)"),
            Self::Time(least, most) => {
                write!(f, "a duration from {} to {}, such as `500ms` or `2m`", time(*least), time(*most))
            }
            Self::Size(least, most) => {
                let (least, most) = (ByteSize(*least), ByteSize(*most));
                write!(f, "a size from {least} to {most}, such as `64KiB` or `2MiB`")
            }
            Self::Rate => f.write_str("`1/s`, `30/m`, an interval such as `2s` (1ms to a day), or `unlimited`"),
            Self::Address => f.write_str("an IP address and port, such as `127.0.0.1:9464` or `[::]:9464`"),
            Self::Servers => f.write_str("`HOST:PORT`, several separated by commas"),
            Self::Texts => f.write_str("texts, several separated by commas"),
            Self::Dir => f.write_str("a path"),
        }
    }
}

impl Kind {
    /// Parses a value; `None` if it is not allowed.
    pub(crate) fn read(&self, raw: &Raw) -> Option<Value> {
        if let Self::Servers | Self::Texts = self {
            return self.read_list(raw);
        }
        let Raw::Scalar(whole) = raw else { return None };
        let text = whole.trim();
        let within = |number: u64, least: &u64, most: &u64| (*least..=*most).contains(&number).then_some(number);
        Some(match self {
            Self::Text if !text.chars().any(char::is_control) => Value::Text(text.to_owned()),
            Self::Secret if !whole.contains('\0') => Value::Text(whole.clone()),
            Self::Name if text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
                Value::Text(text.to_owned())
            }
            Self::Word(words) if words.contains(&text) => Value::Text(text.to_owned()),
            Self::Switch => Value::Switch(text.parse().ok()?),
            Self::Count(least, most) => Value::Count(within(number(text)?, least, most)?),
            Self::Cores if text == "auto" => Value::Count(cores()),
            Self::Cores => Value::Count(within(number(text)?, &1, &1024)?),
            Self::Time(least, most) => {
                let time = humantime::parse_duration(text).ok()?;
                within(u64::try_from(time.as_millis()).ok()?, least, most)?;
                Value::Time(time)
            }
            Self::Size(least, most) => Value::Size(within(text.parse::<ByteSize>().ok()?.as_u64(), least, most)?),
            Self::Rate => Value::Rate(text.parse().ok()?),
            Self::Address => Value::Address(text.parse::<SocketAddr>().ok()?),
            Self::Dir if !text.is_empty() && !text.contains('\0') => Value::Text(text.to_owned()),
            _ => return None,
        })
    }

    fn read_list(&self, raw: &Raw) -> Option<Value> {
        let texts: Vec<&str> = match raw {
            Raw::List(texts) => texts.iter().map(|text| text.trim()).collect(),
            Raw::Scalar(text) => text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect(),
        };
        let allowed = texts.iter().all(|text| match self {
            Self::Servers => is_server(text),
            _ => !text.is_empty() && !text.chars().any(char::is_control),
        });
        let some = *self != Self::Servers || !texts.is_empty();
        (allowed && some).then(|| Value::List(texts.into_iter().map(str::to_owned).collect()))
    }
}

/// Parses a number, ignoring `_` and `,`.
fn number(text: &str) -> Option<u64> {
    text.replace(['_', ','], "").parse().ok()
}

/// Returns the number of cores available to this process, limited by the quota of its control group.
fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let host = if host == bare { name(host) } else { bare.parse::<std::net::Ipv6Addr>().is_ok() };
    host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Option<Value> {
        kind.read(&Raw::Scalar(text.to_owned()))
    }

    #[test]
    fn each_kind_takes_what_it_says_and_nothing_else() {
        assert_eq!(read(Kind::Time(1, 60_000), "1m"), Some(Value::Time(Duration::from_secs(60))));
        for text in ["61s", "0s", "5", "", "-1s", "1 parsec", "99999999999999999999y"] {
            assert_eq!(read(Kind::Time(1, 60_000), text), None, "{text}");
        }
        assert_eq!(read(Kind::Size(1, 1 << 30), "64MiB"), Some(Value::Size(64 << 20)));
        assert_eq!(read(Kind::Size(1, 1 << 30), "1024"), Some(Value::Size(1024)));
        for text in ["0", "2GiB", "1e400", "MiB", "-1B", "١MiB"] {
            assert_eq!(read(Kind::Size(1, 1 << 30), text), None, "{text}");
        }
        assert_eq!(read(Kind::Count(1, 5), "5"), Some(Value::Count(5)));
        assert_eq!(read(Kind::Count(1, 5), "6"), None);
        assert_eq!(read(Kind::Word(&["json", "text"]), "xml"), None);
        assert_eq!(read(Kind::Switch, "yes"), None);
        assert!(matches!(read(Kind::Cores, "auto"), Some(Value::Count(1..))));
        assert_eq!(read(Kind::Address, "localhost:1"), None, "a name may mean several addresses");
        assert_eq!(read(Kind::Name, "a b"), None);
        assert_eq!(read(Kind::Text, "a\nb"), None);
        assert_eq!(read(Kind::Secret, " a\nb "), Some(Value::Text(" a\nb ".to_owned())));
        assert_eq!(read(Kind::Secret, "a\0b"), None);
        assert_eq!(read(Kind::Dir, ""), None);
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        let servers = |texts: &[&str]| Some(Value::List(texts.iter().map(|text| (*text).to_owned()).collect()));
        assert_eq!(read(Kind::Servers, " a:1, b.example:9092,"), servers(&["a:1", "b.example:9092"]));
        assert_eq!(read(Kind::Servers, "[::1]:9092"), servers(&["[::1]:9092"]));
        for text in ["", ",", "a", "a:", ":1", "a:0", "a:99999", "::1:9092", "http://a:1", "a b:1", "[x]:1"] {
            assert_eq!(read(Kind::Servers, text), None, "{text}");
        }
        assert_eq!(Kind::Servers.read(&Raw::List(vec!["a:1".into(), String::new()])), None);
        assert_eq!(Kind::Count(0, 9).read(&Raw::List(vec!["1".into()])), None, "a list is no number");
    }
}
