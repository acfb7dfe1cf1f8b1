//! Hash of the text of a page: it stays the same if only markup, scripts or styles change. Pure.

use std::convert::Infallible;

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};
use xxhash_rust::xxh3::Xxh3;

/// Elements whose content is no text.
const HIDDEN: [&[u8]; 4] = [b"noscript", b"script", b"style", b"template"];

/// Returns xxh3-64 of the words of a page, in hexadecimal digits. White space does not matter.
pub(crate) fn text_hash(body: &[u8]) -> String {
    let mut hash = Xxh3::new();
    // Open element whose content is no text, and the number of open elements of its name.
    let mut hidden: (Option<&[u8]>, usize) = (None, 0);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => match hidden {
                (Some(open), depth) => hidden.1 += usize::from(depth > 0 && open == name),
                (None, _) => hidden = (HIDDEN.into_iter().find(|hidden| *hidden == name), 1),
            },
            CallbackEvent::EndTag { name } if hidden.0 == Some(name) => {
                hidden.1 = hidden.1.saturating_sub(1);
                hidden.0 = hidden.0.filter(|_| hidden.1 > 0);
            }
            CallbackEvent::String { value } if hidden.0.is_none() => {
                for word in value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                    hash.update(word);
                    hash.update(b" ");
                }
            }
            _ => {}
        }
        None
    });
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(body, emitter).finish();
    format!("{:016x}", hash.digest())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = "<title>Title</title><p>One <b>two</b> three</p>";

    #[test]
    fn markup_scripts_and_white_space_are_not_part_of_the_text() {
        let text = text_hash(PAGE.as_bytes());
        for same in [
            "<!-- nonce 7 --><title>Title</title><script>var a = '<b>';</script><p class=x>One\n <i>two</i>  three</p>",
            "<title>Title</title><style>p { }</style><div>One two</div> three<template>x<template>y</template>z</template>",
            "<title>Title</title><noscript>Enable it</noscript><input type=hidden value=7>One two three",
        ] {
            assert_eq!(text_hash(same.as_bytes()), text, "{same}");
        }
        for other in [
            "<title>Title</title>One two",
            "<title>Other</title>One two three",
            "<title>Title</title>One two three four",
        ] {
            assert_ne!(text_hash(other.as_bytes()), text, "{other}");
        }
        assert_eq!(text.len(), 16);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_hash(body in prop::collection::vec(any::<u8>(), 0..300), html in "[<>/a-z!\\- ]{0,200}") {
            text_hash(&body);
            text_hash(html.as_bytes());
        }
    }
}
