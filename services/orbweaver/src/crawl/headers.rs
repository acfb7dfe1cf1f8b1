//! Request headers of `--header`. A value that may be a secret is neither stored nor part of any message.

use std::{fs::File, io::Read as _, path::Path};

use serde::{Serialize as _, Serializer};

use crate::exit::Failure;

/// Replaces the value of a secret where headers are stored or shown.
const NOT_STORED: &str = "(not stored)";
/// Maximum size of a file with headers, in bytes.
const MAX_FILE: u64 = 64 << 10;
/// Parts of the names of headers that carry secrets, in lower case.
const SECRETS: [&str; 9] =
    ["auth", "cookie", "token", "secret", "password", "credential", "session", "signature", "key"];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Returns the path of an entry that stands for the headers of a file: `@FILE`.
fn file(entry: &str) -> Option<&Path> {
    entry.strip_prefix('@').map(Path::new)
}

/// Returns the entries with absolute paths, since a crawl may be resumed from another directory.
pub(super) fn absolute(given: &[String]) -> Vec<String> {
    let absolute = |entry: &String| match file(entry).map(std::path::absolute) {
        Some(Ok(path)) => format!("@{}", path.display()),
        Some(Err(_)) | None => entry.clone(),
    };
    given.iter().map(absolute).collect()
}

/// Returns the entries without the values of secrets.
pub(super) fn hidden(entries: &[String]) -> Vec<String> {
    let hidden = |entry: &String| match entry.split_once(':') {
        Some((name, _)) if file(entry).is_none() && is_secret(name) => format!("{name}: {NOT_STORED}"),
        _ => entry.clone(),
    };
    entries.iter().map(hidden).collect()
}

/// Serializes the entries without the values of secrets.
pub(super) fn serialize<S: Serializer>(entries: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    hidden(entries).serialize(serializer)
}

/// Returns `true` if the value of an entry was not stored.
pub(super) fn is_incomplete(entries: &[String]) -> bool {
    entries.iter().any(|entry| entry.split_once(':').is_some_and(|(_, value)| value.trim() == NOT_STORED))
}

/// Returns the names of the secrets among the entries that are not in a file.
pub(super) fn exposed(entries: &[String]) -> impl Iterator<Item = &str> {
    let names = entries.iter().filter(|entry| file(entry).is_none()).filter_map(|entry| entry.split_once(':'));
    names.map(|(name, _)| name.trim()).filter(|name| is_secret(name))
}

/// Returns the names and values of all headers.
///
/// # Errors
/// Fails if a header is malformed, its value was not stored, or a file cannot be read.
pub(super) fn read(entries: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = vec![];
    for entry in entries {
        match file(entry) {
            Some(path) => headers.extend(read_file(path)?),
            None => headers.push(parse(entry).map_err(|problem| Failure::Usage(format!("--header: {problem}")))?),
        }
    }
    Ok(headers)
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let failed = |problem: &dyn std::fmt::Display| Failure::Input(format!("--header @{}: {problem}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if read as u64 > MAX_FILE {
        return Err(failed(&format_args!("it is larger than {MAX_FILE} bytes")));
    }
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let parse =
        |(line, number): (&str, u32)| parse(line).map_err(|problem| failed(&format_args!("line {number}: {problem}")));
    lines.map(parse).collect()
}

/// Parses `Name: value`. The error does not repeat the text, which may be a secret.
fn parse(text: &str) -> Result<(String, String), String> {
    let form = "give a header as `Name: value`, or a file of headers as `@FILE`";
    let (name, value) = text.split_once(':').ok_or_else(|| format!("there is no colon: {form}"))?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(format!("the text before the colon is not a header name: {form}"));
    }
    let (name, value) = (name.to_owned(), value.trim().to_owned());
    if !value.chars().all(|c| c == '\t' || c == ' ' || c.is_ascii_graphic()) {
        return Err(format!("the value of `{name}` has characters other than printable ASCII"));
    }
    if value == NOT_STORED {
        return Err(format!("the value of `{name}` is not stored with the crawl: give all headers again"));
    }
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{
        cli::{Cli, Command, CrawlArgs},
        crawl::settings::Settings,
    };

    fn args(options: &[&str]) -> Box<CrawlArgs> {
        let words = ["orbweaver", "crawl"].iter().chain(options);
        let Command::Crawl(args) = Cli::parse_from(words).command else { unreachable!("it is `crawl`") };
        args
    }

    fn resumed(state: &Path, options: &[&str]) -> Result<Vec<(String, String)>, Failure> {
        let mut settings = Settings::read(state)?.unwrap();
        settings.resume(&args(options), &[])?;
        settings.write(state)?;
        read(&settings.header)
    }

    #[test]
    fn a_secret_of_the_command_line_is_not_stored_and_has_to_be_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let secret = ["--header", "Authorization: Bearer hunter2", "--header", "X-Team: search"];
        let settings = Settings::new(&args(&secret), vec![]).unwrap();
        let headers = [("Authorization", "Bearer hunter2"), ("X-Team", "search")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(&settings.header).unwrap(), headers);
        settings.write(state).unwrap();
        let stored = std::fs::read_to_string(state.join("crawl.json")).unwrap();
        assert!(!stored.contains("hunter2") && stored.contains("X-Team: search"), "{stored}");
        let missing = resumed(state, &[]).unwrap_err();
        assert!(missing.code() == 64 && missing.to_string().contains("`Authorization`"), "{missing}");
        assert_eq!(resumed(state, &secret).unwrap(), headers);
        let stored = std::fs::read_to_string(state.join("crawl.json")).unwrap();
        assert!(!stored.contains("hunter2"), "{stored}");
    }

    #[test]
    fn a_secret_in_a_file_is_read_at_each_start_and_only_its_path_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let (state, file) = (dir.path(), dir.path().join("headers"));
        std::fs::write(&file, "Cookie: a=hunter2\n\nX-Team: search\n").unwrap();
        let option = format!("@{}", file.display());
        Settings::new(&args(&["--header", &option]), vec![]).unwrap().write(state).unwrap();
        let stored = std::fs::read_to_string(state.join("crawl.json")).unwrap();
        assert!(!stored.contains("hunter2") && stored.contains(&option), "{stored}");
        std::fs::write(&file, "Cookie: a=changed\n").unwrap();
        let cookie = [("Cookie".to_owned(), "a=changed".to_owned())];
        assert_eq!(resumed(state, &[]).unwrap(), cookie);
        let other = resumed(state, &["--header", "X-Team: search"]).unwrap_err();
        assert!(other.code() == 64 && other.to_string().contains(&option), "{other}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(resumed(state, &[]).unwrap_err().code(), 66);
    }

    #[test]
    fn a_malformed_header_is_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        std::fs::write(&file, "X-Team: search\nAuthorization Bearer hunter2\n").unwrap();
        let option = format!("@{}", file.display());
        for (entry, problem) in [
            ("Authorization hunter2", "no colon"),
            ("Authorization hunter2: x", "not a header name"),
            ("Authorization: hunter2\u{e9}", "`Authorization`"),
            (&*option, "line 2: there is no colon"),
        ] {
            let error = read(&[entry.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("--header") && error.contains(problem) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn headers_that_may_be_secrets_are_known_by_their_names() {
        let given =
            ["Authorization: a", "x-api-key:b", "Proxy-Authorization: c", "Cookie: d", "Accept: e", "@/Token: f"];
        let given = given.map(str::to_owned);
        let exposed: Vec<&str> = exposed(&given).collect();
        assert_eq!(exposed, ["Authorization", "x-api-key", "Proxy-Authorization", "Cookie"]);
        assert_eq!(hidden(&given)[4..], ["Accept: e", "@/Token: f"]);
    }
}
