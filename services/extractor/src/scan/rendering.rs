//! Pages whose content is made by scripts in a browser.

/// Maximum length of the text of a page without links whose scripts make its content, in bytes: "Loading" and the like.
const MAX_BARE_BYTES: usize = 64;
/// Maximum length of such a text if the page also says that it requires scripts, in bytes.
const MAX_TEXT_BYTES: usize = 512;
/// Maximum number of links of such a page.
const MAX_LINKS: usize = 3;

/// Signs in the markup that scripts make the content of the page.
#[derive(Debug, Default)]
pub(super) struct Rendering {
    pub(super) has_scripts: bool,
    /// Whether the page says, to those without scripts, that it requires them.
    says_so: bool,
}

impl Rendering {
    /// Reads text of a `noscript` element.
    pub(super) fn add_noscript(&mut self, text: &[u8]) {
        const NAME: &[u8] = b"javascript";
        self.says_so = self.says_so || text.windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME));
    }

    /// Returns `true` if a page with this length of its text and number of links has no content without its scripts.
    pub(super) fn is_needed(&self, text_bytes: usize, links: usize) -> bool {
        let is_bare = text_bytes <= MAX_BARE_BYTES && links == 0;
        let is_short = text_bytes <= MAX_TEXT_BYTES && links <= MAX_LINKS;
        self.has_scripts && (is_bare || self.says_so && is_short)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ExtractorConfig, PageInput, extract};

    fn needs_render(html: &str) -> bool {
        let url = url::Url::parse("http://a.test/").unwrap();
        let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
        extract(&input, &ExtractorConfig::default()).needs_render
    }

    #[test]
    fn a_page_that_is_empty_but_for_its_scripts_needs_a_browser() {
        for html in [
            "<title>App</title><div id=root></div><script src=/app.js></script>",
            "<app-root>Loading...</app-root><script type=module src=main.js></script>",
            "<script>location.href = '/new'</script>",
            "<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div><script src=x></script>",
            "<noscript>Please enable <b>javascript</b>.</noscript><p>One moment, please: the page is on its way to you, \
             and will be here soon.</p><a href=/>Home</a><script src=x></script>",
        ] {
            assert!(needs_render(html), "{html}");
        }
    }

    #[test]
    fn a_page_with_text_or_links_or_without_scripts_needs_none() {
        let text = "word ".repeat(20);
        for html in [
            format!("<p>{text}</p><script src=/app.js></script>"),
            "<a href=/x>x</a><script src=/app.js></script>".to_owned(),
            "<div id=root></div>".to_owned(),
            "<template><script></script></template>".to_owned(),
            "<meta http-equiv=refresh content='0; url=/new'><script src=x></script>".to_owned(),
            format!("<noscript>JavaScript</noscript><p>{}</p><script src=x></script>", text.repeat(6)),
            String::new(),
        ] {
            assert!(!needs_render(&html), "{html}");
        }
    }
}
