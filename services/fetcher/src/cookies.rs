//! Cookies of one dispatch: returned to a cookie wall that sets them, and dropped with the dispatch.

use orbweaver_url::Url;

/// Maximum length of the header `Cookie`, in bytes.
const MAX_BYTES: usize = 4096;

/// Names and values, in the order in which they were first set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Stores the cookies of a response (RFC 6265 section 5.2; only name and value matter here, since the cookies last
    /// for the few requests of one dispatch).
    pub(crate) fn set(&mut self, headers: &[String]) {
        for header in headers {
            let pair = header.split(';').next().unwrap_or_default();
            let Some((name, value)) = pair.split_once('=') else { continue };
            let (name, value) = (name.trim(), value.trim());
            let sendable = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            if name.is_empty() || !sendable(name) || !sendable(value) {
                continue;
            }
            match self.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => value.clone_into(known),
                None => self.0.push((name.to_owned(), value.to_owned())),
            }
        }
    }

    /// Drops all cookies before a request to another host, or from https to http.
    pub(crate) fn move_on(&mut self, from: &Url, to: &Url) {
        let weaker = from.scheme() == "https" && to.scheme() != "https";
        if weaker || from.host_str() != to.host_str() {
            self.0.clear();
        }
    }

    /// Returns the value of the header `Cookie`; `None` if there is nothing to send. Cookies that do not fit are
    /// omitted.
    pub(crate) fn header(&self) -> Option<String> {
        let mut header = String::new();
        for (name, value) in &self.0 {
            if header.len() + name.len() + value.len() + 3 > MAX_BYTES {
                continue;
            }
            if !header.is_empty() {
                header.push_str("; ");
            }
            header.push_str(name);
            header.push('=');
            header.push_str(value);
        }
        (!header.is_empty()).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cookies: &mut Cookies, headers: &[&str]) {
        cookies.set(&headers.iter().map(|&header| header.to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_set_is_sent_back_once_a_name() {
        let mut cookies = Cookies::default();
        assert_eq!(cookies.header(), None);
        set(&mut cookies, &["a=1; Path=/; HttpOnly", "b = x=y ", "broken", "=z", "c=\u{1}"]);
        set(&mut cookies, &["a=2"]);
        assert_eq!(cookies.header().as_deref(), Some("a=2; b=x=y"));
    }

    #[test]
    fn a_flood_of_cookies_is_cut() {
        let mut cookies = Cookies::default();
        for number in 0..1000 {
            set(&mut cookies, &[&format!("n{number}={}", "v".repeat(100))]);
        }
        assert!(cookies.header().unwrap().len() <= MAX_BYTES);
    }

    #[test]
    fn cookies_stay_with_their_host_and_off_the_clear_wire() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (from, to, kept) in [
            ("https://a.example/x", "https://a.example/y", true),
            ("http://a.example/x", "https://a.example/x", true),
            ("https://a.example/x", "http://a.example/x", false),
            ("https://a.example/", "https://b.example/", false),
        ] {
            let mut cookies = Cookies::default();
            set(&mut cookies, &["a=1"]);
            cookies.move_on(&url(from), &url(to));
            assert_eq!(cookies.header().is_some(), kept, "{from} -> {to}");
        }
    }
}
