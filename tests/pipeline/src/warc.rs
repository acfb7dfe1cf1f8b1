//! Reader of WARC files, as far as the tests need it.

use std::{collections::BTreeSet, io::Read as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use flate2::bufread::GzDecoder;
use serde_json::Value;

/// A response in an archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Archived {
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// Body, as it was stored.
    pub body: Vec<u8>,
    /// Whether it is a revisit, which has no body.
    pub is_revisit: bool,
}

/// Position of a response: offset and length of its record, URL and status.
type Located = (u64, u64, String, String);

/// Reads all responses of the files below `dir`, sorted; none if it does not exist. Each file has its index.
///
/// # Errors
/// Names the file that is not whole, is still open, has a record whose id occurs twice, or has no index of its responses.
pub fn archived(dir: &Path) -> Result<Vec<Archived>> {
    let (mut found, mut ids) = (vec![], BTreeSet::new());
    let crawls = if dir.exists() { std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()? } else { vec![] };
    for crawl in crawls {
        let paths = std::fs::read_dir(crawl.path())?.map(|file| Ok(file?.path().display().to_string()));
        let paths = paths.collect::<Result<BTreeSet<String>>>()?;
        for name in &paths {
            if let Some(indexed) = name.strip_suffix(".cdxj") {
                ensure!(paths.contains(&format!("{indexed}.warc.gz")), "{name} is an index without its file");
                continue;
            }
            ensure!(name.ends_with(".warc.gz"), "{name} is not a closed file");
            let bytes = std::fs::read(name)?;
            let (mut rest, mut located) = (&*bytes, vec![]);
            while !rest.is_empty() {
                let mut decoder = GzDecoder::new(rest);
                let mut record = vec![];
                decoder.read_to_end(&mut record).with_context(|| format!("{name}: a record is not whole"))?;
                let (offset, length) = (bytes.len() - rest.len(), rest.len() - decoder.get_ref().len());
                rest = decoder.into_inner();
                let (head, block) = split(&record).with_context(|| format!("{name}: a record has no header"))?;
                let id = field(&head, "WARC-Record-ID").context("a record has no id")?;
                ensure!(ids.insert(id.to_owned()), "{name}: {id} occurs twice");
                if let Some(response) = response(&head, block).with_context(|| format!("{name}: {id}"))? {
                    let status = format!("{:03}", response.status);
                    located.push((offset as u64, length as u64, response.url.clone(), status));
                    found.push(response);
                }
            }
            let mut indexed = indexed(name)?;
            indexed.sort();
            ensure!(indexed == located, "{name}: the index has {indexed:?}, and the file {located:?}");
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the lines of the index of a file, which must be in order.
fn indexed(file: &str) -> Result<Vec<Located>> {
    let path = file.replace(".warc.gz", ".cdxj");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{path}: no index"))?;
    ensure!(text.lines().is_sorted() && text.ends_with('\n'), "{path} is not sorted");
    text.lines().map(|line| located(file, line).with_context(|| format!("{path}: {line}"))).collect()
}

/// Reads a line of the index of a file.
fn located(file: &str, line: &str) -> Result<Located> {
    let fields: Value = serde_json::from_str(line.splitn(3, ' ').nth(2).context("no fields")?)?;
    let text = |name: &str| fields[name].as_str().with_context(|| format!("no {name}"));
    ensure!(file.ends_with(text("filename")?), "another file");
    Ok((text("offset")?.parse()?, text("length")?.parse()?, text("url")?.to_owned(), text("status")?.to_owned()))
}

/// Returns the response of a record; `None` for a record of another type.
fn response(head: &str, block: &[u8]) -> Result<Option<Archived>> {
    let is_revisit = match field(head, "WARC-Type") {
        Some("response") => false,
        Some("revisit") => true,
        _ => return Ok(None),
    };
    let url = field(head, "WARC-Target-URI").context("no URL")?.to_owned();
    let length: usize = field(head, "Content-Length").context("no length")?.parse()?;
    ensure!(block.len() == length + 4, "its block has {} bytes and two line ends, not {length}", block.len());
    let (http, body) = split(&block[..length]).context("no HTTP header")?;
    let status = http.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Some(Archived { url, status, body: body.to_vec(), is_revisit }))
}

fn split(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
