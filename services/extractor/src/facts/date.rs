//! Dates of pages in one form.

use jiff::civil::{Date, Time};
use jiff::fmt::rfc2822;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

/// Years that a page may have been published in; others are errors, such as the year 1.
const YEARS: std::ops::RangeInclusive<i16> = 1500..=2199;
/// Maximum length of a date, in bytes.
const MAX_DATE_BYTES: usize = 64;

static ISO_8601: DateTimeParser = DateTimeParser::new();
/// Weekdays are not compared with the date: some pages have wrong ones.
static RFC_2822: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);

/// Returns a date of a page as RFC 3339 in its own zone if it has time and zone, else as a date; `None` if it is invalid.
///
/// The forms of RFC 3339, ISO 8601 and RFC 2822, and days in English are read. The epoch itself is the missing date of a program.
pub(super) fn normal(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > MAX_DATE_BYTES {
        return None;
    }
    let (date, time) = of_iso_8601(text).or_else(|| of_rfc_2822(text)).or_else(|| in_english(text))?;
    let Some((time, offset)) = time else { return YEARS.contains(&date.year()).then(|| date.to_string()) };
    let local = date.to_datetime(time);
    let instant = offset.to_timestamp(local).ok()?;
    if !YEARS.contains(&date.year()) || instant == jiff::Timestamp::UNIX_EPOCH {
        return None;
    }
    Some(instant.display_with_offset(offset).to_string().replace("+00:00", "Z"))
}

type Moment = (Date, Option<(Time, Offset)>);

fn of_iso_8601(text: &str) -> Option<Moment> {
    let pieces = ISO_8601.parse_pieces(text).ok()?;
    let seconds = |time: Time| Time::new(time.hour(), time.minute(), time.second(), 0).ok();
    let time = pieces.time().and_then(seconds).zip(pieces.to_numeric_offset());
    Some((pieces.date(), time))
}

fn of_rfc_2822(text: &str) -> Option<Moment> {
    let time = RFC_2822.parse_zoned_datetime(text).ok()?;
    Some((time.date(), Some((time.time(), time.offset()))))
}

fn in_english(text: &str) -> Option<Moment> {
    let forms = ["%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y"];
    let date = forms.iter().find_map(|form| Date::strptime(form, text).ok())?;
    Some((date, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_keeps_its_time_only_with_a_zone() {
        for (text, date) in [
            (" 2024-05-01 ", "2024-05-01"),
            ("2024-05-01T10:20:30", "2024-05-01"),
            ("2024-05-01 10:20", "2024-05-01"),
            ("20240501", "2024-05-01"),
            ("2024-05-01T10:20:30Z", "2024-05-01T10:20:30Z"),
            ("2024-05-01T10:20:30.999+02:00", "2024-05-01T10:20:30+02:00"),
            ("2024-05-01T10:20:30+0200", "2024-05-01T10:20:30+02:00"),
            ("2024-05-01 10:20:30+02:00", "2024-05-01T10:20:30+02:00"),
            ("Wed, 01 May 2024 10:20:30 GMT", "2024-05-01T10:20:30Z"),
            ("Sat, 4 May 2024 00:04:00 +0200", "2024-05-04T00:04:00+02:00"),
            ("Mon, 1 May 2024 10:20:30 EST", "2024-05-01T10:20:30-05:00"),
            ("June 25, 2025", "2025-06-25"),
            ("5 Oct 2018", "2018-10-05"),
            ("1848-02-21", "1848-02-21"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(date), "{text}");
        }
    }

    #[test]
    fn errors_of_programs_are_no_dates() {
        for text in ["", "soon", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2024-13-01", "9999-12-31", "é: é é"]
        {
            assert_eq!(normal(text), None, "{text}");
        }
        assert_eq!(normal(&"2024-05-01".repeat(1000)), None);
    }
}
