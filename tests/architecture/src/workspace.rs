//! Packages and files of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A dependency of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Name of the required package.
    pub name: String,
    /// Whether only tests, benches and examples need it.
    pub dev: bool,
}

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Directory, relative to the root of the workspace.
    pub dir: PathBuf,
    pub dependencies: Vec<Dependency>,
}

/// Returns the root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let root = PathBuf::from("../..");
    root.canonicalize().unwrap_or(root)
}

/// Returns the packages of the workspace, as reported by cargo.
pub fn packages() -> Result<Vec<Package>, String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    packages.iter().map(package).collect::<Option<_>>().ok_or_else(|| "a package without a name".to_owned())
}

fn package(value: &Value) -> Option<Package> {
    let manifest = Path::new(value["manifest_path"].as_str()?).canonicalize().ok()?;
    let dir = manifest.parent()?.strip_prefix(root()).ok()?.to_path_buf();
    let dependency = |value: &Value| {
        let name = value["name"].as_str()?.to_owned();
        Some(Dependency { name, dev: value["kind"].as_str() == Some("dev") })
    };
    let dependencies = value["dependencies"].as_array()?.iter().map(dependency).collect::<Option<_>>()?;
    Some(Package { name: value["name"].as_str()?.to_owned(), dir, dependencies })
}

/// Returns all files below a directory of the workspace, as sorted paths relative to its root.
#[must_use]
pub fn files_below(dir: &str) -> Vec<PathBuf> {
    let (root, mut files) = (root(), vec![]);
    let mut dirs = vec![root.join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if let Ok(path) = path.strip_prefix(&root) {
                files.push(path.to_path_buf());
            }
        }
    }
    files.sort();
    files
}
