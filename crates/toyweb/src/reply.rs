//! Response as a value.

/// Completion of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// Complete.
    #[default]
    Whole,
    /// The connection closes before the promised number of bytes was sent.
    Short {
        /// Content-Length.
        promised: u64,
    },
    /// The connection is reset without a response.
    Reset,
}

/// Response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Delay of the response, in milliseconds.
    pub delay_ms: u64,
    pub ending: Ending,
}

impl Reply {
    /// Creates a 200 with a body of the given type.
    #[must_use]
    pub fn of_type(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, content_type, headers: Vec::new(), body, delay_ms: 0, ending: Ending::Whole }
    }

    /// Creates a 200 with HTML.
    #[must_use]
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::of_type("text/html; charset=utf-8", body.into())
    }

    /// Creates a short text with the given status.
    #[must_use]
    pub fn plain(status: u16, text: &str) -> Self {
        Self { status, ..Self::of_type("text/plain", text.as_bytes().to_vec()) }
    }

    #[must_use]
    pub fn not_found() -> Self {
        Self::plain(404, "there is no such page\n")
    }

    #[must_use]
    pub fn redirect(status: u16, location: String) -> Self {
        Self::plain(status, "moved\n").with_header("location", location)
    }

    /// Returns the version of a page that changes, from its headers.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        let header = |(name, value): &(&str, String)| match *name {
            "x-version" | "etag" => value.trim_matches('"').parse().ok(),
            _ => None,
        };
        self.headers.iter().find_map(header)
    }

    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Inserts markup after the first occurrence of `tag`.
    #[must_use]
    pub fn with_markup(mut self, tag: &str, markup: &str) -> Self {
        let text = String::from_utf8_lossy(&self.body).replacen(tag, &format!("{tag}{markup}"), 1);
        self.body = text.into_bytes();
        self
    }
}
