//! Parsing of seeds.

use bytes::Bytes;
use orbweaver_messages::{Discovered, DiscoveryKind, Millis, Seed, decode};
use orbweaver_url::{CrawlName, WideDomains, parse_seed};

/// Parses the value of a seed's record: one JSON object, or one bare URL as text. The error describes the problem.
pub(crate) fn read(value: Option<&Bytes>) -> Result<Seed, String> {
    let value = value.ok_or("a seed record without a value; write a URL, or {\"url\": …, \"crawl\": …}")?;
    let text = std::str::from_utf8(value)
        .map_err(|error| format!("the seed is not UTF-8 from byte {} on; encode it as UTF-8", error.valid_up_to()))?;
    if text.trim_start().starts_with('{') {
        decode("seed", Some(value)).map_err(|error| error.to_string())
    } else {
        Ok(Seed::of_url(text.trim()))
    }
}

/// Converts a seed to a discovered URL. The error describes the problem with the URL or the crawl.
pub(crate) fn discovered(
    seed: &Seed,
    crawl: &CrawlName,
    wide: &WideDomains,
    now: Millis,
) -> Result<Discovered, String> {
    let url = parse_seed(&seed.url).map_err(|error| format!("the seed cannot be crawled: {error}"))?;
    Ok(Discovered {
        crawl: crawl.clone(),
        site: wide.site_of(&url).into(),
        via: None,
        depth: seed.depth,
        sighting: if seed.recrawl { DiscoveryKind::Recrawl } else { DiscoveryKind::Seed },
        chain: vec![],
        trail: orbweaver_messages::Trail::default(),
        content: None,
        priority: seed.priority,
        metadata: seed.metadata.clone(),
        urls: vec![url.into()],
        modified_ms: vec![],
        found_at_ms: now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Seed, String> {
        read(Some(&Bytes::copy_from_slice(text.as_bytes())))
    }

    #[test]
    fn a_seed_is_json_or_a_bare_url() {
        let seed = read_text(" {\"url\": \"example.org\", \"crawl\": \"docs\"}").unwrap();
        assert_eq!(seed, Seed { crawl: Some("docs".parse().unwrap()), ..Seed::of_url("example.org") });
        let seed = read_text("https://www.example.org/a#b\n").unwrap();
        let found = discovered(&seed, &"docs".parse().unwrap(), &WideDomains::default(), 5).unwrap();
        assert_eq!((&*found.site, found.urls.as_slice()), ("example.org", &["https://www.example.org/a".into()][..]));
        assert_eq!((found.sighting, found.depth, found.found_at_ms), (DiscoveryKind::Seed, 0, 5));
    }

    #[test]
    fn a_bad_seed_is_refused_with_what_is_wrong() {
        for (value, reason) in [
            (&b"https://example.org/\xff"[..], "the seed is not UTF-8 from byte 20 on"),
            (b"{\"uri\": 1}", "not a valid seed message: unknown field `uri`"),
            (b"{\"url\": 1}", "not a valid seed message: invalid type"),
            (br#"{"url": "a", "priority": 11}"#, "not a valid seed message: the priority is 11; allowed: -10 to 10"),
            (b"{", "not a valid seed message: EOF"),
            (br#"{"url": "a", "metadata": {"": "x"}}"#, "not a valid seed message: the metadata has a name of 0 bytes"),
        ] {
            let error = read(Some(&Bytes::from_static(value))).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
        assert!(read(None).unwrap_err().starts_with("a seed record without a value"));
        for (text, reason) in [
            ("", "the seed cannot be crawled: not a url: the text is empty"),
            ("ftp://example.org/", "the seed cannot be crawled: scheme `ftp` is not crawled; allowed: http and https"),
            ("http://exa mple/", "the seed cannot be crawled: not a url: `http://exa mple/`"),
        ] {
            let error = discovered(&read_text(text).unwrap(), &"docs".parse().unwrap(), &WideDomains::default(), 0)
                .unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
        let error = read_text(&format!(r#"{{"url": "example.org", "crawl": "{}"}}"#, "c".repeat(201))).unwrap_err();
        assert!(error.contains("the name of a crawl has 201 bytes; allowed: 1 to 200"), "{error}");
    }
}
