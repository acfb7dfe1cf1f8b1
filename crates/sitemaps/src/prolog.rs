//! Start of an XML document.

use quick_xml::events::Event;

use crate::{Error, Format, events::Events, open::Open, role::Role};

/// Start of a document, up to its root element.
pub(crate) struct Prolog {
    pub(crate) format: Format,
    /// The document has a document type definition: entities may have values that are not read.
    pub(crate) has_definitions: bool,
    /// The root element; none if it is empty.
    pub(crate) open: Open,
}

impl Prolog {
    /// Reads up to the root element.
    ///
    /// # Errors
    /// The root element is of no known format, or there is none.
    pub(crate) fn read(events: &mut Events<'_>) -> Result<Self, Error> {
        let (mut has_definitions, mut open) = (false, Open::default());
        loop {
            let event = events.read().map_err(|_| Error::UnknownFormat)?;
            let tag = match &event {
                Event::DocType(_) => {
                    has_definitions = true;
                    continue;
                }
                Event::Start(tag) | Event::Empty(tag) => tag,
                Event::Eof => return Err(Error::UnknownFormat),
                _ => continue,
            };
            let format = Format::of_root(tag.local_name().as_ref()).ok_or(Error::UnknownFormat)?;
            if matches!(event, Event::Start(_)) {
                open.push(tag.local_name().as_ref(), Role::Root);
            }
            return Ok(Self { format, has_definitions, open });
        }
    }
}
