//! Events of XML, from a text or from a stream.

use quick_xml::{Error, Reader, events::Event, reader::Config};

use crate::{input::Input, stream::Stream};

/// Maximum length of one text, tag or comment in a body that is a stream (gzip, or not valid UTF-8), in bytes: the file
/// is cut at a longer one. A UTF-8 body has no such limit, since its parts are used in place.
pub const MAX_EVENT_BYTES: usize = 8 << 20;

/// Number of open elements at which the parser's own list of them is dropped.
const MAX_OPEN: usize = 4096;

/// End of the readable part of a file.
pub(crate) struct Damage {
    pub(crate) reason: String,
    /// Damage within an end tag: the text before it is complete.
    pub(crate) is_in_end_tag: bool,
}

/// Lenient pull parser.
pub(crate) struct Events<'a> {
    reader: Either<'a>,
    buffer: Vec<u8>,
    /// Number of open elements in the parser's list.
    open: usize,
}

enum Either<'a> {
    Whole(Reader<&'a [u8]>),
    Stream(Box<Reader<Stream<'a>>>),
    /// Between two parsers.
    None,
}

impl<'a> Events<'a> {
    pub(crate) fn new(input: Input<'a>) -> Self {
        let reader = match input {
            Input::Whole(text) => whole(text.as_bytes()),
            Input::Stream(stream) => streamed(stream),
        };
        Self { reader, buffer: vec![], open: 0 }
    }

    /// Returns the next event.
    ///
    /// # Errors
    /// Syntax errors, gzip data that is damaged or too large, a part of a stream longer than [`MAX_EVENT_BYTES`].
    pub(crate) fn read(&mut self) -> Result<Event<'_>, Damage> {
        if self.open >= MAX_OPEN {
            self.forget_open();
        }
        self.buffer.clear();
        let event = match &mut self.reader {
            Either::Whole(reader) => {
                let rest = *reader.get_ref();
                reader.read_event().map_err(|error| damage(&error, rest))
            }
            Either::Stream(reader) => {
                reader.get_mut().allow(MAX_EVENT_BYTES);
                match reader.read_event_into(&mut self.buffer) {
                    Ok(event) => Ok(event),
                    Err(error) => Err(damage(&error, reader.get_ref().first())),
                }
            }
            Either::None => Ok(Event::Eof),
        }?;
        match event {
            Event::Start(_) => self.open += 1,
            Event::End(_) => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        Ok(event)
    }

    /// Replaces the parser: the parser lists all open elements even if it compares no names, which costs memory in
    /// proportion to the depth. Called between two tags only.
    fn forget_open(&mut self) {
        self.open = 0;
        self.reader = match std::mem::replace(&mut self.reader, Either::None) {
            Either::Whole(reader) => whole(reader.into_inner()),
            Either::Stream(reader) => streamed(reader.into_inner()),
            Either::None => Either::None,
        };
    }
}

fn whole(text: &[u8]) -> Either<'_> {
    let mut reader = Reader::from_reader(text);
    be_lenient(reader.config_mut());
    Either::Whole(reader)
}

fn streamed(stream: Stream<'_>) -> Either<'_> {
    let mut reader = Reader::from_reader(stream);
    be_lenient(reader.config_mut());
    Either::Stream(Box::new(reader))
}

/// Accepts names of end tags that differ, end tags without a start, and `&` in text.
fn be_lenient(config: &mut Config) {
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
}

/// Describes an error in an event that begins with `rest`.
fn damage(error: &Error, rest: &[u8]) -> Damage {
    Damage { reason: error.to_string(), is_in_end_tag: rest.starts_with(b"</") }
}
