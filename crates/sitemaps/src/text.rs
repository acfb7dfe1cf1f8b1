//! Text sitemaps: a URL per line.

use std::{io::BufRead, ops::ControlFlow};

use crate::{Entry, MAX_URL_BYTES, format::begins_with_http, output::Output, value::Value};

/// Maximum length of a line with the white space around its URL, in bytes.
const MAX_LINE_BYTES: usize = 2 * MAX_URL_BYTES;

/// Reads a list of URLs. Damage of gzip data ends it, and is reported to the output; the line with the damage is left out.
pub(crate) fn read(mut lines: impl BufRead, output: &mut Output<'_>) {
    let mut line = Line::default();
    loop {
        let text = match lines.fill_buf() {
            Ok(text) => text,
            Err(error) => return output.cut(error.to_string()),
        };
        let end = memchr::memchr2(b'\n', b'\r', text);
        line.push(&text[..end.unwrap_or(text.len())]);
        let is_last = text.is_empty();
        let read = end.map_or(text.len(), |end| end + 1);
        lines.consume(read);
        if end.is_none() && !is_last {
            continue;
        }
        if line.put(output).is_break() || is_last {
            return;
        }
    }
}

/// Line that is being read.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    value: Value,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        // One byte beyond the maximum makes the line too long.
        let room = (MAX_LINE_BYTES + 1).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Ends the line, and passes its URL to the output.
    fn put(&mut self, output: &mut Output<'_>) -> ControlFlow<()> {
        self.value.clear();
        let is_url = {
            let text = String::from_utf8_lossy(&self.bytes);
            self.value.push(&text);
            begins_with_http(text.trim_start().as_bytes())
        };
        let is_too_long = self.bytes.len() > MAX_LINE_BYTES || self.value.is_too_long();
        self.bytes.clear();
        if is_url && is_too_long {
            output.drop_too_long();
        } else if is_url {
            output.put(Entry::page(self.value.get(), None))?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(text: &[u8]) -> (Vec<String>, usize) {
        let mut urls = vec![];
        let mut sink = |entry: Entry<'_>| {
            urls.push(entry.url.into_owned());
            ControlFlow::Continue(())
        };
        let mut output = Output::new(&mut sink, 100);
        read(text, &mut output);
        let too_long = output.report(crate::Format::Text).too_long;
        (urls, too_long)
    }

    #[test]
    fn a_line_is_trimmed_and_one_without_a_url_is_skipped() {
        let (urls, _) =
            urls(b"http://a.example/\r\n\n \xc2\xa0HTTPS://b.example/ \r# http://c.example/\nftp://d\nhttps://e");
        assert_eq!(urls, ["http://a.example/", "HTTPS://b.example/", "https://e"]);
    }

    #[test]
    fn a_line_longer_than_a_url_is_dropped() {
        let long = "a".repeat(MAX_URL_BYTES);
        let text = format!("http://{long}\nhttp://{}\n", "b".repeat(1_000_000));
        assert_eq!(urls(text.as_bytes()), (vec![], 2));
        let fits = format!("http://{}{}", &long[7..], " ".repeat(100));
        assert_eq!(urls(fits.as_bytes()).0[0].len(), MAX_URL_BYTES);
    }
}
