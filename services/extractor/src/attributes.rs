//! Attributes of the current tag; only those that matter, and bounded.

use orbweaver_url::MAX_URL_BYTES;

/// Maximum length of a value, in bytes: the longest URL, and as much white space around it.
const MAX_VALUE_BYTES: usize = 2 * MAX_URL_BYTES;
/// Maximum length of a name, in bytes; longer names do not matter.
const MAX_NAME_BYTES: usize = 16;

/// An attribute that extraction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Href,
    Src,
    Rel,
    Name,
    Content,
    HttpEquiv,
    Lang,
    XmlLang,
    Type,
    Srcset,
    ImageSrcset,
    Poster,
    Data,
    Background,
    XlinkHref,
    Style,
    Property,
    Hreflang,
    Title,
    Alt,
    Datetime,
    Value,
    Itemscope,
    Itemtype,
    Itemprop,
    Itemid,
}

const ATTRIBUTES: usize = 26;

impl Attribute {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"href" => Self::Href,
            b"src" => Self::Src,
            b"rel" => Self::Rel,
            b"name" => Self::Name,
            b"content" => Self::Content,
            b"http-equiv" => Self::HttpEquiv,
            b"lang" => Self::Lang,
            b"xml:lang" => Self::XmlLang,
            b"type" => Self::Type,
            b"srcset" => Self::Srcset,
            b"imagesrcset" => Self::ImageSrcset,
            b"poster" => Self::Poster,
            b"data" => Self::Data,
            b"background" => Self::Background,
            b"xlink:href" => Self::XlinkHref,
            b"style" => Self::Style,
            b"property" => Self::Property,
            b"hreflang" => Self::Hreflang,
            b"title" => Self::Title,
            b"alt" => Self::Alt,
            b"datetime" => Self::Datetime,
            b"value" => Self::Value,
            b"itemscope" => Self::Itemscope,
            b"itemtype" => Self::Itemtype,
            b"itemprop" => Self::Itemprop,
            b"itemid" => Self::Itemid,
            _ => return None,
        })
    }
}

/// State of reading an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reading {
    /// No attribute, or one that does not matter.
    #[default]
    Nothing,
    /// The name of an attribute.
    Name,
    Value(Attribute),
}

/// Attributes of one tag. The buffers are reused from tag to tag.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    name: Vec<u8>,
    reading: Reading,
    present: [bool; ATTRIBUTES],
    values: [Vec<u8>; ATTRIBUTES],
    cut: [bool; ATTRIBUTES],
}

impl Attributes {
    /// Starts a new tag.
    pub(crate) fn clear(&mut self) {
        self.reading = Reading::Nothing;
        self.present = [false; ATTRIBUTES];
        self.cut = [false; ATTRIBUTES];
    }

    /// Starts a new attribute.
    pub(crate) fn begin(&mut self) {
        self.end();
        self.name.clear();
        self.reading = Reading::Name;
    }

    /// Appends to the attribute's name, in lower case.
    pub(crate) fn push_name(&mut self, name: &[u8]) {
        if self.reading == Reading::Name {
            let room = (MAX_NAME_BYTES + 1).saturating_sub(self.name.len());
            self.name.extend_from_slice(&name[..name.len().min(room)]);
        }
    }

    /// Appends to the attribute's value, with resolved character references.
    pub(crate) fn push_value(&mut self, value: &[u8]) {
        self.resolve();
        if let Reading::Value(attribute) = self.reading {
            let kept = &mut self.values[attribute as usize];
            let room = MAX_VALUE_BYTES.saturating_sub(kept.len());
            self.cut[attribute as usize] |= room < value.len();
            kept.extend_from_slice(&value[..value.len().min(room)]);
        }
    }

    /// Ends the attribute, or the tag.
    pub(crate) fn end(&mut self) {
        self.resolve();
        self.reading = Reading::Nothing;
    }

    /// Returns the value of an attribute of the tag that has ended.
    pub(crate) fn get(&self, attribute: Attribute) -> Option<&[u8]> {
        self.present[attribute as usize].then(|| self.values[attribute as usize].as_slice())
    }

    pub(crate) fn is_cut(&self, attribute: Attribute) -> bool {
        self.cut[attribute as usize]
    }

    /// Maps a complete name to its attribute. Of two attributes with one name, the first counts (WHATWG HTML
    /// 13.2.5.33).
    fn resolve(&mut self) {
        if self.reading != Reading::Name {
            return;
        }
        self.reading = match Attribute::of(&self.name) {
            Some(attribute) if !self.present[attribute as usize] => {
                self.present[attribute as usize] = true;
                self.values[attribute as usize].clear();
                Reading::Value(attribute)
            }
            _ => Reading::Nothing,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.clear();
        for (name, value) in pairs {
            attributes.begin();
            attributes.push_name(name.as_bytes());
            if !value.is_empty() {
                attributes.push_value(value.as_bytes());
            }
        }
        attributes.end();
        attributes
    }

    #[test]
    fn of_two_attributes_of_one_name_the_first_counts() {
        assert_eq!(read(&[("href", "a"), ("href", "b")]).get(Attribute::Href), Some(&b"a"[..]));
    }

    #[test]
    fn an_attribute_without_a_value_is_empty_and_a_missing_one_is_none() {
        let attributes = read(&[("href", ""), ("class", "x")]);
        assert_eq!(attributes.get(Attribute::Href), Some(&b""[..]));
        assert_eq!(attributes.get(Attribute::Rel), None);
    }

    #[test]
    fn a_value_is_bounded_and_says_that_it_was_cut() {
        let attributes = read(&[("href", &"x".repeat(1 << 20)), (&"n".repeat(1 << 20), "y")]);
        assert_eq!(attributes.get(Attribute::Href).map(<[u8]>::len), Some(MAX_VALUE_BYTES));
        assert!(attributes.is_cut(Attribute::Href));
    }
}
