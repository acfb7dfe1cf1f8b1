//! Name of the crawler.

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// User agent of the crawler. The fetcher sends it, and the extractor looks it up in robots directives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    description = "Name of the crawler in its requests; its first product name is looked up in robots.txt and robots \
                   directives."
)]
pub struct UserAgent(String);

impl Default for UserAgent {
    fn default() -> Self {
        Self(concat!("Orbweaver/", env!("CARGO_PKG_VERSION")).to_owned())
    }
}

impl Deref for UserAgent {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for UserAgent {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}
