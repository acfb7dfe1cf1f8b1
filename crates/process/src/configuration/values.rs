//! Supplied values as the input of serde. A value is text; the type of its field decides what the text means.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserializer,
    de::{
        self, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

use super::Raw;

/// Problem of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// The section has no such key, but these.
    #[error("there is no such key")]
    Unknown(&'static [&'static str]),
    /// The value is not allowed; the description of its field names the allowed values.
    #[error("this value is not allowed")]
    NotAllowed,
    /// The value is not allowed, with the reason.
    #[error("{0}")]
    Said(String),
}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Said(text.to_string())
    }

    fn unknown_field(_: &str, fields: &'static [&'static str]) -> Self {
        Self::Unknown(fields)
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::NotAllowed
    }

    fn invalid_value(_: Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::NotAllowed
    }

    fn invalid_type(_: Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::NotAllowed
    }
}

/// Value, or the values below a name.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Value(&'a Raw),
    Table(BTreeMap<&'a str, Node<'a>>),
}

impl<'a> Node<'a> {
    /// Returns the values of a section by name: a name with a dot belongs to the map before the first dot.
    pub(super) fn section(values: impl Iterator<Item = (&'a str, &'a Raw)>) -> Self {
        let mut section = BTreeMap::new();
        for (name, raw) in values {
            match name.split_once('.') {
                None => drop(section.insert(name, Self::Value(raw))),
                Some((map, rest)) => {
                    let node = section.entry(map).or_insert_with(|| Self::Table(BTreeMap::new()));
                    if let Self::Table(table) = node {
                        table.insert(rest, Self::Value(raw));
                    }
                }
            }
        }
        Self::Table(section)
    }

    /// Returns the text, trimmed.
    fn text(&self) -> Result<&'a str, Problem> {
        match self {
            Self::Value(Raw::Scalar(text)) => shown(text.trim()),
            _ => Err(Problem::NotAllowed),
        }
    }

    fn texts(&self) -> Result<Vec<&'a str>, Problem> {
        let texts: Vec<&str> = match self {
            Self::Value(Raw::List(texts)) => texts.iter().map(|text| text.trim()).collect(),
            Self::Value(Raw::Scalar(text)) => text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect(),
            Self::Table(_) => return Err(Problem::NotAllowed),
        };
        texts.into_iter().map(|text| if text.is_empty() { Err(Problem::NotAllowed) } else { shown(text) }).collect()
    }
}

/// A value that is shown may have no control characters.
fn shown(text: &str) -> Result<&str, Problem> {
    if text.chars().any(char::is_control) { Err(Problem::NotAllowed) } else { Ok(text) }
}

impl<'de> IntoDeserializer<'de, Problem> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self {
            Self::Value(Raw::Scalar(_)) => visitor.visit_borrowed_str(self.text()?),
            Self::Value(Raw::List(_)) => self.deserialize_seq(visitor),
            Self::Table(table) => visitor.visit_map(MapDeserializer::new(table.into_iter())),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_bool(self.text()?.parse().map_err(|_| Problem::NotAllowed)?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self {
            Self::Value(Raw::Scalar(text)) => visitor.visit_borrowed_bytes(text.as_bytes()),
            _ => Err(Problem::NotAllowed),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_seq(SeqDeserializer::new(self.texts()?.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_enum(IntoDeserializer::<Problem>::into_deserializer(self.text()?))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string byte_buf unit unit_struct tuple tuple_struct map
        struct identifier ignored_any
    }
}
