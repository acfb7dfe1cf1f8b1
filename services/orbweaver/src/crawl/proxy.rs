//! Proxy of a crawl on the command line.

use orbweaver_messages::ProxyUrl;

use crate::exit::Failure;

/// Returns the proxy that was given: its URL, or that in a file (`@FILE`).
///
/// # Errors
/// Fails if it is no URL of a proxy, the file cannot be read, or a password is not in a file. No error repeats the URL.
pub fn given(option: Option<&str>) -> Result<Option<ProxyUrl>, Failure> {
    let Some(text) = option else { return Ok(None) };
    let path = text.strip_prefix('@');
    let proxy = ProxyUrl::from(match path {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("--proxy: cannot read `{path}`: {error}")))?
            .trim()
            .to_owned(),
        None => text.to_owned(),
    });
    if !proxy.is_valid() {
        return Err(Failure::Usage(format!("--proxy: expected {}", ProxyUrl::ALLOWED)));
    }
    if path.is_none() && proxy.has_password() {
        return Err(Failure::Usage(
            "--proxy: every user of the machine can see a password on the command line; give the URL in a file: \
             --proxy @FILE"
                .to_owned(),
        ));
    }
    Ok(Some(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_of_a_proxy_is_accepted_only_in_a_file_and_never_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("proxy");
        std::fs::write(&file, "http://me:hunter2@proxy.example:3128\n").unwrap();
        let in_file = given(Some(&format!("@{}", file.display()))).unwrap().unwrap();
        assert_eq!(in_file.as_str(), "http://me:hunter2@proxy.example:3128");
        for (option, shown) in [("none", "none"), ("socks5://me@proxy.example", "socks5://me@proxy.example")] {
            assert_eq!(given(Some(option)).unwrap().unwrap().to_string(), shown);
        }
        assert_eq!(given(None).unwrap(), None);
        for (option, expected) in [
            ("http://me:hunter2@proxy.example", "@FILE"),
            ("http://me:hunter2@proxy.example/x", "expected"),
            ("me:hunter2@proxy.example", "expected"),
            ("@missing", "missing"),
        ] {
            let error = given(Some(option)).unwrap_err();
            assert!(error.code() == 64 && error.to_string().starts_with("--proxy: "), "{error}");
            assert!(error.to_string().contains(expected) && !error.to_string().contains("hunter2"), "{error}");
        }
    }
}
