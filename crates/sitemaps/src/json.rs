//! JSON Feed.

use std::{fmt, io, ops::ControlFlow};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{Entry, Error, Format, MAX_URL_BYTES, date, input::Input, output::Output, value::Value};

/// Start of the value of `version`.
const VERSION: &str = "https://jsonfeed.org/version/";

/// Returns `true` if the text of the first bytes has the version of a JSON Feed.
pub(crate) fn has_version(head: &str) -> bool {
    // Some generators write `\/`.
    head.contains(VERSION) || head.replace('\\', "").contains(VERSION)
}

/// Reads a feed. `open` opens the body: the version is read before the items, wherever it is.
///
/// # Errors
/// The body has no version of a JSON Feed.
pub(crate) fn read<'a>(open: impl Fn() -> io::Result<Input<'a>>, output: &mut Output<'_>) -> Result<Format, Error> {
    let open = || open().map_err(|error| Error::Gzip(error.to_string()));
    let mut is_feed = false;
    // Reading ends at the version: its result is an error either way.
    let _ = parse(open()?, Seed(Version(&mut is_feed)));
    if !is_feed {
        return Err(Error::UnknownFormat);
    }
    let mut has_stopped = false;
    let result = parse(open()?, Seed(Feed { output, has_stopped: &mut has_stopped }));
    if let Err(error) = result
        && !has_stopped
    {
        output.cut(error.to_string());
    }
    Ok(Format::JsonFeed)
}

/// Parses a body.
fn parse<V>(input: Input<'_>, seed: Seed<V>) -> serde_json::Result<()>
where
    Seed<V>: for<'de> DeserializeSeed<'de, Value = ()>,
{
    match input {
        Input::Whole(text) => seed.deserialize(&mut serde_json::Deserializer::from_str(text)),
        Input::Stream(stream) => seed.deserialize(&mut serde_json::Deserializer::from_reader(stream)),
    }
}

/// Part of a document that a visitor reads.
struct Seed<V>(V);

/// Visitor of the version: sets its flag.
struct Version<'v>(&'v mut bool);

impl<'de> DeserializeSeed<'de> for Seed<Version<'_>> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self.0)
    }
}

impl<'de> Visitor<'de> for Version<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON Feed")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text>()? {
            if key.is("version") {
                *self.0 = map.next_value::<Text>()?.0.is_some_and(|version| version.starts_with(VERSION));
                return Err(A::Error::custom("the version has been read"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Visitor of the whole document.
struct Feed<'f, 's> {
    output: &'f mut Output<'s>,
    /// The output stopped the reading.
    has_stopped: &'f mut bool,
}

impl<'de> DeserializeSeed<'de> for Seed<Feed<'_, '_>> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self.0)
    }
}

impl<'de> Visitor<'de> for Feed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON Feed")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { output, has_stopped } = self;
        while let Some(key) = map.next_key::<Text>()? {
            if key.is("items") {
                map.next_value_seed(Seed(Items(Feed { output, has_stopped })))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Visitor of the items.
struct Items<'f, 's>(Feed<'f, 's>);

impl<'de> DeserializeSeed<'de> for Seed<Items<'_, '_>> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self.0)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Feed { output, has_stopped } = self.0;
        while let Some(item) = items.next_element::<Item>()? {
            if item.put(output).is_break() {
                *has_stopped = true;
                return Err(A::Error::custom("the reader stopped"));
            }
        }
        Ok(())
    }
}

/// Item of a feed.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Item {
    url: Text,
    external_url: Text,
    date_modified: Text,
    date_published: Text,
}

impl Item {
    fn put(&self, output: &mut Output<'_>) -> ControlFlow<()> {
        let date = |text: &Text| date::milliseconds(text.0.as_deref()?);
        let mut url = Value::default();
        for text in [&self.url, &self.external_url] {
            if url.is_empty() && !url.is_too_long() {
                url.push(text.0.as_deref().unwrap_or_default());
            }
        }
        if url.is_too_long() {
            output.drop_too_long();
        } else if !url.is_empty() {
            let modified_ms = date(&self.date_modified).or_else(|| date(&self.date_published));
            output.put(Entry::page(url.get(), modified_ms))?;
        }
        ControlFlow::Continue(())
    }
}

/// String; absent for a value of another type. A string that is longer than a URL is cut beyond that
/// length.
#[derive(Default)]
struct Text(Option<String>);

impl Text {
    fn is(&self, name: &str) -> bool {
        self.0.as_deref() == Some(name)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        let end = text.char_indices().map(|(at, _)| at).find(|at| *at > 2 * MAX_URL_BYTES);
        Ok(Text(Some(text[..end.unwrap_or(text.len())].to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Text, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Text, A::Error> {
        while values.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use crate::{Error, MAX_URL_BYTES, read, sniff};

    fn urls(document: &str) -> Result<(Vec<String>, bool), Error> {
        let mut urls = vec![];
        let report = read(document.as_bytes(), |entry| {
            urls.push(format!("{} {:?}", entry.url, entry.modified_ms));
            ControlFlow::Continue(())
        })?;
        Ok((urls, report.is_cut))
    }

    #[test]
    fn a_feed_is_read_with_its_version_before_or_after_the_items() {
        let items = r#""items": [{"id": 1, "url": "/a", "date_modified": "1970-01-01T00:00:01Z", "tags": [[{}]]},
            {"external_url": " /b ", "url": null, "date_modified": 5, "date_published": "1970-01-01T00:00:02Z"}, {}]"#;
        let version = r#""version": "https:\/\/jsonfeed.org\/version\/1.1", "home_page_url": 1e999"#;
        let both = vec!["/a Some(1000)".to_owned(), "/b Some(2000)".to_owned()];
        assert_eq!(urls(&format!("{{{version}, {items}}}")), Ok((both.clone(), false)));
        assert_eq!(urls(&format!("\u{feff}\n{{{items}, {version}}}")), Ok((both, false)));
        assert_eq!(urls(&format!("{{{items}}}")), Err(Error::UnknownFormat));
        assert_eq!(urls(&format!("{{\"version\": [1], {items}}}")), Err(Error::UnknownFormat));
        assert!(sniff(format!("{{{version}, {items}}}").as_bytes()).is_some());
    }

    #[test]
    fn a_damaged_feed_has_the_items_before_the_damage() {
        let start = r#"{"version": "https://jsonfeed.org/version/1", "items": [{"url": "/a"}, "#;
        for rest in ["", "{\"url\": \"/b\"", "7]}", "{\"url\": \"/b\",}]}"] {
            assert_eq!(urls(&format!("{start}{rest}")), Ok((vec!["/a None".to_owned()], true)), "{rest}");
        }
    }

    #[test]
    fn a_url_that_is_too_long_is_dropped() {
        let long = "a".repeat(MAX_URL_BYTES + 1);
        let start = r#"{"version": "https://jsonfeed.org/version/1", "items": ["#;
        let body = format!("{start}{{\"url\": \"{long}\"}}, {{\"url\": \"/{}\"}}]}}", long.repeat(100));
        let report = read(body.as_bytes(), |_| ControlFlow::Continue(()));
        assert_eq!(report.map(|report| (report.entries, report.too_long)), Ok((0, 2)));
    }
}
