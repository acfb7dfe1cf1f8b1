//! Generates the table of topics in `schemas/README.md` from `schemas/topics/*.yaml`, or checks it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "the functions that tests share are tests, too")]

use std::path::Path;

use orbweaver_messages::topic::{Cleanup, SchemaRef, TopicDescription, topics};

const BEGIN: &str = "<!-- topics -->\n";
const END: &str = "<!-- /topics -->";

fn table() -> String {
    let head =
        "| topic | purpose | record key | carries | made by | read by | cleanup |\n|---|---|---|---|---|---|---|\n";
    topics().iter().fold(head.to_owned(), |table, topic| table + &row(topic))
}

fn row(topic: &TopicDescription) -> String {
    let carries: Vec<String> = topic.schemas.iter().map(carries).collect();
    let consumers = topic.consumers.iter().map(|service| (*service).to_owned());
    let followers = topic.followers.iter().map(|service| format!("({service})"));
    let collectors = topic.collectors.iter().map(|group| format!("collected by {group}"));
    let readers: Vec<String> = consumers.chain(followers).chain(collectors).collect();
    let cleanup = match topic.cleanup {
        Cleanup::Delete => "delete",
        Cleanup::Compact => "compact",
        Cleanup::Keep => "keep",
    };
    let read_back = if topic.is_read_back { ", read back by a lease" } else { "" };
    let cells = [
        format!("[`{0}`](topics/{0}.yaml)", topic.topic),
        topic.purpose.to_owned(),
        topic.key.to_owned(),
        carries.join(", "),
        topic.producers.join(", "),
        readers.join(", "),
        format!("{cleanup}{read_back}"),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn carries(schema: &SchemaRef) -> String {
    let file = format!("../schemas/{}.v{}.schema.json", schema.name, schema.version);
    let exists = Path::new("..").join(&file).exists();
    let name = if exists {
        format!("[{0}](./{0}.v{1}.schema.json)", schema.name, schema.version)
    } else {
        format!("{} (binary, see the topic)", schema.name)
    };
    let header = schema.header.as_ref().map(|header| format!(" in the header `{header}`"));
    let prefix = schema.key_prefix.as_ref().map(|prefix| format!(" (`{prefix}`)"));
    format!("{name}{}{}", header.unwrap_or_default(), prefix.unwrap_or_default())
}

#[test]
fn the_table_of_topics_is_up_to_date() {
    let path = Path::new("../../schemas/README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the README marks where the table begins");
    let (old, after) = rest.split_once(END).expect("the README marks where the table ends");
    let new = table();
    if std::env::var_os("ORBWEAVER_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(old, new, "regenerate it: ORBWEAVER_WRITE_DOCS=1 cargo test -p orbweaver-messages --test topic_docs");
}

#[test]
fn every_file_of_the_directory_is_a_topic() {
    let dir = Path::new("../../schemas/topics");
    let mut files: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut expected: Vec<String> = topics().iter().map(|topic| format!("{}.yaml", topic.topic)).collect();
    files.sort();
    expected.sort();
    assert_eq!(files, expected);
}
