//! Small reader of WARC files: one record per gzip member.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use flate2::bufread::GzDecoder;

/// A record of a file.
#[derive(Debug, Clone)]
pub(crate) struct WarcRecord {
    /// Fields of the record, by name.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) block: String,
    /// Offset and length of its gzip member.
    pub(crate) location: (usize, usize),
}

impl WarcRecord {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Reads the content of a file.
pub(crate) fn records_of(bytes: &[u8]) -> Vec<WarcRecord> {
    let (mut rest, mut records) = (bytes, vec![]);
    while !rest.is_empty() {
        let mut member = GzDecoder::new(rest);
        let mut text = Vec::new();
        member.read_to_end(&mut text).unwrap();
        let (offset, length) = (bytes.len() - rest.len(), rest.len() - member.get_ref().len());
        rest = member.into_inner();
        records.push(record(&String::from_utf8(text).unwrap(), (offset, length)));
    }
    records
}

fn record(text: &str, location: (usize, usize)) -> WarcRecord {
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n");
    assert_eq!(lines.next(), Some("WARC/1.1"));
    let fields: BTreeMap<String, String> =
        lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.into(), value.into())).collect();
    let length: usize = fields["Content-Length"].parse().unwrap();
    assert_eq!(&rest[length..], "\r\n\r\n");
    WarcRecord { fields, block: rest[..length].to_owned(), location }
}

/// Checks that an index is sorted, and has exactly the responses of its file; all URLs are plain ones of `http://a.test`.
pub(crate) fn check_index(path: &str, records: &[WarcRecord], index: &str) {
    let responses = records.iter().filter(|record| ["response", "revisit"].contains(&record.field("WARC-Type")));
    let mut expected: Vec<String> = responses
        .map(|record| {
            let url = record.field("WARC-Target-URI");
            let time: String = record.field("WARC-Date").chars().filter(char::is_ascii_digit).take(14).collect();
            let path_of_url = url.strip_prefix("http://a.test").unwrap();
            let head = record.block.split("\r\n\r\n").next().unwrap();
            let mime = match record.field("WARC-Type") {
                "revisit" => Some("warc/revisit"),
                _ => head.lines().find_map(|line| line.strip_prefix("content-type: ")),
            };
            let status = head.split(' ').nth(1).unwrap();
            let string = |name, value: &str| format!("\"{name}\": \"{value}\"");
            let digest = record.fields.get("WARC-Payload-Digest");
            let (offset, length) = record.location;
            let fields = [
                Some(string("url", url)),
                mime.map(|mime| string("mime", mime)),
                Some(string("status", status)),
                digest.map(|digest| string("digest", digest)),
                Some(string("length", &length.to_string())),
                Some(string("offset", &offset.to_string())),
                Some(string("filename", path.rsplit('/').next().unwrap())),
            ];
            let fields: Vec<String> = fields.into_iter().flatten().collect();
            format!("test,a){path_of_url} {time} {{{}}}\n", fields.join(", "))
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(index, expected.concat(), "{path}");
}

/// Returns the paths of all files below a directory, relative to it and in order.
pub(crate) fn files_below(root: &Path) -> Vec<String> {
    let mut files = vec![];
    for directory in fs::read_dir(root).unwrap() {
        let directory = directory.unwrap();
        for file in fs::read_dir(directory.path()).unwrap() {
            let (directory, file) = (directory.file_name(), file.unwrap().file_name());
            files.push(format!("{}/{}", directory.to_str().unwrap(), file.to_str().unwrap()));
        }
    }
    files.sort_unstable();
    files
}
