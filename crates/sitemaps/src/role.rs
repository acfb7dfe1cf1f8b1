//! Meaning of XML elements, by local name and parent.

use crate::Format;

/// Meaning of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Root element of the file.
    Root,
    /// `channel` of RSS.
    Channel,
    /// Element of one entry: `url`, `sitemap`, `item`, `entry`.
    Page,
    /// Element with a value of the entry.
    Field(Field),
    /// `url` within `loc`, which some generators write.
    Inner,
    Other,
}

/// Value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// `loc`: each is an entry of its own.
    Location,
    /// `link` of RSS: the first one counts.
    Link,
    /// `guid` of RSS: counts if no link does.
    Guid,
    Modified,
    Published,
}

impl Role {
    /// Returns `true` for elements whose end tag also closes all elements within.
    pub(crate) fn is_structure(self) -> bool {
        matches!(self, Self::Root | Self::Channel | Self::Page)
    }

    /// Returns `true` if text directly within the element belongs to a field.
    pub(crate) fn has_text(self) -> bool {
        matches!(self, Self::Field(_) | Self::Inner)
    }
}

/// Returns the role of an element within an element of the role `parent`.
pub(crate) fn role(format: Format, parent: Role, name: &str) -> Role {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match parent {
        Role::Root | Role::Channel if is_page(format, name) => Role::Page,
        Role::Root if format == Format::Rss && is("channel") => Role::Channel,
        Role::Page => field(format, name).map_or(Role::Other, Role::Field),
        Role::Field(Field::Location) if is("url") || is("loc") => Role::Inner,
        _ => Role::Other,
    }
}

/// Returns `true` for the element of one entry.
pub(crate) fn is_page(format: Format, name: &str) -> bool {
    let names: &[&str] = match format {
        Format::Sitemap | Format::Index => &["url", "sitemap"],
        Format::Rss => &["item"],
        Format::Atom => &["entry"],
        Format::Text | Format::JsonFeed => &[],
    };
    names.iter().any(|page| name.eq_ignore_ascii_case(page))
}

fn field(format: Format, name: &str) -> Option<Field> {
    let fields: &[(&str, Field)] = match format {
        Format::Sitemap | Format::Index => &[("loc", Field::Location), ("lastmod", Field::Modified)],
        Format::Rss => &[
            ("link", Field::Link),
            ("guid", Field::Guid),
            ("updated", Field::Modified),
            ("modified", Field::Modified),
            ("pubdate", Field::Published),
            ("date", Field::Published),
        ],
        Format::Atom => &[
            ("updated", Field::Modified),
            ("modified", Field::Modified),
            ("published", Field::Published),
            ("issued", Field::Published),
        ],
        Format::Text | Format::JsonFeed => &[],
    };
    fields.iter().find(|(field, _)| name.eq_ignore_ascii_case(field)).map(|&(_, field)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_counts_only_directly_within_an_entry() {
        let of = |parent, name| role(Format::Sitemap, parent, name);
        assert_eq!(of(Role::Page, "loc"), Role::Field(Field::Location));
        assert_eq!(of(Role::Other, "loc"), Role::Other);
        assert_eq!(of(Role::Root, "loc"), Role::Other);
        assert_eq!(of(Role::Root, "url"), Role::Page);
        assert_eq!(of(Role::Field(Field::Location), "url"), Role::Inner);
        assert_eq!(of(Role::Other, "url"), Role::Other);
    }

    #[test]
    fn an_item_is_in_a_channel_or_in_the_root() {
        for parent in [Role::Channel, Role::Root] {
            assert_eq!(role(Format::Rss, parent, "item"), Role::Page);
        }
        assert_eq!(role(Format::Rss, Role::Channel, "link"), Role::Other);
        assert_eq!(role(Format::Rss, Role::Page, "pubDate"), Role::Field(Field::Published));
    }
}
