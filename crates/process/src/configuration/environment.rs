//! Environment variables: `ORBWEAVER_SECTION__NAME`, and `ORBWEAVER_SECTION__NAME_FILE` for a value kept in a file.

use std::{ffi::OsString, io::Read as _, path::Path};

use super::{
    SettingError,
    given::{Given, Origin, Raw},
};

const PREFIX: &str = "ORBWEAVER_";
/// Suffix of a variable that names a file with the value.
const IN_FILE: &str = "_FILE";
/// Maximum size of a value in a file, in bytes; a certificate chain with its key is smaller.
const MAX_FILE: u64 = 64 << 10;

/// Reads the variables that are keys: names that begin with `ORBWEAVER_` and contain `__`. Other names with this prefix
/// are ignored: Kubernetes sets `ORBWEAVER_FETCHER_PORT` and the like for every service. An empty variable counts as
/// unset. `content` reads the file that a variable names.
pub(super) fn read(
    environment: &[(OsString, OsString)],
    content: impl Fn(&Path) -> Result<String, String>,
    given: &mut Vec<Given>,
    faults: &mut Vec<SettingError>,
) {
    let variables = environment.iter().filter(|(_, value)| !value.is_empty());
    let mut variables: Vec<_> = variables.filter_map(|(name, value)| Some((path(name)?, name, value))).collect();
    // The order of a process's environment is arbitrary.
    variables.sort();
    for (path, name, value) in &variables {
        let origin = Origin::Variable(name.to_string_lossy().into_owned());
        let (path, value) = match path.strip_suffix(&IN_FILE.to_lowercase()) {
            None => (path.clone(), value.to_str().map(str::to_owned).ok_or("the value is not UTF-8".to_owned())),
            Some(path) if variables.iter().any(|(other, ..)| other == path) => {
                let problem = format!("it is also set without `{IN_FILE}`; set one of the two variables");
                (path.to_owned(), Err(problem))
            }
            Some(path) => {
                let file = Path::new(value);
                (path.to_owned(), content(file).map_err(|problem| format!("{}: {problem}", file.display())))
            }
        };
        match value {
            Ok(value) => given.push(Given { path, raw: Raw::Scalar(value), origin }),
            Err(problem) => faults.push(SettingError::new(path, problem).at(origin)),
        }
    }
}

/// Reads a value from a file, without the final line break.
pub(super) fn content(file: &Path) -> Result<String, String> {
    let read = |error: std::io::Error| format!("cannot be read: {error}");
    let mut content = vec![];
    std::fs::File::open(file).map_err(read)?.take(MAX_FILE + 1).read_to_end(&mut content).map_err(read)?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!("more than {MAX_FILE} bytes; the file must contain the value only"));
    }
    let text = String::from_utf8(content).map_err(|_| "the content is not UTF-8".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Returns the key that a variable names: the text after the prefix in lower case, with a dot for each `__`.
fn path(name: &OsString) -> Option<String> {
    let (section, rest) = name.to_str()?.strip_prefix(PREFIX)?.split_once("__")?;
    (!section.is_empty()).then(|| format!("{}.{}", section.to_lowercase(), rest.replace("__", ".").to_lowercase()))
}

/// Returns the variable that names a key.
pub(super) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_double_underscore_are_ours() {
        let path = |name: &str| path(&name.into());
        assert_eq!(path("ORBWEAVER_KAFKA__BROKERS").as_deref(), Some("kafka.brokers"));
        assert_eq!(path("ORBWEAVER_RATE_LIMITER__MAX_DELAY").as_deref(), Some("rate_limiter.max_delay"));
        let nested = path("ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD");
        assert_eq!(nested.as_deref(), Some("kafka.properties.sasl.password"));
        for foreign in ["ORBWEAVER_FETCHER_SERVICE_HOST", "ORBWEAVER_TEST_BROKERS", "HOME", "ORBWEAVER___X", "X__Y"] {
            assert_eq!(path(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_variable_with_file_at_its_end_names_the_file_of_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "s3cret \r\n").unwrap();
        let file = file.to_str().unwrap();
        let both = [("ORBWEAVER_CQL__PASSWORD_FILE", file), ("ORBWEAVER_CQL__PASSWORD", "x")];
        let read = |variables: &[(&str, &str)]| {
            let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let (mut given, mut faults) = (vec![], vec![]);
            super::read(&variables, content, &mut given, &mut faults);
            (given, faults.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (given, faults) = read(&both[..1]);
        assert_eq!((given[0].path.as_str(), &given[0].raw), ("cql.password", &Raw::Scalar("s3cret ".to_owned())));
        assert_eq!((given[0].origin.to_string().as_str(), faults.len()), ("ORBWEAVER_CQL__PASSWORD_FILE", 0));
        let (_, faults) = read(&both);
        assert!(faults.len() == 1 && faults[0].contains("set one of the two"), "{faults:?}");
        let (_, faults) = read(&[("ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD_FILE", "/nowhere/at/all")]);
        assert!(faults[0].contains("kafka.properties.sasl.password") && faults[0].contains("/nowhere"), "{faults:?}");
        std::fs::write(file, vec![b'x'; 70_000]).unwrap();
        let (_, faults) = read(&both[..1]);
        assert!(faults[0].contains("65536 bytes") && !faults[0].contains("xxx"), "{faults:?}");
    }
}
