//! Formats in XML: sitemaps, indexes, RSS, Atom.

use std::{borrow::Cow, ops::ControlFlow};

use quick_xml::{
    escape::resolve_xml_entity,
    events::{BytesRef, BytesStart, Event},
};

use crate::{
    Error, Format,
    events::{Damage, Events},
    open::Open,
    output::Output,
    page::Page,
    prolog::Prolog,
    role::{Field, Role, is_page, role},
    value::Value,
};

/// Reads a document. Damage ends it, and is reported to the output.
///
/// # Errors
/// The root element is of no known format, or the document is damaged before it.
pub(crate) fn read(mut events: Events<'_>, output: &mut Output<'_>) -> Result<Format, Error> {
    let Prolog { format, has_definitions, open } = Prolog::read(&mut events)?;
    let mut feed = Feed { format, has_definitions, open, page: Page::default(), output };
    while !feed.open.is_empty() {
        let flow = match events.read() {
            Ok(event) => feed.event(&event),
            Err(damage) => feed.damaged(&damage),
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(format)
}

/// State of the reading of a document.
struct Feed<'o, 's> {
    format: Format,
    has_definitions: bool,
    open: Open,
    page: Page,
    output: &'o mut Output<'s>,
}

impl Feed<'_, '_> {
    /// Handles an event. Breaks at the end of the document and if the output does.
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Start(tag) => self.start(tag)?,
            Event::Empty(tag) => {
                self.start(tag)?;
                self.close(self.open.around())?;
            }
            Event::End(tag) => {
                let remaining = self.open.end(tag.local_name().as_ref());
                self.close(remaining)?;
            }
            Event::Text(text) => self.text(text),
            Event::CData(text) => self.text(text),
            Event::GeneralRef(reference) => self.reference(reference),
            Event::Eof => {
                self.output.cut("the document ends within its root element");
                self.page.put_url(self.output)?;
                return ControlFlow::Break(());
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Ends the document at its damage: an entry with a complete URL is passed to the output.
    fn damaged(&mut self, damage: &Damage) -> ControlFlow<()> {
        self.output.cut(&*damage.reason);
        let field = self.open.innermost();
        if damage.is_in_end_tag && field == Some(Role::Field(Field::Location)) {
            self.page.end_field(Field::Location, self.output)?;
        }
        self.page.put_url(self.output)?;
        ControlFlow::Break(())
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> ControlFlow<()> {
        let name = tag.local_name();
        let name = name.as_ref();
        let mut parent = self.open.innermost().unwrap_or(Role::Other);
        if parent == Role::Page && is_page(self.format, name) {
            // The end tag of the entry before it is missing.
            self.close(self.open.around())?;
            parent = self.open.innermost().unwrap_or(Role::Other);
        }
        let role = role(self.format, parent, name);
        match role {
            Role::Page => {
                self.page.begin(name.eq_ignore_ascii_case("sitemap"));
                if self.format == Format::Rss
                    && let Some(about) = attribute(tag, "about")
                {
                    self.page.link(about, true);
                }
            }
            Role::Field(_) => self.page.begin_field(),
            _ => {}
        }
        if parent == Role::Page && name.eq_ignore_ascii_case("link") {
            self.link(tag)?;
        }
        self.open.push(name, role);
        ControlFlow::Continue(())
    }

    /// Handles a link with its URL in an attribute: of Atom, also within RSS, or of a translation in a sitemap.
    fn link(&mut self, tag: &BytesStart<'_>) -> ControlFlow<()> {
        let relation = attribute(tag, "rel");
        let is_alternate = relation.is_some_and(|relation| relation.trim().eq_ignore_ascii_case("alternate"));
        let Some(url) = attribute(tag, "href").filter(|_| relation.is_none() || is_alternate) else {
            return ControlFlow::Continue(());
        };
        match self.format {
            Format::Sitemap | Format::Index if is_alternate => self.page.put_alternate(url, self.output)?,
            Format::Atom => self.page.link(url, false),
            Format::Rss => self.page.link(url, true),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Closes elements until `remaining` are open.
    fn close(&mut self, remaining: usize) -> ControlFlow<()> {
        while let Some(role) = self.open.pop(remaining) {
            match role {
                Role::Field(field) => self.page.end_field(field, self.output)?,
                Role::Page => self.page.end(self.output)?,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the value to which text belongs here.
    fn value(&mut self) -> Option<&mut Value> {
        match self.open.innermost()? {
            role if role.has_text() => Some(self.page.field()),
            Role::Page if matches!(self.format, Format::Sitemap | Format::Index) => self.page.bare(),
            _ => None,
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(value) = self.value() {
            value.push(text);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) {
        if let Ok(Some(character)) = reference.resolve_char_ref() {
            self.text(character.encode_utf8(&mut [0; 4]));
        } else if let Some(text) = resolve_xml_entity(reference) {
            self.text(text);
        } else if self.has_definitions {
            if let Some(value) = self.value() {
                value.spoil();
            }
        } else {
            // A `&` of a URL that is not escaped, and a `;` after it.
            self.text("&");
            self.text(reference);
            self.text(";");
        }
    }
}

/// Returns an attribute by local name, as written.
fn attribute<'t>(tag: &'t BytesStart<'_>, name: &str) -> Option<&'t str> {
    let mut attributes = tag.html_attributes();
    let found = attributes.with_checks(false).flatten().find(|attribute| {
        let local = attribute.key.local_name();
        local.as_ref().eq_ignore_ascii_case(name)
    })?;
    match found.value {
        Cow::Borrowed(value) => Some(value),
        // Never: the library only cuts the value out of the tag.
        Cow::Owned(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, read};

    /// Returns the URLs of a document, alternates with `~` before them.
    fn urls(document: &str) -> Vec<String> {
        let mut urls = vec![];
        let report = read(document.as_bytes(), |entry| {
            urls.push(format!("{}{}", if entry.is_alternate { "~" } else { "" }, entry.url));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(report.map(|report| report.entries), Ok(urls.len()));
        urls
    }

    #[test]
    fn any_prefix_is_accepted_and_a_location_of_an_image_is_not_an_entry() {
        let document = "<s:urlset><s:url><i:image><i:loc>/i</i:loc></i:image><s:loc> /a </s:loc></s:url>\
                        <url><PageMap><url>/m</url><loc>/n</loc></PageMap><LOC>/b</LOC></url></s:urlset>";
        assert_eq!(urls(document), ["/a", "/b"]);
    }

    #[test]
    fn a_translation_is_an_entry_of_its_own_unless_it_is_the_page() {
        let document = "<urlset><url><loc>/en?a&amp;b</loc>\
            <x:link rel='alternate' hreflang='en' href='/en?a&amp;b'/>\
            <x:link rel='Alternate' hreflang='de' href='/de?a&amp;b'/><x:link rel='icon' href='/i'/></url></urlset>";
        assert_eq!(urls(document), ["~/de?a&b", "/en?a&b"]);
    }

    #[test]
    fn a_missing_end_tag_costs_no_entry() {
        assert_eq!(urls("<urlset><url><loc>/a</loc><url><loc>/b</loc></url></urlset>"), ["/a", "/b"]);
        assert_eq!(urls("<urlset><url><loc>/a</url><url><loc>/b</loc></urlset>"), ["/a", "/b"]);
        assert_eq!(urls("<urlset><url></b><loc>/a</loc></url></url><url><loc>/b</loc></url></urlset>"), ["/a", "/b"]);
        assert_eq!(urls("<rss><channel><item><link>/a</link><p><b></item><item><link>/b</link>"), ["/a", "/b"]);
    }

    #[test]
    fn an_ampersand_without_an_entity_is_kept() {
        assert_eq!(urls("<urlset><url><loc>/?a=1&b=2&c;d&#x26;e&amp;f</loc></url></urlset>"), ["/?a=1&b=2&c;d&e&f"]);
    }

    #[test]
    fn a_link_of_an_rss_item_precedes_its_guid_and_its_about() {
        let document = "<rdf:RDF><channel rdf:about='http://no'><link>/no</link></channel>\
            <item rdf:about='http://a'><link/></item><item rdf:about='http://no'><guid>http://no</guid><link>/b</link></item>\
            <item><guid isPermaLink='false'>http://c</guid></item><item><guid>d</guid></item>\
            <item><atom:link href='http://e'/><x:link rel='self' href='/no'/></item></rdf:RDF>";
        assert_eq!(urls(document), ["http://a", "/b", "http://c", "http://e"]);
    }

    #[test]
    fn the_first_alternate_link_of_an_atom_entry_counts() {
        let document = "<feed><link href='/no'/><entry><link rel='self' href='/no'/><link rel='enclosure' href='/no'/>\
            <content><entry><link href='/no'/></entry></content><link rel='alternate' href='/a'/><link href='/no'/></entry>\
            <entry><link href=/b></link></entry></feed>";
        assert_eq!(urls(document), ["/a", "/b"]);
    }

    #[test]
    fn the_time_of_a_change_precedes_that_of_publication() {
        let dates = |document: &str| {
            let mut dates = vec![];
            let report = read(document.as_bytes(), |entry| {
                dates.push(entry.modified_ms);
                std::ops::ControlFlow::Continue(())
            });
            assert!(report.is_ok_and(|report| !report.is_cut));
            dates
        };
        let entry = "<entry><link href='/a'/><published>1970-01-02</published><updated>1970-01-03</updated></entry>\
                     <entry><published>1970-01-02</published><link href='/b'/><updated>never</updated></entry>";
        assert_eq!(dates(&format!("<feed>{entry}</feed>")), [Some(172_800_000), Some(86_400_000)]);
        let item = "<item><link>/a</link><dc:date>1970-01-02</dc:date></item><item><link>/b</link></item>";
        assert_eq!(dates(&format!("<rss><channel>{item}</channel></rss>")), [Some(86_400_000), None]);
    }

    #[test]
    fn an_empty_document_has_no_entries() {
        for document in ["<urlset/>", "<urlset></urlset>", "<urlset><url/><url></url><url><loc/></url></urlset>"] {
            assert_eq!(urls(document), Vec::<String>::new());
            let report = read(document.as_bytes(), |_| std::ops::ControlFlow::Continue(()));
            assert_eq!(report.map(|report| (report.format, report.is_cut)), Ok((Format::Sitemap, false)));
        }
    }
}
