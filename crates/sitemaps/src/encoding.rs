//! Choice of the character encoding.

use encoding_rs::{Encoding, UTF_8};

/// Number of bytes in which an XML declaration is searched.
const DECLARATION_BYTES: usize = 1024;

/// Returns the encoding of a body and the length of its byte order mark: by that mark, by the XML declaration, or UTF-8.
pub(crate) fn detect(head: &[u8]) -> (&'static Encoding, usize) {
    Encoding::for_bom(head).unwrap_or_else(|| (declared(head).unwrap_or(UTF_8), 0))
}

/// Returns the encoding that an XML declaration names.
fn declared(head: &[u8]) -> Option<&'static Encoding> {
    let head = head.get(..DECLARATION_BYTES).unwrap_or(head).trim_ascii_start();
    let declaration = head.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memchr(b'>', declaration)?];
    let at = memchr::memmem::find(declaration, b"encoding")?;
    let value = declaration[at + "encoding".len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, value) = value.split_first()?;
    let label = &value[..memchr::memchr(*quote, value)?];
    // A declaration that is readable byte by byte is not in UTF-16: `output_encoding` makes UTF-8 of it.
    Encoding::for_label(label).map(Encoding::output_encoding)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{SHIFT_JIS, UTF_16BE, UTF_16LE, WINDOWS_1252};

    use super::*;

    #[test]
    fn a_byte_order_mark_precedes_a_declaration_and_a_declaration_precedes_utf_8() {
        assert_eq!(detect(b"\xef\xbb\xbf<?xml encoding='latin1'?>"), (UTF_8, 3));
        assert_eq!(detect(b"\xff\xfe<\0"), (UTF_16LE, 2));
        assert_eq!(detect(b"\xfe\xff\0<"), (UTF_16BE, 2));
        assert_eq!(detect(b" \n<?xml version=\"1.0\" encoding = 'ISO-8859-1' ?>"), (WINDOWS_1252, 0));
        assert_eq!(detect(b"<?xml version=\"1.0\" encoding=\"Shift_JIS\"?>"), (SHIFT_JIS, 0));
        assert_eq!(detect(b"<urlset/>"), (UTF_8, 0));
    }

    #[test]
    fn a_false_or_damaged_declaration_means_utf_8() {
        for head in ["<?xml encoding='utf-16'?>", "<?xml encoding='no such'?>", "<?xml encoding=?>", "<?xml encoding"] {
            assert_eq!(detect(head.as_bytes()), (UTF_8, 0), "{head}");
        }
    }
}
