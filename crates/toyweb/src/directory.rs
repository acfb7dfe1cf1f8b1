//! Directory of files, served unchanged.

use std::io;
use std::path::{Path, PathBuf};

use crate::reply::Reply;

/// Maximum size of a served file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Served directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Serves the files below `root`.
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        let found = root.canonicalize();
        let root = found.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", root.display())))?;
        if !root.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is not a directory", root.display())));
        }
        Ok(Self { root })
    }

    /// Answers a request: a file, the `index.html` of a directory, a redirect to the URL of a directory with a final
    /// slash, or 404.
    pub(crate) async fn answer(&self, target: &str) -> Reply {
        let path = target.split('?').next().unwrap_or(target);
        let Some(file) = decoded(path).and_then(|decoded| self.locate(&decoded)) else { return Reply::not_found() };
        match tokio::fs::metadata(&file).await {
            Ok(found) if found.is_dir() && path.ends_with('/') => self.read(&file.join("index.html")).await,
            Ok(found) if found.is_dir() => Reply::redirect(301, format!("{path}/")),
            Ok(found) if !path.ends_with('/') && found.len() <= MAX_FILE_BYTES => self.read(&file).await,
            _ => Reply::not_found(),
        }
    }

    async fn read(&self, file: &Path) -> Reply {
        match tokio::fs::read(file).await {
            Ok(body) => Reply::of_type(content_type(file), body),
            Err(_) => Reply::not_found(),
        }
    }

    /// Returns the file of a decoded path, never outside of the root.
    fn locate(&self, path: &str) -> Option<PathBuf> {
        let mut file = self.root.clone();
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            if matches!(segment, "." | "..") || segment.contains('\0') {
                return None;
            }
            file.push(segment);
        }
        Some(file)
    }
}

/// Decodes the percent escapes of a path; `None` if the bytes are not UTF-8 or an escaped slash would split a segment.
pub(crate) fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(b'/') => return None,
            Some(value) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn content_type(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html",
        "xhtml" | "xht" => "application/xhtml+xml",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "xml" => "application/xml",
        "txt" => "text/plain",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ico" => "image/x-icon",
        "pdf" => "application/pdf",
        "woff" | "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_never_make_a_slash() {
        assert_eq!(decoded("/a%20b%7Ec").as_deref(), Some("/a b~c"));
        assert_eq!(decoded("/%2541").as_deref(), Some("/%41"));
        assert_eq!(decoded("/100%").as_deref(), Some("/100%"));
        assert_eq!(decoded("/a%2Fb"), None);
        assert_eq!(decoded("/%FF"), None);
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path()).unwrap();
        for path in ["/../x", "/a/../../x", "/..", "/a/./b"] {
            assert_eq!(directory.locate(path), None, "{path}");
        }
        let inside = directory.locate("//a//b").unwrap();
        assert!(inside.starts_with(dir.path().canonicalize().unwrap()));
    }

    #[test]
    fn a_file_is_no_directory_to_serve() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Directory::new(file.path()).unwrap_err().to_string().contains("is not a directory"));
    }
}
