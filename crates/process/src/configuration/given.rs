//! Values on their way in, each with its origin.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use super::{Fault, environment, file};

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// One.
    Scalar(String),
    /// Several, an array in a file.
    List(Vec<String>),
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It was not given.
    Default,
    /// A line of a file.
    File {
        /// The file, as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag.
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

/// A value that was given for a key, which may exist or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key's whole name, `section.name`.
    pub path: String,
    /// What was given.
    pub raw: Raw,
    /// By what.
    pub origin: Origin,
}

/// All that may have been given: read at the edge, so that the rest is pure.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The file that was named, and its content.
    pub file: Option<(PathBuf, Vec<u8>)>,
    /// The environment, whole.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags, as (flag, key, value).
    pub flags: Vec<(&'static str, String, String)>,
}

impl Inputs {
    /// Reads the file, if one is named, and takes the environment of this process. The fault names a file that cannot be read;
    /// the rest is there all the same.
    #[must_use]
    pub fn of_process(path: Option<&Path>, flags: Vec<(&'static str, String, String)>) -> (Self, Option<Fault>) {
        let read = path.map(|path| (path, std::fs::read(path)));
        let (file, fault) = match read {
            None => (None, None),
            Some((path, Ok(content))) => (Some((path.to_owned(), content)), None),
            Some((path, Err(error))) => (None, Some(Fault::of_file(path, None, &format!("cannot be read: {error}")))),
        };
        (Self { file, environment: std::env::vars_os().collect(), flags }, fault)
    }

    /// What was given, the least first, and what could not be read at all. Reads the files that `…_FILE` variables name.
    #[must_use]
    pub fn read(&self) -> (Vec<Given>, Vec<Fault>) {
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
