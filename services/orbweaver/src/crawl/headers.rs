//! Request headers of `--header`. A header that may be a secret is accepted only in a file, and is neither stored nor
//! part of any message.

use std::{fs::File, io::Read as _, path::Path};

use crate::exit::Failure;

/// Maximum size of a file with headers, in bytes.
const MAX_FILE: u64 = 64 << 10;
/// Parts of the names of headers that carry secrets, in lower case.
const SECRETS: [&str; 9] =
    ["auth", "cookie", "token", "secret", "password", "credential", "session", "signature", "key"];

/// Returns `true` for the name of a header that may be a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Returns the path of an entry that stands for the headers of a file: `@FILE`.
fn file(entry: &str) -> Option<&Path> {
    entry.strip_prefix('@').map(Path::new)
}

/// Returns the entries of the command line with absolute paths, since a crawl may be resumed from another directory.
pub(super) fn accepted(given: &[String]) -> Result<Vec<String>, Failure> {
    for entry in given.iter().filter(|entry| file(entry).is_none()) {
        let (name, _) = parse(entry).map_err(|problem| malformed(&problem))?;
        if is_secret(&name) {
            return Err(Failure::Usage(format!(
                "--header: every user of this machine could see the value of `{name}` on the command line; write the \
                 header to a file, one `Name: value` per line, and give --header @FILE"
            )));
        }
    }
    let absolute = |entry: &String| match file(entry).map(std::path::absolute) {
        Some(Ok(path)) => format!("@{}", path.display()),
        Some(Err(_)) | None => entry.clone(),
    };
    Ok(given.iter().map(absolute).collect())
}

/// Returns the names and values of all headers.
pub(super) fn read(entries: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = vec![];
    for entry in entries {
        match file(entry) {
            Some(path) => headers.extend(read_file(path)?),
            None => headers.push(parse(entry).map_err(|problem| malformed(&problem))?),
        }
    }
    Ok(headers)
}

fn malformed(problem: &str) -> Failure {
    Failure::Usage(format!("--header: {problem}"))
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
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::crawl_args as args, crawl::settings::Settings};

    fn resumed(state: &Path, options: &[&str]) -> Result<Vec<(String, String)>, Failure> {
        let mut settings = Settings::read(state)?.unwrap();
        settings.resume(&args(options), &[])?;
        settings.write(state)?;
        read(&settings.header)
    }

    #[test]
    fn a_secret_on_the_command_line_is_refused_with_its_name_and_without_its_value() {
        let dir = tempfile::tempdir().unwrap();
        Settings::new(&args(&[]), vec![]).unwrap().write(dir.path()).unwrap();
        for name in ["Authorization", "Proxy-Authorization", "cookie", "X-Api-Key", "X-Auth-Token"] {
            let header = format!("{name}: hunter2");
            let options = ["--header", "X-Team: search", "--header", &header];
            let new = Settings::new(&args(&options), vec![]).unwrap_err();
            let resumed = resumed(dir.path(), &options).unwrap_err();
            for refused in [new, resumed] {
                let message = refused.to_string();
                assert_eq!(refused.code(), 64, "{message}");
                assert!(message.contains(&format!("`{name}`")) && message.contains("--header @FILE"), "{message}");
                assert!(!message.contains("hunter2"), "{message}");
            }
        }
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
            let entry = [entry.to_owned()];
            let error = accepted(&entry).and_then(|entries| read(&entries)).unwrap_err().to_string();
            assert!(error.contains("--header") && error.contains(problem) && !error.contains("hunter2"), "{error}");
        }
    }
}
