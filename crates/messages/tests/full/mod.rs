//! A complete instance of every JSON message, made from its type: every option present, no list empty, no value its
//! default. A new field is in it by itself, and `agree.rs` fails until it is in the schema.

use std::fmt::Debug;
use std::iter::{once, repeat_n};

use orbweaver_messages::{
    ArchiveFile, CompletionAnswer, CompletionProbe, ConsumerGroups, CrawlDefinition, CrawlEvent, DeadLetter,
    Discovered, Dispatch, Document, FrontierUrl, Outcome, Page, PageChange, PageCount, PageSignature, ReadyDispatch,
    ScopeEntry, Seed, SitePages, SiteSettings, SiteState, decode, encode,
};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Message type.
pub(crate) struct Message {
    /// Returns a complete instance as JSON.
    pub(crate) value: fn() -> Value,
    /// Decodes the value as this type and encodes it again.
    pub(crate) round_trip: fn(&Value) -> Result<Value, String>,
}

/// Returns every JSON message, with the name of its schema.
pub(crate) fn messages() -> [(&'static str, Message); 22] {
    [
        ("seed", message::<Seed>()),
        ("discovered", message::<Discovered>()),
        ("waiting", message::<FrontierUrl>()),
        ("dispatch", message::<Dispatch>()),
        ("ready", message::<ReadyDispatch>()),
        ("outcome", message::<Outcome>()),
        ("page", message::<Page>()),
        ("archive-file", message::<ArchiveFile>()),
        ("page-change", message::<PageChange>()),
        ("document", message::<Document>()),
        ("page-signature", message::<PageSignature>()),
        ("site-memory", message::<SiteState>()),
        ("site-pages", message::<SitePages>()),
        ("crawl-definition", message::<CrawlDefinition>()),
        ("crawl-event", message::<CrawlEvent>()),
        ("scope-entry", message::<ScopeEntry>()),
        ("page-count", message::<PageCount>()),
        ("completion-probe", message::<CompletionProbe>()),
        ("completion-answer", message::<CompletionAnswer>()),
        ("consumer-groups", message::<ConsumerGroups>()),
        ("site-settings", message::<SiteSettings>()),
        ("dead-letter", message::<DeadLetter>()),
    ]
}

fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>() -> Message {
    let value = || -> Value {
        let complete = T::deserialize(Sample("")).unwrap();
        serde_json::from_slice(&encode(&complete)).unwrap()
    };
    let round_trip = |value: &Value| -> Result<Value, String> {
        let message: T = decode("message", Some(&encode(value))).map_err(|error| error.to_string())?;
        let written = encode(&message);
        let again: T = decode("message", Some(&written)).unwrap();
        assert_eq!(again, message, "an encoded message decodes to itself");
        Ok(serde_json::from_slice(&written).unwrap())
    };
    Message { value, round_trip }
}

/// Deserializer that makes up the value of the field of this name.
#[derive(Clone, Copy)]
struct Sample(&'static str);

impl<'de> IntoDeserializer<'de> for Sample {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Sample {
    type Error = Error;

    /// Makes up a number.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(1)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(match self.0 {
            "fingerprint" | "near_duplicate_of" | "signature" => "0123456789abcdef0123456789abcdef",
            "id" => "7-9",
            "policy" => "aggressive/1",
            _ => "text",
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(once(self)))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(repeat_n(self, length)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(once(("name", Self("value")))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(fields.iter().map(|&field| (field, Self(field)))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(variants[0].into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple_struct
        identifier ignored_any
    }
}
