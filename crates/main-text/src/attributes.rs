//! Attributes of the current tag; only those that matter, and bounded.

/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 4096;
/// Maximum length of a name, in bytes; longer names do not matter.
const MAX_NAME_BYTES: usize = 16;

/// An attribute that the outline reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Href,
    Src,
    Alt,
    Title,
    Class,
    Id,
    Role,
    ItemProp,
    Style,
    Hidden,
    AriaHidden,
    Start,
    /// Source of an image that a script loads later.
    LazySrc,
    Type,
    Checked,
}

const ATTRIBUTES: usize = Attribute::Checked as usize + 1;

impl Attribute {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"href" => Self::Href,
            b"src" => Self::Src,
            b"alt" => Self::Alt,
            b"title" => Self::Title,
            b"class" => Self::Class,
            b"id" => Self::Id,
            b"role" => Self::Role,
            b"itemprop" => Self::ItemProp,
            b"style" => Self::Style,
            b"hidden" => Self::Hidden,
            b"aria-hidden" => Self::AriaHidden,
            b"start" => Self::Start,
            b"data-src" => Self::LazySrc,
            b"type" => Self::Type,
            b"checked" => Self::Checked,
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
}

impl Attributes {
    /// Starts a new tag.
    pub(crate) fn clear(&mut self) {
        self.reading = Reading::Nothing;
        self.present = [false; ATTRIBUTES];
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

    /// Returns the value as text; a value that is missing is empty.
    pub(crate) fn text(&self, attribute: Attribute) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(attribute).unwrap_or_default())
    }

    /// Returns `true` if the markup itself hides the element.
    pub(crate) fn is_hidden(&self) -> bool {
        self.get(Attribute::Hidden).is_some()
            || self.get(Attribute::AriaHidden).is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
            || self.get(Attribute::Style).is_some_and(hides)
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

/// Returns `true` for a style with `display: none` or `visibility: hidden`.
fn hides(style: &[u8]) -> bool {
    style.split(|byte| *byte == b';').any(|declaration| {
        let letters = declaration.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase);
        let plain: Vec<u8> = letters.take(24).collect();
        plain.starts_with(b"display:none") || plain.starts_with(b"visibility:hidden")
    })
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
    fn a_value_is_bounded() {
        let attributes = read(&[("href", &"x".repeat(1 << 20)), (&"n".repeat(1 << 20), "y")]);
        assert_eq!(attributes.get(Attribute::Href).map(<[u8]>::len), Some(MAX_VALUE_BYTES));
    }

    #[test]
    fn an_element_is_hidden_by_its_attributes_or_its_style() {
        for pair in [("hidden", ""), ("aria-hidden", "true"), ("style", "color: red; Display : none")] {
            assert!(read(&[pair]).is_hidden(), "{pair:?}");
        }
        assert!(!read(&[("style", "display:block"), ("aria-hidden", "false")]).is_hidden());
    }
}
