//! Dates of sitemaps (W3C) and feeds (RFC 822, RFC 2822, RFC 3339).

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    fmt::rfc2822::DateTimeParser,
    tz::Offset,
};

/// Maximum length of a date, in bytes.
const MAX_DATE_BYTES: usize = 64;

/// Weekdays are not compared with the date: some generators write wrong ones.
static RFC_2822: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// Returns the time of a date of a sitemap or feed, in milliseconds since the Unix epoch; `None` if invalid.
///
/// Accepted are W3C dates from a year (`2014`) to fractions of seconds with a zone, in UTC if without a zone, and dates
/// of RFC 822 and RFC 2822, with years of two digits and named zones.
#[must_use]
pub fn milliseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() > MAX_DATE_BYTES {
        return None;
    }
    let time = if text.contains(':') { instant(text)? } else { midnight(text)? };
    Some(time.as_millisecond())
}

/// Reads a date with a time.
fn instant(text: &str) -> Option<Timestamp> {
    let local = || utc(text.parse::<DateTime>().ok()?);
    // The weekday is optional, and may be a full name.
    let rest = text.split_once(',').map_or(text, |(_, rest)| rest.trim_start());
    text.parse().ok().or_else(local).or_else(|| RFC_2822.parse_timestamp(rest).ok())
}

/// Reads a year, a month or a day: the start of it in UTC.
fn midnight(text: &str) -> Option<Timestamp> {
    let first = match text.len() {
        4 => &format!("{text}-01-01"),
        7 => &format!("{text}-01"),
        _ => text,
    };
    utc(first.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight()))
}

fn utc(time: DateTime) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    const NOON: Option<i64> = Some(1_483_617_600_000);

    #[test]
    fn a_date_without_a_zone_is_in_utc() {
        assert_eq!(milliseconds("2017-01-05T12:00:00"), NOON);
        assert_eq!(milliseconds("2017-01-05 12:00"), NOON);
        assert_eq!(milliseconds(" 2017-01-05\n"), NOON.map(|noon| noon - 43_200_000));
        assert_eq!(milliseconds("1969-12-31T23:59:59.999Z"), Some(-1));
    }

    #[test]
    fn a_date_of_a_feed_may_have_a_short_year_a_named_zone_and_any_weekday() {
        for date in [
            "Thu, 05 Jan 2017 12:00:00 GMT",
            "Thursday, 5 Jan 17 07:00:00 EST",
            "Mon, 05 Jan 2017 12:00 +0000",
            "05 Jan 2017 12:00:00 UTC",
            "05 Jan 17 13:00:00 +0100",
            "2017-01-05T13:00:00.000+01:00",
            "2017-01-05T13:00:00+0100",
        ] {
            assert_eq!(milliseconds(date), NOON, "{date}");
        }
    }

    #[test]
    fn an_invalid_date_is_absent() {
        for date in
            ["", ":", "0000-00-00", "2017-02-30", "yesterday", "20171", "05 Jan 17 12:00:00", "é:é-é", "99999999"]
        {
            assert_eq!(milliseconds(date), None, "{date}");
        }
        assert_eq!(milliseconds(&"2017-01-05".repeat(1000)), None);
    }
}
