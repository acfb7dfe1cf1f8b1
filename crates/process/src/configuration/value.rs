//! Parsed values.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

/// Maximum request rate to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Minimum time from a response to the next request, in milliseconds; 0 is unlimited.
    pub interval_ms: u64,
}

/// Interval of the slowest rate, one request per day, in milliseconds.
const SLOWEST_MS: f64 = 86_400_000.0;

impl FromStr for Rate {
    type Err = ();

    /// Parses `2/s`, `30/m`, `10/h`, a bare number (per second), `unlimited`, or the interval itself such as `500ms`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        if text == "unlimited" {
            return Ok(Self { interval_ms: 0 });
        }
        let (number, unit_ms) = match text.split_once('/') {
            Some((number, unit)) => (number.trim(), unit_ms(unit.trim()).ok_or(())?),
            None => (text, 1000.0),
        };
        let interval_ms = match number.parse::<f64>() {
            Ok(number) if number > 0.0 => unit_ms / number,
            Err(_) if !text.contains('/') => humantime::parse_duration(text).map_err(drop)?.as_secs_f64() * 1000.0,
            _ => return Err(()),
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
        match interval_ms {
            ms if (1.0..=SLOWEST_MS).contains(&ms) => Ok(Self { interval_ms: ms.ceil() as u64 }),
            _ => Err(()),
        }
    }
}

fn unit_ms(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interval_ms {
            0 => f.write_str("unlimited"),
            ms if 1000 % ms == 0 => write!(f, "{}/s", 1000 / ms),
            ms => write!(f, "{}", humantime::format_duration(Duration::from_millis(ms))),
        }
    }
}

/// Value of one of the [kinds](super::Kind).
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, name, word or path.
    Text(String),
    /// List of texts.
    List(Vec<String>),
    /// Boolean.
    Switch(bool),
    /// Number.
    Count(u64),
    Time(Duration),
    /// Number of bytes.
    Size(u64),
    /// Maximum request rate to a site.
    Rate(Rate),
    /// Address to listen on.
    Address(SocketAddr),
}

impl Value {
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::Switch(on) => on.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Time(time) => quoted(&humantime::format_duration(*time).to_string()),
            Self::Size(bytes) => quoted(&size(*bytes)),
            Self::Rate(rate) => quoted(&rate.to_string()),
            Self::Address(address) => quoted(&address.to_string()),
        }
    }
}

/// Formats a number of bytes in the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(bits, _)| bytes != 0 && bytes.is_multiple_of(1 << bits));
    whole.map_or_else(|| format!("{bytes}B"), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

/// Formats a TOML basic string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_every_form_that_people_write() {
        for (text, interval_ms) in [
            ("unlimited", 0),
            ("1", 1000),
            ("0.5", 2000),
            ("1/s", 1000),
            (" 3 / s ", 334),
            ("30/m", 2000),
            ("60/h", 60_000),
            ("500ms", 500),
            ("2s", 2000),
            ("1000/s", 1),
        ] {
            assert_eq!(text.parse(), Ok(Rate { interval_ms }), "{text}");
        }
        for text in ["", "0", "-1", "nan", "inf", "1/d", "2000/s", "1/", "/s", "0s", "2d", "1s/s", "fast"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_that_is_shown_reads_back_as_the_same() {
        for ms in [0, 1, 100, 334, 1000, 90_500] {
            let rate = Rate { interval_ms: ms };
            assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
        }
        assert_eq!([0, 5, 1024, 64 << 20, 3 << 30].map(size), ["0B", "5B", "1KiB", "64MiB", "3GiB"]);
        let odd = "a\"b\\c\n\u{7f}ü";
        let document = format!("x = {}", quoted(odd));
        let table: toml::Table = document.parse().unwrap();
        assert_eq!(table["x"].as_str(), Some(odd));
    }
}
