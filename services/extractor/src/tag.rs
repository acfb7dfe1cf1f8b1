//! Kinds of tags, as extraction distinguishes them.

/// Kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Anchor,
    Area,
    Frame,
    /// `iframe`: a link, and its content is not markup.
    Iframe,
    Base,
    Link,
    Meta,
    Html,
    Title,
    Script,
    /// `style`: not markup and not shown, like `Hidden`.
    Style,
    /// `noembed`, `noframes`: not markup and not shown.
    Hidden,
    /// `textarea`.
    TextArea,
    Xmp,
    /// `plaintext`.
    PlainText,
    /// `noscript`.
    NoScript,
    Template,
    /// `svg` and `math`: their content is tokenized by other rules.
    Foreign,
    /// `desc` in SVG.
    Desc,
    /// An element that begins and ends a line or a cell, and thus separates words.
    Block,
    /// An inline element that does not exist in SVG or MathML, and thus ends them (WHATWG HTML 13.2.6.5).
    Inline,
    /// Any other element.
    Other,
}

impl Tag {
    /// Returns the kind of the element with this name, in lower case.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"a" => Self::Anchor,
            b"area" => Self::Area,
            b"frame" => Self::Frame,
            b"iframe" => Self::Iframe,
            b"base" => Self::Base,
            b"link" => Self::Link,
            b"meta" => Self::Meta,
            b"html" => Self::Html,
            b"title" => Self::Title,
            b"script" => Self::Script,
            b"style" => Self::Style,
            b"noembed" | b"noframes" => Self::Hidden,
            b"textarea" => Self::TextArea,
            b"xmp" => Self::Xmp,
            b"plaintext" => Self::PlainText,
            b"noscript" => Self::NoScript,
            b"template" => Self::Template,
            b"svg" | b"math" => Self::Foreign,
            b"desc" => Self::Desc,
            b"p" | b"br" | b"li" | b"ul" | b"ol" | b"dl" | b"dt" | b"dd" | b"td" | b"th" | b"tr" | b"h1" | b"h2"
            | b"h3" | b"h4" | b"h5" | b"h6" | b"hr" | b"div" | b"pre" | b"nav" | b"dir" | b"main" | b"form"
            | b"body" | b"head" | b"menu" | b"table" | b"tbody" | b"thead" | b"tfoot" | b"aside" | b"header"
            | b"footer" | b"center" | b"figure" | b"dialog" | b"hgroup" | b"legend" | b"option" | b"select"
            | b"search" | b"caption" | b"article" | b"section" | b"details" | b"summary" | b"address" | b"listing"
            | b"fieldset" | b"optgroup" | b"frameset" | b"blockquote" | b"figcaption" => Self::Block,
            b"b" | b"big" | b"code" | b"em" | b"embed" | b"i" | b"img" | b"nobr" | b"ruby" | b"s" | b"small"
            | b"span" | b"strong" | b"strike" | b"sub" | b"sup" | b"tt" | b"u" | b"var" => Self::Inline,
            _ => Self::Other,
        }
    }

    /// Returns `true` if extraction reads attributes of this element.
    pub(crate) fn has_attributes(self) -> bool {
        matches!(
            self,
            Self::Anchor | Self::Area | Self::Frame | Self::Iframe | Self::Base | Self::Link | Self::Meta | Self::Html
        )
    }
}
