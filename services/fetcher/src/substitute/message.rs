//! Title and text of a page that may consist of a message.

use std::convert::Infallible;

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};

/// Number of bytes in which the title is searched.
const TITLE_WITHIN_BYTES: usize = 16 << 10;
/// Maximum length of a title that is read, in bytes.
const MAX_TITLE_BYTES: usize = 512;
/// Maximum length of the text that is kept, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Character references of an apostrophe, the only ones that matter in a message.
const APOSTROPHES: [&str; 4] = ["&#39;", "&#039;", "&rsquo;", "&#8217;"];

/// Returns the title in the markup of a page, with apostrophes as themselves; empty if there is none. Invalid UTF-8 is
/// replaced.
pub(super) fn title(body: &[u8]) -> String {
    let head = &body[..body.len().min(TITLE_WITHIN_BYTES)];
    let tag = memchr::memmem::find(head, b"<title").or_else(|| memchr::memmem::find(head, b"<TITLE"));
    let Some(tag) = tag else { return String::new() };
    let element = &head[tag..];
    let Some(start) = memchr::memchr(b'>', element) else { return String::new() };
    let text = &element[start + 1..];
    let text = &text[..text.len().min(MAX_TITLE_BYTES)];
    let end = memchr::memmem::find(text, b"</").unwrap_or(text.len());
    let title = String::from_utf8_lossy(&text[..end]).into_owned();
    APOSTROPHES.iter().fold(title, |title, written| title.replace(written, "'"))
}

/// Text of a page without its links, scripts, styles, forms and navigation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Beginning of the text.
    pub(super) text: String,
    /// Number of characters of the whole text, white space excluded.
    pub(super) chars: usize,
}

impl Message {
    pub(super) fn of(body: &[u8]) -> Self {
        let mut message = Self::default();
        let mut hidden = Hidden::default();
        let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
            match event {
                CallbackEvent::OpenStartTag { name } => hidden.start(name),
                CallbackEvent::EndTag { name } => hidden.end(name),
                CallbackEvent::String { value } if hidden.depth == 0 => message.push(value),
                _ => {}
            }
            None
        });
        emitter.naively_switch_states(true);
        let Ok(()) = Tokenizer::new_with_emitter(body, emitter).finish();
        message
    }

    fn push(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.chars += text.chars().filter(|char| !char.is_whitespace()).count();
        if self.text.len() + text.len() < MAX_TEXT_BYTES {
            self.text.push(' ');
            self.text.push_str(&text);
        }
    }
}

/// Elements whose text is not part of a message. Of a form it is: some sites have all of a page in one.
const HIDDEN: [&[u8]; 12] = [
    LINK,
    b"button",
    b"footer",
    b"nav",
    b"option",
    b"script",
    b"select",
    b"style",
    b"svg",
    b"template",
    b"textarea",
    b"title",
];
const LINK: &[u8] = b"a";
/// Elements that end a link without an end tag, whose text would otherwise be all of the page.
const BLOCKS: [&[u8]; 14] =
    [b"article", b"div", b"h1", b"h2", b"h3", b"li", b"main", b"ol", b"p", b"section", b"table", b"td", b"tr", b"ul"];

/// Open element whose text does not count.
#[derive(Debug, Default)]
struct Hidden {
    name: Vec<u8>,
    /// Number of open elements of this name; 0: none is hidden.
    depth: usize,
}

impl Hidden {
    fn start(&mut self, name: &[u8]) {
        if self.depth > 0 && self.name == LINK {
            // A link within a link ends the outer one.
            self.depth = usize::from(!BLOCKS.contains(&name));
        } else if self.depth > 0 {
            self.depth += usize::from(self.name == name);
        } else if HIDDEN.contains(&name) {
            self.name = name.to_vec();
            self.depth = 1;
        }
    }

    fn end(&mut self, name: &[u8]) {
        if self.name == name {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}
