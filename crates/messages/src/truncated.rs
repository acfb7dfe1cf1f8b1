//! Parts of a page that were truncated at a limit.

use std::ops::BitOrAssign;

use serde::{Deserialize, Serialize};

/// Parts of a page or document that are shorter than the fetched original. In JSON a list, such as `["body", "links"]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Part>", into = "Vec<Part>")]
pub struct Truncated {
    /// The body is incomplete.
    pub body: bool,
    /// Links are missing, or the text of a link is incomplete.
    pub links: bool,
    /// The text, the title or the description is incomplete.
    pub text: bool,
    /// The main text or its Markdown is incomplete.
    pub main_text: bool,
    /// Facts are missing.
    pub facts: bool,
    /// Other links are missing, or the text of one is incomplete.
    pub other_links: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Body,
    Links,
    Text,
    MainText,
    Facts,
    OtherLinks,
}

impl Truncated {
    /// All parts.
    pub const ALL: Self = Self { body: true, links: true, text: true, main_text: true, facts: true, other_links: true };

    /// Returns `true` if no part is truncated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl BitOrAssign for Truncated {
    fn bitor_assign(&mut self, other: Self) {
        self.body |= other.body;
        self.links |= other.links;
        self.text |= other.text;
        self.main_text |= other.main_text;
        self.facts |= other.facts;
        self.other_links |= other.other_links;
    }
}

impl From<Vec<Part>> for Truncated {
    fn from(parts: Vec<Part>) -> Self {
        let has = |part| parts.contains(&part);
        Self {
            body: has(Part::Body),
            links: has(Part::Links),
            text: has(Part::Text),
            main_text: has(Part::MainText),
            facts: has(Part::Facts),
            other_links: has(Part::OtherLinks),
        }
    }
}

impl From<Truncated> for Vec<Part> {
    fn from(truncated: Truncated) -> Self {
        let parts = [
            (Part::Body, truncated.body),
            (Part::Links, truncated.links),
            (Part::Text, truncated.text),
            (Part::MainText, truncated.main_text),
            (Part::Facts, truncated.facts),
            (Part::OtherLinks, truncated.other_links),
        ];
        parts.into_iter().filter_map(|(part, is_cut)| is_cut.then_some(part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_parts_are_a_list_of_their_names() {
        let mut truncated = Truncated { links: true, ..Truncated::default() };
        truncated |= Truncated { body: true, ..Truncated::default() };
        assert_eq!(serde_json::to_string(&truncated).unwrap(), r#"["body","links"]"#);
        assert_eq!(serde_json::from_str::<Truncated>(r#"["links","body","links"]"#).unwrap(), truncated);
        assert!(serde_json::from_str::<Truncated>(r#"["title"]"#).is_err());
        assert!(Truncated::default().is_empty() && !Truncated::ALL.is_empty());
    }
}
