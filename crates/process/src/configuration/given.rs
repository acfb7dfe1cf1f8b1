//! Values as supplied, each with its origin.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use super::{SettingError, environment, file};

/// Unparsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// Single value.
    Scalar(String),
    /// Several values: an array in a file.
    List(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No value was supplied.
    Default,
    /// Line of a file.
    File {
        /// Path of the file as supplied.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// Environment variable.
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Value supplied for a key, which may or may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Full name of the key, `section.name`.
    pub path: String,
    /// Unparsed value.
    pub raw: Raw,
    pub origin: Origin,
}

/// All sources of configuration, read at the edge so that the rest is pure.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The file named on the command line, and its content.
    pub file: Option<(PathBuf, Vec<u8>)>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags, as (flag, key, value).
    pub flags: Vec<(&'static str, String, String)>,
}

impl Inputs {
    /// Reads the file, if one is named, and the environment of this process. An unreadable file is returned as a fault;
    /// the other inputs are still returned.
    #[must_use]
    pub fn of_process(path: Option<&Path>, flags: Vec<(&'static str, String, String)>) -> (Self, Option<SettingError>) {
        let read = path.map(|path| (path, std::fs::read(path)));
        let (file, fault) = match read {
            None => (None, None),
            Some((path, Ok(content))) => (Some((path.to_owned(), content)), None),
            Some((path, Err(error))) => {
                (None, Some(SettingError::of_file(path, None, &format!("cannot be read: {error}"))))
            }
        };
        (Self { file, environment: std::env::vars_os().collect(), flags }, fault)
    }

    /// Returns the supplied values, lowest precedence first, and the faults of unreadable ones. Reads the files that
    /// `…_FILE` variables name.
    #[must_use]
    pub fn read(&self) -> (Vec<Given>, Vec<SettingError>) {
        let (mut given, mut faults) = (vec![], vec![]);
        if let Some((path, content)) = &self.file {
            file::read(path, content, &mut given, &mut faults);
        }
        environment::read(&self.environment, environment::content, &mut given, &mut faults);
        given.extend(self.flags.iter().map(|(flag, path, value)| Given {
            path: path.clone(),
            raw: Raw::Scalar(value.clone()),
            origin: Origin::Flag(flag),
        }));
        (given, faults)
    }
}
