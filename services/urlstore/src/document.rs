//! From an archived response to its document. Pure.

use orbweaver_extractor::{ExtractorConfig, PageInput, document::standalone};
use orbweaver_messages::{Document, Markdown, Millis};
use orbweaver_scope::{is_html, media_type};
use orbweaver_url::{CrawlName, parse};

use crate::{
    identity::Identity,
    problem::{Kind, Problem},
    record::Archived,
};

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Markdown,
    Text,
}

impl Form {
    /// Names of all forms; the first is the default.
    pub(crate) const NAMES: [&str; 3] = ["json", "markdown", "text"];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

impl From<&str> for Form {
    fn from(name: &str) -> Self {
        match name {
            "markdown" => Self::Markdown,
            "text" => Self::Text,
            _ => Self::Json,
        }
    }
}

/// Page of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentPage {
    pub(crate) crawl: CrawlName,
    pub(crate) identity: Identity,
    /// Link depth from the seed, and the page that led here, if the page is stored.
    pub(crate) origin: Option<(u16, Option<String>)>,
}

/// Returns the document of a page that was archived at `at_ms`, in this form.
pub(crate) fn written(archived: &Archived, page: &DocumentPage, at_ms: Millis, form: Form) -> Result<Vec<u8>, Problem> {
    let document = extracted(archived, page, at_ms, form)?;
    let damaged = |error| Problem::new(Kind::Damaged, format!("the document cannot be written: {error}"));
    match form {
        Form::Json => serde_json::to_vec(&document).map_err(damaged),
        Form::Markdown => Ok(document.markdown.unwrap_or_default().into()),
        Form::Text => Ok(document.main_text.unwrap_or_default().into()),
    }
}

fn extracted(archived: &Archived, page: &DocumentPage, at_ms: Millis, form: Form) -> Result<Document, Problem> {
    let content_type = archived.content_type.as_deref();
    let known = media_type(content_type);
    if !known.is_empty() && !is_html(known) {
        let detail =
            format!("the content is `{known}`; documents are extracted from HTML; `/v1/content` has the content");
        return Err(Problem::new(Kind::NotHtml, detail));
    }
    let url = parse(&page.identity.url).map_err(|error| Problem::new(Kind::Damaged, error.to_string()))?;
    let robots = archived.robots.iter().map(|value| ("x-robots-tag".to_owned(), value.clone()));
    let headers: Vec<_> = robots.collect();
    let input = PageInput { url: &url, site: None, content_type, headers: &headers, body: &archived.body };
    let all = form == Form::Json;
    let options = ExtractorConfig {
        main_text: form != Form::Markdown,
        markdown: if form == Form::Text { Markdown::None } else { Markdown::Images },
        facts: all,
        other_links: all,
        ..ExtractorConfig::default()
    };
    let document = standalone(&input, &page.crawl, at_ms, &options);
    let (depth, via) = page.origin.clone().unwrap_or((document.depth, None));
    let Identity { canonical, fingerprint, .. } = page.identity.clone();
    Ok(Document { url: canonical, fingerprint, status: archived.status, depth, via, ..document })
}

#[cfg(test)]
mod tests {
    use orbweaver_url::Keying;

    use super::*;

    fn page() -> DocumentPage {
        let identity = Identity::read("https://a.example/dir/b?y&x#z", &Keying::default()).unwrap();
        DocumentPage {
            crawl: CrawlName::default(),
            identity,
            origin: Some((3, Some("https://via.example/".to_owned()))),
        }
    }

    fn archived(content_type: Option<&str>, body: &str) -> Archived {
        Archived {
            // A content may be that of another page.
            url: "https://other.example/".to_owned(),
            status: 404,
            content_type: content_type.map(str::to_owned),
            robots: vec!["nofollow".to_owned()],
            truncated: None,
            body: body.into(),
        }
    }

    const HTML: &str = "<title>T</title><nav><a href=/>home</a></nav><article><h1>Head</h1><p>One <a href=c>two</a> \
        three four five six seven eight nine ten.</p></article>";

    #[test]
    fn a_document_is_that_of_its_page_at_the_time_of_the_fetch() {
        let found = extracted(&archived(Some("text/html; charset=utf-8"), HTML), &page(), 1000, Form::Json).unwrap();
        assert_eq!((&*found.url, &*found.fetched_url), (&*page().identity.canonical, "https://a.example/dir/b?y&x"));
        assert_eq!((found.fingerprint, found.status, found.depth), (page().identity.fingerprint, 404, 3));
        assert_eq!(
            (found.via.as_deref(), &*found.fetched_at),
            (Some("https://via.example/"), "1970-01-01T00:00:01.000Z")
        );
        assert_eq!((&*found.title, &*found.links[1].url), ("T", "https://a.example/dir/c"));
        assert!(found.robots.nofollow && found.facts.is_some() && found.other_links.is_some());
        assert!(found.main_text.unwrap().contains("three four"));
        assert!(found.markdown.unwrap().contains("[two](https://a.example/dir/c)"));
    }

    #[test]
    fn each_form_has_its_text() {
        let text = |form| String::from_utf8(written(&archived(None, HTML), &page(), 0, form).unwrap()).unwrap();
        assert!(text(Form::Json).starts_with('{') && text(Form::Markdown).contains("# Head"));
        assert!(text(Form::Text).contains("One two three") && !text(Form::Text).contains('#'));
    }

    #[test]
    fn a_content_that_is_not_html_has_no_document() {
        let refused = written(&archived(Some("application/pdf"), "%PDF"), &page(), 0, Form::Json).unwrap_err();
        assert_eq!((refused.kind, refused.detail.contains("`application/pdf`")), (Kind::NotHtml, true));
    }
}
