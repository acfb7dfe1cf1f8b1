//! Formats, and the XML elements that begin them.

/// Format of a file, after gzip is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// XML sitemap: `urlset`.
    Sitemap,
    /// XML sitemap index: `sitemapindex`.
    Index,
    /// Text with a URL per line.
    Text,
    /// RSS 2.0 and 0.9x (`rss`), RSS 1.0 and 0.90 (`rdf:RDF`).
    Rss,
    /// Atom 1.0 and 0.3: `feed`.
    Atom,
    /// JSON Feed 1.x.
    JsonFeed,
}

impl Format {
    /// Returns the format of an XML document by the local name of its root element.
    pub(crate) fn of_root(name: &str) -> Option<Self> {
        let roots = [
            ("urlset", Self::Sitemap),
            ("sitemapindex", Self::Index),
            ("rss", Self::Rss),
            ("rdf", Self::Rss),
            ("feed", Self::Atom),
        ];
        roots.into_iter().find(|(root, _)| name.eq_ignore_ascii_case(root)).map(|(_, format)| format)
    }
}

/// Returns `true` if `text` begins with `http://` or `https://`, in any case.
pub(crate) fn begins_with_http(text: &[u8]) -> bool {
    let has = |scheme: &[u8]| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    has(b"http://") || has(b"https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_element_names_its_format_in_any_case() {
        assert_eq!(Format::of_root("urlset"), Some(Format::Sitemap));
        assert_eq!(Format::of_root("RDF"), Some(Format::Rss));
        assert_eq!(Format::of_root("html"), None);
    }

    #[test]
    fn a_scheme_is_known_in_any_case_and_only_at_the_start() {
        assert!(begins_with_http(b"HTTPS://a.example/") && begins_with_http(b"http://"));
        assert!(!begins_with_http(b"ftp://a.example/") && !begins_with_http(b"http:/") && !begins_with_http(b""));
    }
}
