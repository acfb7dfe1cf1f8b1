//! Certificate authorities that are trusted in addition to those of the system.

use std::{
    fs::File,
    io::{self, Read as _},
};

use reqwest::Certificate;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// Maximum size of a file of authorities, in bytes: about four times the size of a list of all public ones.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reason why a file of certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "certificate authorities in `{file}`: {problem}; allowed: a PEM file of at most 1 MiB with at least one certificate"
)]
pub struct AuthoritiesError {
    file: String,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("the file cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the file has more than 1 MiB")]
    TooLarge,
    #[error("after {before} certificates the file is not PEM: {error}")]
    NotPem { before: usize, error: rustls::pki_types::pem::Error },
    #[error("the file has no certificate")]
    Empty,
    #[error("certificate {number} is malformed: {error}")]
    Malformed { number: usize, error: rustls::Error },
}

/// Reads the authorities in a file; none without a file.
///
/// # Errors
/// Fails if the file cannot be read, is too large, has no certificate, or has one that is malformed.
pub fn read_authorities(file: Option<&str>) -> Result<Vec<Certificate>, AuthoritiesError> {
    let Some(file) = file else { return Ok(vec![]) };
    read(file).map_err(|problem| AuthoritiesError { file: file.to_owned(), problem })
}

fn read(file: &str) -> Result<Vec<Certificate>, Problem> {
    let mut pem = vec![];
    // With one byte more, a file of the maximum size is distinguished from a larger one.
    File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > MAX_FILE_BYTES {
        return Err(Problem::TooLarge);
    }
    let mut authorities = vec![];
    for der in CertificateDer::pem_slice_iter(&pem) {
        let der = der.map_err(|error| Problem::NotPem { before: authorities.len(), error })?;
        let number = authorities.len() + 1;
        let malformed = |error| Problem::Malformed { number, error };
        RootCertStore::empty().add(der.clone()).map_err(malformed)?;
        let authority = Certificate::from_der(&der);
        // With rustls this only copies the bytes.
        authorities.push(authority.map_err(|error| malformed(rustls::Error::General(error.to_string())))?);
    }
    if authorities.is_empty() { Err(Problem::Empty) } else { Ok(authorities) }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    const AUTHORITY: &str = include_str!("../../tests/hostile/vectors/authority.pem");

    struct Files(PathBuf);

    impl Files {
        fn new() -> Self {
            let dir = std::env::temp_dir().join(format!("orbweaver-authorities-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn with(&self, name: &str, text: impl AsRef<[u8]>) -> String {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn all_certificates_of_a_file_are_authorities_whatever_else_it_has() {
        let files = Files::new();
        let file = files.with("three.pem", format!("# intranet\n{AUTHORITY}\ntext\n{AUTHORITY}{AUTHORITY}"));
        assert_eq!(read_authorities(Some(&file)).unwrap().len(), 3);
        assert!(read_authorities(None).unwrap().is_empty());
        let padding = MAX_FILE_BYTES as usize - AUTHORITY.len();
        let largest = files.with("largest.pem", format!("{AUTHORITY}{}", "\n".repeat(padding)));
        assert_eq!(read_authorities(Some(&largest)).unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_problem_and_what_is_allowed() {
        let files = Files::new();
        let (head, rest) = AUTHORITY.split_at(200);
        let key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        let malformed = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let cases = [
            (files.with("empty.pem", ""), "no certificate"),
            (files.with("text.pem", "no certificate is here\n"), "no certificate"),
            (files.with("key.pem", key), "no certificate"),
            (files.with("der.pem", [0x30, 0x82, 0xff]), "no certificate"),
            (files.with("cut.pem", head), "after 0 certificates the file is not PEM"),
            (files.with("cut2.pem", format!("{AUTHORITY}{head}")), "after 1 certificates the file is not PEM"),
            (files.with("broken.pem", format!("{head}~~~{rest}")), "not PEM"),
            (files.with("malformed.pem", format!("{AUTHORITY}{malformed}")), "certificate 2 is malformed"),
            (files.with("large.pem", AUTHORITY.repeat(2000)), "more than 1 MiB"),
            (files.0.join("none.pem").display().to_string(), "cannot be read"),
            (files.0.display().to_string(), "cannot be read"),
        ];
        for (file, problem) in cases {
            let error = read_authorities(Some(&file)).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(&format!("`{file}`")), "{error}");
            assert!(error.ends_with("allowed: a PEM file of at most 1 MiB with at least one certificate"), "{error}");
        }
        // A file without an end is not read to its end.
        if Path::new("/dev/zero").exists() {
            assert!(read_authorities(Some("/dev/zero")).unwrap_err().to_string().contains("more than 1 MiB"));
        }
    }
}
