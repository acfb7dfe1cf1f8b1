//! Allowed dependencies:
//! `settings, url, main-text, sitemaps, warc, bucket, http-server <- messages, index-files <- patterns, politeness, scope, seen, log <- stage <- store <- process <- services <- urlstore <- orbweaver`.

use crate::Package;

/// Returns the layer of a package of the workspace: it may depend on lower layers only, not on its own.
fn layer(package: &str) -> Option<u8> {
    Some(match package.strip_prefix("orbweaver").map(|rest| rest.trim_start_matches('-'))? {
        "settings" | "url" | "main-text" | "sitemaps" | "warc" | "bucket" | "http-server" | "toyweb" | "testkit" => 0,
        "messages" | "index-files" => 1,
        "patterns" | "politeness" | "scope" | "seen" | "log" => 2,
        "stage" => 3,
        "store" => 4,
        "archiver" | "extractor" | "fetcher" | "frontier" | "normalizer-dedup" | "rate-limiter" => 6,
        "process" => 5,
        // Extracts documents from archived contents, as the extractor does.
        "urlstore" => 7,
        "" => 8,
        // Each builds on the previous one: judges, processes, faults.
        "cluster-tests" => 10,
        "chaos-tests" => 11,
        name if name.ends_with("-tests") => 9,
        _ => return None,
    })
}

/// Returns dependencies within the workspace that do not point down, and packages without a layer. Tests may also use
/// the package itself, the toy web and the testkit.
#[must_use]
pub fn arrows_that_point_up(packages: &[Package]) -> Vec<String> {
    let mut broken = vec![];
    for package in packages {
        let Some(from) = layer(&package.name) else {
            broken.push(format!("{} is in no layer", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.name.starts_with("orbweaver")) {
            let kit = ["orbweaver-toyweb", "orbweaver-testkit"].contains(&&*dependency.name);
            let of_tests = dependency.dev && (dependency.name == package.name || kit);
            if !of_tests && layer(&dependency.name).is_none_or(|to| to >= from) {
                broken.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    broken
}

/// Libraries for an effect or a format, with the only packages that may use them.
const OWNERS: [(&str, &[&str]); 19] = [
    // The store, and the index of exported documents.
    ("fjall", &["orbweaver-store", "orbweaver"]),
    ("rdkafka", &["orbweaver-log"]),
    ("scylla", &["orbweaver-store"]),
    // Probes and metrics; the API.
    ("axum", &["orbweaver-http-server", "orbweaver-process", "orbweaver-urlstore"]),
    ("utoipa", &["orbweaver-urlstore"]),
    ("toml", &["orbweaver-process"]),
    ("reqwest", &["orbweaver-fetcher"]),
    ("hyper", &["orbweaver-toyweb", "orbweaver-fetcher"]),
    ("encoding_rs", &["orbweaver-extractor", "orbweaver-sitemaps"]),
    ("object_store", &["orbweaver-bucket", "orbweaver-archiver", "orbweaver-urlstore", "orbweaver"]),
    ("quick-xml", &["orbweaver-sitemaps"]),
    ("psl", &["orbweaver-url"]),
    ("sha1", &["orbweaver-warc"]),
    ("sha2", &["orbweaver-archiver", "orbweaver-urlstore", "orbweaver"]),
    ("async-compression", &["orbweaver-fetcher"]),
    ("whatlang", &["orbweaver-extractor"]),
    ("growable-bloom-filter", &["orbweaver-seen"]),
    ("serde_norway", &["orbweaver-messages"]),
    ("clap", &["orbweaver", "orbweaver-process", "orbweaver-toyweb"]),
];

/// Packages of pure logic: no runtime, no socket.
const PURE: [&str; 9] = [
    "orbweaver-url",
    "orbweaver-main-text",
    "orbweaver-messages",
    "orbweaver-patterns",
    "orbweaver-politeness",
    "orbweaver-scope",
    "orbweaver-sitemaps",
    "orbweaver-warc",
    "orbweaver-frontier",
];

/// Returns uses of a library by a package that may not use it. Tests may.
#[must_use]
pub fn libraries_of_others(packages: &[Package]) -> Vec<String> {
    let mut broken = vec![];
    for package in packages.iter().filter(|package| !package.name.ends_with("-tests")) {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let owners = OWNERS.iter().find(|(library, _)| *library == dependency.name);
            let foreign = owners.is_some_and(|(_, owners)| !owners.contains(&&*package.name));
            let impure = PURE.contains(&&*package.name) && ["tokio", "rustix"].contains(&&*dependency.name);
            if foreign || impure {
                broken.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |&(name, dev): &(&str, bool)| Dependency { name: name.to_owned(), dev };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package { name: name.to_owned(), dir: name.into(), dependencies }
    }

    #[test]
    fn an_arrow_that_points_up_or_aside_is_found() {
        for (from, to) in [
            ("orbweaver-url", "orbweaver-messages"),
            ("orbweaver-seen", "orbweaver-log"),
            ("orbweaver-fetcher", "orbweaver-extractor"),
            ("orbweaver-stage", "orbweaver-store"),
            ("orbweaver-frontier", "orbweaver"),
            ("orbweaver-process", "orbweaver-frontier"),
        ] {
            assert_eq!(arrows_that_point_up(&[package(from, &[(to, false)])]), [format!("{from} -> {to}")]);
        }
        assert_eq!(arrows_that_point_up(&[package("orbweaver-utils", &[])]), ["orbweaver-utils is in no layer"]);
        let good =
            package("orbweaver-store", &[("orbweaver-stage", false), ("orbweaver-store", true), ("serde", false)]);
        assert_eq!(arrows_that_point_up(&[good]), Vec::<String>::new());
    }

    #[test]
    fn a_library_in_foreign_hands_is_found() {
        let bad = [
            package("orbweaver-log", &[("fjall", false)]),
            package("orbweaver-frontier", &[("tokio", false)]),
            package("orbweaver-extractor", &[("reqwest", false)]),
        ];
        let found = libraries_of_others(&bad);
        assert_eq!(found, ["orbweaver-log -> fjall", "orbweaver-frontier -> tokio", "orbweaver-extractor -> reqwest"]);
        let good = [package("orbweaver-log", &[("fjall", true)]), package("orbweaver-store", &[("fjall", false)])];
        assert_eq!(libraries_of_others(&good), Vec::<String>::new());
    }
}
