//! Sets of purposes, and the purposes that statements of a site refuse.
//!
//! A statement that permits never cancels one that refuses: the most restrictive applies.

use std::ops::{BitAnd, BitOr, BitOrAssign};

use orbweaver_messages::CrawlPurpose;

use crate::statements::Statement;

/// A set of purposes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purposes(u8);

/// Purposes that a label of Content-Signal (`search`, `ai-input`, `ai-train`) or of Content-Usage (`search`, `ai-use`,
/// `train-ai`) concerns. Both lists are read with all labels: the vocabulary of the latter is a draft.
const LABELS: [(&str, CrawlPurpose); 5] = [
    ("search", CrawlPurpose::Search),
    ("ai-input", CrawlPurpose::AiInput),
    ("ai-use", CrawlPurpose::AiInput),
    ("ai-train", CrawlPurpose::AiTrain),
    ("train-ai", CrawlPurpose::AiTrain),
];

impl Purposes {
    /// No purpose.
    pub const NONE: Self = Self(0);
    const AI: Self = Self(Self::bit(CrawlPurpose::AiInput) | Self::bit(CrawlPurpose::AiTrain));

    const fn bit(purpose: CrawlPurpose) -> u8 {
        1 << purpose as u8
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if the set contains a purpose.
    #[must_use]
    pub fn contains(self, purpose: CrawlPurpose) -> bool {
        self.0 & Self::bit(purpose) != 0
    }

    /// Returns the purposes of the set.
    pub fn iter(self) -> impl Iterator<Item = CrawlPurpose> {
        CrawlPurpose::ALL.into_iter().filter(move |purpose| self.contains(*purpose))
    }

    /// Returns the purposes that a statement refuses. `noimageai` refuses those of AI if the response that has it is an
    /// image.
    #[must_use]
    pub fn refused_by(statement: Statement<'_>, is_image: bool) -> Self {
        let of = |purpose| Self(Self::bit(purpose));
        match statement {
            Statement::Directive(word) => match word.to_ascii_lowercase().as_str() {
                "none" => of(CrawlPurpose::Search) | of(CrawlPurpose::Archive),
                "noindex" => of(CrawlPurpose::Search),
                "noarchive" | "nocache" => of(CrawlPurpose::Archive),
                "noai" => Self::AI,
                "noimageai" if is_image => Self::AI,
                _ => Self::NONE,
            },
            Statement::TdmReservation(true) => Self::AI,
            Statement::TdmReservation(false) | Statement::TdmPolicy(_) => Self::NONE,
            Statement::ContentSignal(list) | Statement::ContentUsage(list) => Self::refused_by_list(list),
        }
    }

    /// Returns the purposes that a list such as `search=yes, ai-train=no` or `train-ai=n` refuses.
    pub(crate) fn refused_by_list(list: &str) -> Self {
        let purpose = |member: &str| {
            let (label, value) = member.split_once('=')?;
            let value = value.split(';').next().unwrap_or_default().trim();
            let refuses = value.eq_ignore_ascii_case("no") || value.eq_ignore_ascii_case("n");
            let known = LABELS.iter().find(|(known, _)| refuses && label.trim().eq_ignore_ascii_case(known));
            known.map(|(_, purpose)| *purpose)
        };
        list.split(',').filter_map(purpose).collect()
    }
}

impl BitOr for Purposes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Purposes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Purposes {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<CrawlPurpose> for Purposes {
    fn from_iter<I: IntoIterator<Item = CrawlPurpose>>(purposes: I) -> Self {
        Self(purposes.into_iter().fold(0, |bits, purpose| bits | Self::bit(purpose)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::statements::{of_header, of_meta};

    fn names(refused: Purposes) -> String {
        refused.iter().map(CrawlPurpose::name).collect::<Vec<_>>().join(" ")
    }

    fn header(name: &str, value: &str) -> Purposes {
        let mut refused = Purposes::NONE;
        of_header((name, value), "orbweaver", |statement| refused |= Purposes::refused_by(statement, false));
        refused
    }

    #[test]
    fn each_statement_refuses_the_purposes_of_the_table() {
        for (name, value, refused) in [
            ("x-robots-tag", "noindex", "search"),
            ("x-robots-tag", "NoIndex, nofollow", "search"),
            ("x-robots-tag", "nofollow, nosnippet, all", ""),
            ("x-robots-tag", "none", "search archive"),
            ("x-robots-tag", "noarchive", "archive"),
            ("x-robots-tag", "nocache", "archive"),
            ("x-robots-tag", "noai", "ai-input ai-train"),
            ("x-robots-tag", "noimageai", ""),
            ("x-robots-tag", "otherbot: none, noai", ""),
            ("x-robots-tag", "otherbot: none, orbweaver: noai", "ai-input ai-train"),
            ("tdm-reservation", "1", "ai-input ai-train"),
            ("tdm-reservation", "0", ""),
            ("tdm-policy", "https://a.example/policy", ""),
            ("Content-Signal", "search=yes, ai-input=no, ai-train=no", "ai-input ai-train"),
            ("content-signal", "search = NO", "search"),
            ("content-signal", "archive=no, , =no, search, ai-train=maybe", ""),
            ("content-usage", "train-ai=n", "ai-train"),
            ("content-usage", "search=n;x=1, ai-use=n", "search ai-input"),
            ("content-usage", "train-ai=n, train-ai=y", "ai-train"),
            ("x-other", "noindex, search=no", ""),
        ] {
            assert_eq!(names(header(name, value)), refused, "{name}: {value}");
        }
        let image = Purposes::refused_by(Statement::Directive("noimageai"), true);
        assert_eq!(names(image), "ai-input ai-train");
    }

    proptest! {
        #[test]
        fn statements_of_any_text_are_read_and_one_that_permits_cancels_none(
            name in "(x-robots-tag|content-signal|content-usage|tdm-reservation|robots|orbweaver|\\PC{0,8})",
            value in "(noindex|none|noai|all|search|train-ai|=|no|n|yes|y|,|;|:| |\\PC){0,20}",
        ) {
            let refused = header(&name, &value);
            let more = header(&name, &format!("{value}, search=yes, train-ai=y, all"));
            prop_assert_eq!(refused & more, if name.eq_ignore_ascii_case("tdm-reservation") { more } else { refused });
            of_meta((&name, &value), "orbweaver", |statement| _ = Purposes::refused_by(statement, true));
        }
    }
}
