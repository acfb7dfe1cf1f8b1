//! Microdata (WHATWG HTML 5): items of the page, as the standard converts them to JSON.
//!
//! Without a tree: open elements are remembered while an item is open. `itemref` is ignored.

use serde_json::{Map, Value, json};

use super::Budget;
use crate::attributes::{Attribute, Attributes};
use crate::tag::Tag;
use crate::text::folded;

/// Maximum number of open elements from an item on; deeper ones are read as part of the last of these.
const MAX_OPEN: usize = 100;
/// Maximum depth of items within each other. JSON has three levels for each, and readers of JSON take 128.
const MAX_DEPTH: usize = 16;
/// Maximum number of open elements whose text is the value of a property: the text is read once for each.
const MAX_PROPERTIES: usize = 8;

#[derive(Debug, Clone)]
enum Content {
    Text(String),
    /// URL, as written.
    Url(String),
    /// Index of an item.
    Item(usize),
}

#[derive(Debug, Default)]
struct Item {
    types: Vec<String>,
    id: Option<String>,
    properties: Vec<(String, Content)>,
    /// Whether it is a value of a property of another item.
    is_nested: bool,
}

/// An open element.
#[derive(Debug)]
struct Open {
    name: u128,
    item: Option<usize>,
    /// The property whose value is the text of the element: its item, its names, and the start of the text.
    property: Option<(usize, Vec<String>, usize)>,
}

/// Items of a page, and the open elements.
#[derive(Debug, Default)]
pub(super) struct Microdata {
    items: Vec<Item>,
    open: Vec<Open>,
    /// Number of open elements that are too deep to be remembered.
    deeper: usize,
    /// Text since the start of the outermost open property.
    text: Vec<u8>,
    /// Number of open properties.
    properties: usize,
}

impl Microdata {
    /// Handles a start tag.
    pub(super) fn start(&mut self, name: &[u8], attributes: &Attributes, budget: &mut Budget) {
        let has_scope = attributes.get(Attribute::Itemscope).is_some();
        if self.open.is_empty() && !has_scope {
            return;
        }
        self.end_like(name, budget);
        if is_block(name) {
            self.add_text(b" ", budget);
        }
        if self.open.len() == MAX_OPEN {
            self.deeper += usize::from(!is_void(name));
            return;
        }
        let parent = self.open.iter().rev().find_map(|open| open.item);
        let depth = self.open.iter().filter(|open| open.item.is_some()).count();
        let item = (has_scope && depth < MAX_DEPTH && budget.take(0)).then(|| self.add_item(attributes, budget));
        let mut property = None;
        if let Some(parent) = parent
            && let Some(mut names) = property_names(attributes)
        {
            if let Some(item) = item {
                // An item that is in several properties would be written as often.
                self.items[parent].properties.push((names.swap_remove(0), Content::Item(item)));
                self.items[item].is_nested = true;
            } else if let Some(value) = value(name, attributes) {
                self.add_value(parent, names, &value, budget);
            } else if self.properties < MAX_PROPERTIES {
                property = Some((parent, names, self.text.len()));
            } else {
                budget.is_exceeded = true;
            }
        }
        if !is_void(name) {
            self.properties += usize::from(property.is_some());
            self.open.push(Open { name: code(name), item, property });
        }
    }

    /// Handles an end tag, which also ends open elements within its element.
    pub(super) fn end(&mut self, name: &[u8], budget: &mut Budget) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        if is_block(name) {
            self.add_text(b" ", budget);
        }
        let code = code(name);
        if let Some(index) = self.open.iter().rposition(|open| open.name == code) {
            while self.open.len() > index {
                self.end_last(budget);
            }
        }
    }

    /// Ends all elements, at the end of the page.
    pub(super) fn finish(&mut self, budget: &mut Budget) {
        while !self.open.is_empty() {
            self.end_last(budget);
        }
    }

    /// Adds text that is shown.
    pub(super) fn add_text(&mut self, text: &[u8], budget: &mut Budget) {
        if self.properties == 0 {
            return;
        }
        if self.text.len() + text.len() <= budget.left {
            self.text.extend_from_slice(text);
        } else {
            budget.is_exceeded = true;
        }
    }

    /// Returns the items that are in no other one.
    pub(super) fn to_json(&self, resolve: &impl Fn(&str) -> Option<String>) -> Vec<Map<String, Value>> {
        self.items.iter().filter(|item| !item.is_nested).map(|item| self.item(item, resolve)).collect()
    }

    /// Recursion is bounded: an item is within at most [`MAX_DEPTH`] others.
    fn item(&self, item: &Item, resolve: &impl Fn(&str) -> Option<String>) -> Map<String, Value> {
        let mut properties: Map<String, Value> = Map::new();
        for (name, content) in &item.properties {
            let value = match content {
                Content::Text(text) => Value::from(text.as_str()),
                Content::Url(url) => Value::from(resolve(url).unwrap_or_else(|| url.clone())),
                Content::Item(index) => Value::Object(self.item(&self.items[*index], resolve)),
            };
            if let Value::Array(values) = properties.entry(name).or_insert_with(|| json!([])) {
                values.push(value);
            }
        }
        let mut object = Map::new();
        if !item.types.is_empty() {
            object.insert("type".to_owned(), Value::from(item.types.clone()));
        }
        if let Some(id) = &item.id {
            object.insert("id".to_owned(), Value::from(resolve(id).unwrap_or_else(|| id.clone())));
        }
        object.insert("properties".to_owned(), Value::Object(properties));
        object
    }

    /// Ends the last element if the start of another one of its name implies that.
    fn end_like(&mut self, name: &[u8], budget: &mut Budget) {
        let is_implied = matches!(name, b"li" | b"dt" | b"dd" | b"p" | b"option" | b"tr" | b"td" | b"th");
        if is_implied && self.deeper == 0 && self.open.last().is_some_and(|open| open.name == code(name)) {
            self.end_last(budget);
        }
    }

    fn end_last(&mut self, budget: &mut Budget) {
        let Some((item, names, start)) = self.open.pop().and_then(|open| open.property) else { return };
        let (text, _) = folded(&String::from_utf8_lossy(&self.text[start..]), usize::MAX);
        self.properties -= 1;
        if self.properties == 0 {
            self.text.clear();
        }
        self.add_value(item, names, &Content::Text(text), budget);
    }

    fn add_item(&mut self, attributes: &Attributes, budget: &mut Budget) -> usize {
        let words = |attribute| words(attributes.get(attribute).unwrap_or_default());
        let mut item = Item { types: words(Attribute::Itemtype), ..Item::default() };
        item.id = words(Attribute::Itemid).into_iter().next();
        item.types.retain(|name| budget.take(name.len()));
        item.id = item.id.filter(|id| budget.take(id.len()));
        self.items.push(item);
        self.items.len() - 1
    }

    fn add_value(&mut self, item: usize, names: Vec<String>, value: &Content, budget: &mut Budget) {
        let (Content::Text(text) | Content::Url(text)) = value else { return };
        if text.is_empty() {
            return;
        }
        for name in names {
            if budget.take(name.len() + text.len()) {
                self.items[item].properties.push((name, value.clone()));
            }
        }
    }
}

fn words(value: &[u8]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    // More are no names.
    for word in String::from_utf8_lossy(value).split_ascii_whitespace().take(16) {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

fn property_names(attributes: &Attributes) -> Option<Vec<String>> {
    Some(words(attributes.get(Attribute::Itemprop)?)).filter(|names| !names.is_empty())
}

/// Returns the value of a property that an attribute of its element holds; `None` if the text of the element is the value
/// (WHATWG HTML 5.2.4).
fn value(name: &[u8], attributes: &Attributes) -> Option<Content> {
    let (attribute, is_url) = match name {
        b"meta" => (Attribute::Content, false),
        b"audio" | b"embed" | b"iframe" | b"img" | b"source" | b"track" | b"video" => (Attribute::Src, true),
        b"a" | b"area" | b"link" => (Attribute::Href, true),
        b"object" => (Attribute::Data, true),
        b"data" | b"meter" => (Attribute::Value, false),
        b"time" if attributes.get(Attribute::Datetime).is_some() => (Attribute::Datetime, false),
        _ => return None,
    };
    let text = String::from_utf8_lossy(attributes.get(attribute).unwrap_or_default());
    let (text, _) = folded(&text, usize::MAX);
    // The remainder of a cut URL could pass for another one.
    let text = if is_url && attributes.is_cut(attribute) { String::new() } else { text };
    Some(if is_url { Content::Url(text) } else { Content::Text(text) })
}

/// Returns the first bytes of an element's name, as a number.
fn code(name: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let kept = name.len().min(bytes.len());
    bytes[..kept].copy_from_slice(&name[..kept]);
    u128::from_le_bytes(bytes)
}

fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Returns `true` for elements that separate words.
fn is_block(name: &[u8]) -> bool {
    Tag::of(name) == Tag::Block
}
