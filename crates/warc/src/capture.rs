//! Input and output of the writer.

use std::net::IpAddr;

/// Description of a file, for its `warcinfo` record.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    /// Name of the file. Record ids derive from it, so no two files may share a name.
    pub filename: &'a str,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub date_ms: i64,
    /// Fields in order, such as `software`, `format`, `conformsTo`, `http-header-user-agent`, `robots`, `isPartOf`.
    pub fields: &'a [(&'a str, &'a str)],
}

/// Version of HTTP that a capture used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2. Its blocks are written as HTTP/1.1, which readers expect; `WARC-Protocol` has the version.
    Http2,
}

/// Reason for which a body is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// Limit of the size.
    Length,
    /// Limit of the time.
    Time,
    /// Lost connection.
    Disconnect,
    /// Any other or unknown reason.
    Unspecified,
}

impl Truncated {
    /// Returns the value of `WARC-Truncated`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
            Self::Unspecified => "unspecified",
        }
    }
}

/// Evidence that a page is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisitKind {
    /// The server responded with status 304.
    NotModified,
    /// The body is that of an earlier capture.
    IdenticalPayload,
}

impl RevisitKind {
    /// Returns the value of `WARC-Profile`.
    pub(crate) fn profile(self) -> &'static str {
        match self {
            Self::NotModified => "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
            Self::IdenticalPayload => "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        }
    }
}

/// Earlier capture whose body is valid for this one too.
#[derive(Clone, Copy, Debug)]
pub struct Revisit<'a> {
    /// Evidence.
    pub kind: RevisitKind,
    /// URL of the earlier capture.
    pub url: Option<&'a str>,
    /// Time of the earlier capture, in milliseconds since the Unix epoch.
    pub date_ms: Option<i64>,
    /// Payload digest of the earlier capture, as in [`Written::payload_digest`]. Of an identical payload the digest of
    /// [`Capture::body`] is the default.
    pub payload_digest: Option<&'a str>,
}

/// One request and its response.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// Requested URL. White space, control characters, quotes, angle brackets and characters outside ASCII are
    /// percent-encoded.
    pub url: &'a str,
    /// Time of the request, in milliseconds since the Unix epoch. Times before the epoch are written as the epoch.
    pub date_ms: i64,
    /// Address of the server.
    pub ip: Option<IpAddr>,
    /// Version of HTTP.
    pub protocol: Protocol,
    /// Header fields of the request as sent; without them there is no `request` record.
    pub request: Option<&'a [(String, String)]>,
    /// Status of the response; one of more than three digits is written as 999.
    pub status: u16,
    /// Reason phrase of the response. The usual one of the status is the default.
    pub reason: Option<&'a str>,
    /// Header fields of the response in order, including repeated ones.
    pub headers: &'a [(String, String)],
    /// Body of the response without transfer and content encoding. Fields that describe the encoded body get the prefix
    /// `X-Archive-Orig-`: `Content-Encoding`, `Transfer-Encoding`, and a `Content-Length` other than that of this body,
    /// which is added. A revisit has no body; that of an identical payload gives its length and digest.
    pub body: &'a [u8],
    /// Reason for which the body is incomplete.
    pub truncated: Option<Truncated>,
    /// Earlier capture that has the body; the result is a `revisit` record in lieu of a `response` record.
    pub revisit: Option<Revisit<'a>>,
    /// Fields of the `metadata` record, which is left out if there are none.
    pub metadata: &'a [(&'a str, String)],
}

/// Location of a `response` or `revisit` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Offset of its gzip member in the file, in bytes.
    pub offset: u64,
    /// Length of its gzip member, in bytes.
    pub length: u64,
    /// Digest of the payload, such as `sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ`. Absent if a server responded with "not
    /// modified" and the digest of the earlier capture is unknown.
    pub payload_digest: Option<String>,
    /// Id of the record, such as `<urn:uuid:4ff8c3f5-5a8d-5e33-bb0c-8e4b40ba2b4e>`.
    pub record_id: String,
}
