//! Generates the constants of `src/topic.rs` from `schemas/topics/*.yaml`, so that no service parses YAML.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use serde::Deserialize;

const DIRECTORY: &str = "../../schemas/topics";
/// Topics in the order of the data flow, in which commands and tables list them.
const ORDER: [&str; 17] = [
    "crawl.seeds",
    "crawl.discovered",
    "crawl.frontier",
    "crawl.seen",
    "crawl.scheduled",
    "crawl.ready",
    "crawl.outcomes",
    "crawl.pages",
    "crawl.archive",
    "crawl.documents",
    "crawl.signatures",
    "crawl.changes",
    "crawl.sites",
    "crawl.site-pages",
    "crawl.control",
    "crawl.events",
    "crawl.dead-letters",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    purpose: String,
    producers: Vec<String>,
    #[serde(default)]
    consumers: Vec<String>,
    #[serde(default)]
    collectors: Vec<String>,
    #[serde(default)]
    users: bool,
    #[serde(default)]
    followers: Vec<String>,
    key: String,
    cleanup: Cleanup,
    schemas: Vec<Schema>,
    read_back: Option<ReadBack>,
    #[serde(rename = "notes")]
    _notes: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Schema {
    name: String,
    version: u32,
    header: Option<String>,
    key_prefix: Option<String>,
    #[serde(rename = "encoding")]
    _encoding: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Cleanup {
    Delete,
    Compact,
    Keep,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadBack {
    Lease,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DIRECTORY}");
    let (mut constants, mut topics) = (String::new(), String::new());
    for name in ORDER {
        let file = format!("{DIRECTORY}/{name}.yaml");
        let description: Description =
            serde_norway::from_str(&fs::read_to_string(&file)?).map_err(|error| format!("{file}: {error}"))?;
        if description.name != name {
            return Err(format!("{file} describes `{}`", description.name).into());
        }
        let constant = name.trim_start_matches("crawl.").replace('-', "_").to_uppercase();
        writeln!(constants, "/// {}\npub const {constant}: Topic = Topic({name:?});", description.purpose)?;
        topics.push_str(&topic(&constant, &description)?);
    }
    let text = format!("{constants}\nstatic TOPICS: [TopicDescription; {}] = [{topics}];\n", ORDER.len());
    fs::write(Path::new(&env::var("OUT_DIR")?).join("topics.rs"), text)?;
    Ok(())
}

fn topic(constant: &str, description: &Description) -> Result<String, std::fmt::Error> {
    let Description { purpose, producers, consumers, collectors, users, followers, key, cleanup, .. } = description;
    let is_read_back = description.read_back.is_some();
    let mut schemas = String::new();
    for Schema { name, version, header, key_prefix, .. } in &description.schemas {
        write!(
            schemas,
            "SchemaRef {{ name: {name:?}, version: {version}, version_text: \"{version}\", header: {header:?}, \
             key_prefix: {key_prefix:?} }},"
        )?;
    }
    Ok(format!(
        "TopicDescription {{ topic: {constant}, purpose: {purpose:?}, producers: &{producers:?}, consumers: \
         &{consumers:?}, collectors: &{collectors:?}, users: {users}, followers: &{followers:?}, key: {key:?}, cleanup: \
         Cleanup::{cleanup:?}, schemas: &[{schemas}], is_read_back: {is_read_back} }},"
    ))
}
