//! Things that a page describes, in JSON-LD or microdata alike.

use std::collections::VecDeque;

use serde_json::{Map, Value};

/// Maximum number of things that are looked at; the main one is among the first.
const MAX_THINGS: usize = 2000;

/// A thing with its types and properties.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thing<'a> {
    types: &'a Value,
    properties: &'a Map<String, Value>,
}

impl<'a> Thing<'a> {
    /// Returns the thing that an object describes, if it does.
    fn of(object: &'a Map<String, Value>) -> Option<Self> {
        match (object.get("type"), object.get("properties")) {
            (types, Some(Value::Object(properties))) => Some(Self { types: types.unwrap_or(&Value::Null), properties }),
            _ => Some(Self { types: object.get("@type")?, properties: object }),
        }
    }

    /// Returns `true` if the thing is of a type whose name, without its vocabulary, fulfils a condition.
    pub(super) fn is(&self, condition: impl Fn(&str) -> bool) -> bool {
        let name = |name: &'a str| name.rsplit(['/', '#', ':']).next().unwrap_or(name);
        each(self.types).filter_map(Value::as_str).any(|found| condition(name(found)))
    }

    /// Returns the values of a property.
    pub(super) fn values(&self, property: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.properties.get(property).into_iter().flat_map(each)
    }

    pub(super) fn text(&self, property: &str) -> Option<&'a str> {
        self.values(property).find_map(Value::as_str)
    }

    /// Returns the identifier in JSON-LD.
    fn id(&self) -> Option<&'a str> {
        self.properties.get("@id")?.as_str()
    }
}

/// Returns the values of an array, or the only value.
fn each(value: &Value) -> std::slice::Iter<'_, Value> {
    match value {
        Value::Array(values) => values.iter(),
        _ => std::slice::from_ref(value).iter(),
    }
}

/// Returns all things of these objects, the outer ones first.
pub(super) fn all<'a>(objects: impl Iterator<Item = &'a Map<String, Value>>) -> Vec<Thing<'a>> {
    let mut queue: VecDeque<&'a Map<String, Value>> = objects.collect();
    let mut things = Vec::new();
    while let Some(object) = queue.pop_front() {
        if things.len() == MAX_THINGS {
            break;
        }
        let thing = Thing::of(object);
        let children = thing.map_or(object, |thing| thing.properties).values().flat_map(each);
        queue.extend(children.filter_map(Value::as_object));
        things.extend(thing);
    }
    things
}

/// Returns the name of a value: a text, or a thing with a name, which may be described elsewhere.
pub(super) fn name<'a>(value: &'a Value, things: &[Thing<'a>]) -> Option<&'a str> {
    let Value::Object(object) = value else { return value.as_str() };
    let here = Thing::of(object).unwrap_or(Thing { types: &Value::Null, properties: object });
    here.text("name").or_else(|| {
        let id = here.id()?;
        things.iter().filter(|thing| thing.id() == Some(id)).find_map(|thing| thing.text("name"))
    })
}
