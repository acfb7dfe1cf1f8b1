//! Comparison of tokenizers on the same task: links and text without a tree (`docs/adr/0007-extraction.md`).
//!
//! `extract.rs` measures html5gum through the extractor's own emitter; here its plain callback emitter is used, so
//! that all three only find `a[href]` and collect text. lol_html does not resolve character references.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, StartTag, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts, states::RawKind,
};
use html5gum::Span;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use lol_html::{HtmlRewriter, Settings, doc_text, element, html_content::TextType};

#[path = "page/mod.rs"]
mod page;

type Found = (Vec<String>, String);

fn html5gum(html: &str) -> Found {
    let found = RefCell::new((Vec::new(), String::new()));
    let (mut anchor, mut href, mut hidden) = (false, false, false);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                anchor = name == b"a";
                hidden = matches!(name, b"script" | b"style");
            }
            CallbackEvent::AttributeName { name } => href = anchor && name == b"href",
            CallbackEvent::AttributeValue { value } if href => {
                found.borrow_mut().0.push(String::from_utf8_lossy(value).into_owned());
            }
            CallbackEvent::EndTag { .. } => hidden = false,
            CallbackEvent::String { value } if !hidden => {
                found.borrow_mut().1.push_str(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
        None
    });
    emitter.naively_switch_states(true);
    html5gum::Tokenizer::new_with_emitter(html, emitter).finish().unwrap();
    found.into_inner()
}

#[derive(Default)]
struct Sink {
    found: RefCell<Found>,
    hidden: Cell<bool>,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(text) if !self.hidden.get() => self.found.borrow_mut().1.push_str(&text),
            TagToken(tag) if tag.kind == StartTag => match &*tag.name {
                "a" => {
                    let href = tag.attrs.iter().find(|attribute| &*attribute.name.local == "href");
                    self.found.borrow_mut().0.extend(href.map(|href| href.value.to_string()));
                }
                "script" => {
                    self.hidden.set(true);
                    return TokenSinkResult::RawData(RawKind::ScriptData);
                }
                "style" => {
                    self.hidden.set(true);
                    return TokenSinkResult::RawData(RawKind::Rawtext);
                }
                "title" => return TokenSinkResult::RawData(RawKind::Rcdata),
                _ => {}
            },
            TagToken(_) => self.hidden.set(false),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn html5ever(html: &str) -> Found {
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.found.take()
}

fn lol_html(html: &str) -> Found {
    let (mut links, mut text) = (Vec::new(), String::new());
    let settings = Settings::new()
        .append_element_content_handler(element!("a[href]", |anchor| {
            links.extend(anchor.get_attribute("href"));
            Ok(())
        }))
        .append_document_content_handler(doc_text!(|chunk| {
            if matches!(chunk.text_type(), TextType::Data | TextType::RCData) {
                text.push_str(chunk.as_str());
            }
            Ok(())
        }))
        .with_strict(false);
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| ());
    rewriter.write(html.as_bytes()).unwrap();
    rewriter.end().unwrap();
    (links, text)
}

fn tokenizers(criterion: &mut Criterion) {
    let html = page::page();
    let (links, text) = html5ever(&html);
    assert_eq!((links.len(), html5gum(&html)), (30, (links, text)));
    assert_eq!(lol_html(&html).0.len(), 30);
    let mut group = criterion.benchmark_group("tokenizers");
    group.throughput(Throughput::Bytes(html.len() as u64));
    group.bench_function("html5gum", |bencher| bencher.iter(|| html5gum(black_box(&html))));
    group.bench_function("html5ever", |bencher| bencher.iter(|| html5ever(black_box(&html))));
    group.bench_function("lol_html", |bencher| bencher.iter(|| lol_html(black_box(&html))));
    group.finish();
}

criterion_group!(benches, tokenizers);
criterion_main!(benches);
