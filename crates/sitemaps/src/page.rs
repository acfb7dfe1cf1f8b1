//! Entry that is being read.

use std::ops::ControlFlow;

use crate::{Entry, date, format::begins_with_http, output::Output, role::Field, value::Value};

/// Parts of an entry, in the order of the file.
#[derive(Default)]
pub(crate) struct Page {
    url: Value,
    /// URL that counts if there is no other: a `guid`, an `rdf:about`, text without `loc`.
    fallback: Value,
    modified_ms: Option<i64>,
    published_ms: Option<i64>,
    is_sitemap: bool,
    /// A `loc` was read.
    has_location: bool,
    /// Text of the open field.
    field: Value,
}

impl Page {
    /// Begins an entry.
    pub(crate) fn begin(&mut self, is_sitemap: bool) {
        self.url.clear();
        self.fallback.clear();
        (self.modified_ms, self.published_ms) = (None, None);
        (self.is_sitemap, self.has_location) = (is_sitemap, false);
    }

    /// Begins a field.
    pub(crate) fn begin_field(&mut self) {
        self.field.clear();
    }

    /// Returns the text of the open field.
    pub(crate) fn field(&mut self) -> &mut Value {
        &mut self.field
    }

    /// Returns the text directly within the entry, which is a URL in some indexes.
    pub(crate) fn bare(&mut self) -> Option<&mut Value> {
        (!self.has_location).then_some(&mut self.fallback)
    }

    /// Takes the URL of an attribute: as the URL of the entry if it has none.
    pub(crate) fn link(&mut self, raw: &str, is_fallback: bool) {
        let url = if is_fallback { &mut self.fallback } else { &mut self.url };
        if url.is_empty() {
            url.set_attribute(raw);
        }
    }

    /// Ends a field. A further `loc` passes the entry of the one before it to the output.
    pub(crate) fn end_field(&mut self, field: Field, output: &mut Output<'_>) -> ControlFlow<()> {
        match field {
            Field::Location => {
                if self.has_location {
                    self.put_url(output)?;
                }
                self.has_location = true;
                std::mem::swap(&mut self.url, &mut self.field);
                return ControlFlow::Continue(());
            }
            Field::Link if self.url.is_empty() => std::mem::swap(&mut self.url, &mut self.field),
            Field::Guid if self.fallback.is_empty() && begins_with_http(self.field.get().as_bytes()) => {
                std::mem::swap(&mut self.fallback, &mut self.field);
            }
            Field::Modified => self.modified_ms = date::milliseconds(self.field.get()).or(self.modified_ms),
            Field::Published => self.published_ms = date::milliseconds(self.field.get()).or(self.published_ms),
            Field::Link | Field::Guid => {}
        }
        ControlFlow::Continue(())
    }

    /// Ends the entry, and passes it to the output if it has a URL.
    pub(crate) fn end(&mut self, output: &mut Output<'_>) -> ControlFlow<()> {
        let has_fallback = begins_with_http(self.fallback.get().as_bytes()) || self.fallback.is_too_long();
        if self.url.is_empty() && !self.url.is_too_long() && !self.has_location && has_fallback {
            std::mem::swap(&mut self.url, &mut self.fallback);
        }
        self.put_url(output)
    }

    /// Passes the URL of the entry to the output, if it has one. The only end of an entry in a file that is cut: a fallback
    /// may yet be replaced by a URL there.
    pub(crate) fn put_url(&mut self, output: &mut Output<'_>) -> ControlFlow<()> {
        let modified_ms = self.modified_ms.or(self.published_ms);
        (self.modified_ms, self.published_ms) = (None, None);
        if self.url.is_too_long() {
            output.drop_too_long();
        } else if !self.url.is_empty() {
            output.put(Entry { is_sitemap: self.is_sitemap, ..Entry::page(self.url.get(), modified_ms) })?;
        }
        self.url.clear();
        ControlFlow::Continue(())
    }

    /// Passes a translation to the output, unless its URL is that of the page, as far as it is read.
    pub(crate) fn put_alternate(&mut self, raw: &str, output: &mut Output<'_>) -> ControlFlow<()> {
        let mut url = Value::default();
        url.set_attribute(raw);
        if url.is_too_long() {
            output.drop_too_long();
        } else if !url.is_empty() && url.get() != self.url.get() {
            output.put(Entry { is_alternate: true, ..Entry::page(url.get(), None) })?;
        }
        ControlFlow::Continue(())
    }
}
