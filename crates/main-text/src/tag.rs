//! Elements of HTML, as the outline distinguishes them.

/// Name of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Tag {
    Anchor,
    Article,
    Aside,
    Blockquote,
    /// `html`, `head` and `body`: the whole page.
    Body,
    Break,
    Button,
    Caption,
    Code,
    /// An element with a hyphen in its name.
    Custom,
    Definition,
    Deleted,
    Details,
    Dialog,
    Division,
    DefinitionList,
    Emphasis,
    Fieldset,
    FigureCaption,
    Figure,
    Footer,
    /// `svg` and `math`.
    Foreign,
    Form,
    H1,
    H2,
    H3,
    H4,
    H5,
    H6,
    Header,
    /// Not markup, and not shown.
    Hidden,
    Image,
    Item,
    Label,
    Main,
    Nav,
    NoScript,
    OptionGroup,
    Option,
    OrderedList,
    Paragraph,
    PlainText,
    Preformatted,
    Rule,
    Script,
    Section,
    Select,
    Strong,
    Summary,
    Table,
    TableBody,
    Cell,
    HeadCell,
    Row,
    Template,
    Term,
    TextArea,
    Time,
    Title,
    UnorderedList,
    /// Any other element, part of a line.
    Inline,
    /// Any other element without content.
    Void,
    Base,
}

/// Number of tags.
pub(crate) const TAGS: usize = Tag::Base as usize + 1;

impl Tag {
    /// Returns the element with this name, in lower case.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"a" => Self::Anchor,
            b"article" => Self::Article,
            b"aside" => Self::Aside,
            b"blockquote" => Self::Blockquote,
            b"html" | b"head" | b"body" => Self::Body,
            b"br" => Self::Break,
            b"button" => Self::Button,
            b"caption" => Self::Caption,
            b"code" | b"tt" | b"kbd" | b"samp" => Self::Code,
            b"dd" => Self::Definition,
            b"del" | b"s" | b"strike" => Self::Deleted,
            b"details" => Self::Details,
            b"dialog" => Self::Dialog,
            b"div" | b"address" | b"center" | b"hgroup" | b"search" | b"legend" | b"frameset" => Self::Division,
            b"dl" => Self::DefinitionList,
            b"em" | b"i" | b"var" | b"cite" | b"dfn" => Self::Emphasis,
            b"fieldset" => Self::Fieldset,
            b"figcaption" => Self::FigureCaption,
            b"figure" => Self::Figure,
            b"footer" => Self::Footer,
            b"svg" | b"math" => Self::Foreign,
            b"form" => Self::Form,
            b"h1" => Self::H1,
            b"h2" => Self::H2,
            b"h3" => Self::H3,
            b"h4" => Self::H4,
            b"h5" => Self::H5,
            b"h6" => Self::H6,
            b"header" => Self::Header,
            b"style" | b"noembed" | b"noframes" | b"iframe" => Self::Hidden,
            b"img" => Self::Image,
            b"li" => Self::Item,
            b"label" => Self::Label,
            b"main" => Self::Main,
            b"nav" => Self::Nav,
            b"noscript" => Self::NoScript,
            b"optgroup" => Self::OptionGroup,
            b"option" => Self::Option,
            b"ol" => Self::OrderedList,
            b"p" => Self::Paragraph,
            b"plaintext" => Self::PlainText,
            b"pre" | b"listing" | b"xmp" => Self::Preformatted,
            b"hr" => Self::Rule,
            b"script" => Self::Script,
            b"section" => Self::Section,
            b"select" => Self::Select,
            b"b" | b"strong" => Self::Strong,
            b"summary" => Self::Summary,
            b"table" => Self::Table,
            b"tbody" | b"thead" | b"tfoot" => Self::TableBody,
            b"td" => Self::Cell,
            b"th" => Self::HeadCell,
            b"tr" => Self::Row,
            b"template" => Self::Template,
            b"dt" => Self::Term,
            b"textarea" => Self::TextArea,
            b"time" => Self::Time,
            b"title" => Self::Title,
            b"ul" | b"menu" | b"dir" => Self::UnorderedList,
            b"base" => Self::Base,
            b"input" | b"meta" | b"link" | b"wbr" | b"embed" | b"source" | b"track" | b"param" | b"col" | b"area" => {
                Self::Void
            }
            _ if name.contains(&b'-') => Self::Custom,
            _ => Self::Inline,
        }
    }

    /// Returns `true` if the element begins and ends a block.
    pub(crate) fn is_block(self) -> bool {
        !matches!(
            self,
            Self::Anchor
                | Self::Body
                | Self::Break
                | Self::Code
                | Self::Deleted
                | Self::Emphasis
                | Self::Foreign
                | Self::Hidden
                | Self::Image
                | Self::Label
                | Self::Script
                | Self::Strong
                | Self::Template
                | Self::TextArea
                | Self::Time
                | Self::Title
                | Self::Inline
                | Self::Void
                | Self::Base
        )
    }

    pub(crate) fn is_heading(self) -> bool {
        self.heading_level().is_some()
    }

    /// Returns 1 for `h1` to 6 for `h6`.
    pub(crate) fn heading_level(self) -> Option<u8> {
        Some(match self {
            Self::H1 => 1,
            Self::H2 => 2,
            Self::H3 => 3,
            Self::H4 => 4,
            Self::H5 => 5,
            Self::H6 => 6,
            _ => return None,
        })
    }

    pub(crate) fn is_cell(self) -> bool {
        matches!(self, Self::Cell | Self::HeadCell)
    }

    /// Returns `true` if the start of this element ends an open paragraph (WHATWG HTML 13.2.6.4.7).
    pub(crate) fn ends_paragraph(self) -> bool {
        self.is_block() && !matches!(self, Self::Button | Self::Custom | Self::NoScript | Self::Option | Self::Select)
    }

    /// Returns the elements that the start of this one ends, and those at which the search for them stops.
    pub(crate) fn implied_end(self) -> Option<(&'static [Self], &'static [Self])> {
        const LISTS: &[Tag] =
            &[Tag::OrderedList, Tag::UnorderedList, Tag::Cell, Tag::HeadCell, Tag::Table, Tag::Section];
        const TERMS: &[Tag] = &[Tag::Term, Tag::Definition];
        const CELLS: &[Tag] = &[Tag::Cell, Tag::HeadCell, Tag::Caption];
        Some(match self {
            Self::Item => (&[Self::Item], LISTS),
            Self::Term | Self::Definition => (TERMS, &[Self::DefinitionList, Self::Cell, Self::HeadCell, Self::Table]),
            Self::Option => (&[Self::Option], &[Self::Select, Self::OptionGroup]),
            Self::OptionGroup => (&[Self::OptionGroup, Self::Option], &[Self::Select]),
            Self::Cell | Self::HeadCell => (CELLS, &[Self::Row, Self::Table]),
            Self::Row => (&[Self::Row, Self::Caption], &[Self::Table]),
            Self::TableBody => (&[Self::TableBody, Self::Row, Self::Caption], &[Self::Table]),
            _ => return None,
        })
    }

    /// Returns `true` if the end tag of an element within does not reach beyond this one.
    pub(crate) fn is_boundary(self) -> bool {
        matches!(self, Self::Cell | Self::HeadCell | Self::Caption | Self::Table | Self::Button)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_levels_from_one_to_six() {
        assert_eq!(Tag::of(b"h1").heading_level(), Some(1));
        assert_eq!(Tag::of(b"h6").heading_level(), Some(6));
        assert_eq!(Tag::of(b"header").heading_level(), None);
        assert_eq!(Tag::of(b"form").heading_level(), None);
        assert_eq!(Tag::of(b"h7"), Tag::Inline);
    }

    #[test]
    fn an_element_with_a_hyphen_is_a_block_and_an_unknown_one_is_part_of_a_line() {
        assert!(Tag::of(b"x-post").is_block());
        assert!(!Tag::of(b"blink").is_block());
    }
}
