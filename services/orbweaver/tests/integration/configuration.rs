//! Configuration of the services: precedence, faults, redaction, documentation.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use orbweaver_archiver::service::ArchiverService;
use orbweaver_extractor::service::ExtractorService;
use orbweaver_fetcher::service::FetcherService;
use orbweaver_frontier::service::FrontierService;
use orbweaver_normalizer_dedup::service::NormalizerDedupService;
use orbweaver_process::{
    Service,
    configuration::{Inputs, Key, Origin, SECTIONS, SettingError, Settings, effective, listed, table},
    configure,
};
use orbweaver_rate_limiter::service::RateLimiterService;
use orbweaver_urlstore::service::UrlstoreService;
use proptest::prelude::*;
use serde_json::{Value, json};

fn inputs(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Inputs {
    Inputs {
        file: Some((PathBuf::from("crawl.toml"), file.as_bytes().to_vec())),
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        flags: flags.iter().map(|(path, value)| ("--set", (*path).to_owned(), (*value).to_owned())).collect(),
    }
}

/// Reads the settings of a fetcher from a file, variables and flags.
fn read(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> (Settings, Vec<String>) {
    let (_, settings, faults) = configure::<FetcherService>(&inputs(file, variables, flags));
    (settings, faults.iter().map(SettingError::to_string).collect())
}

/// Reads settings that have no fault.
fn accepted(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Settings {
    let (settings, faults) = read(file, variables, flags);
    assert_eq!(faults, Vec::<String>::new());
    settings
}

/// Returns the lines of the effective configuration for these keys.
fn shown(settings: &Settings, names: &[&str]) -> Vec<String> {
    let text = effective(settings);
    names
        .iter()
        .map(|name| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} = ")));
            line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
        })
        .collect()
}

const NEEDED: &str = "[kafka]\nbrokers = 'a:1'\n[cql]\nnodes = ['c:1', 'd:2']\n";

#[test]
fn flags_win_over_the_environment_and_that_over_the_file_and_that_over_defaults() {
    let file = format!("{NEEDED}[fetcher]\nconcurrency = 10\nmax_headers = 11\nconnect_timeout = '1s'\n");
    let variables = [("ORBWEAVER_FETCHER__CONCURRENCY", "20"), ("ORBWEAVER_FETCHER__MAX_HEADERS", "21")];
    let settings = accepted(&file, &variables, &[("fetcher.concurrency", "30")]);
    assert_eq!(
        shown(&settings, &["concurrency", "connect_timeout", "max_header_bytes", "max_headers"]),
        [
            "concurrency = 256  # default",
            "connect_timeout = \"1s\"  # crawl.toml:8",
            "max_header_bytes = \"16KiB\"  # default",
            "max_headers = 21  # ORBWEAVER_FETCHER__MAX_HEADERS"
        ]
    );
    assert!(effective(&settings).contains("\nconcurrency = 30  # --set\n"), "{}", effective(&settings));
}

#[test]
fn every_fault_is_told_at_once_with_key_value_origin_and_what_is_allowed() {
    let file = "[fetcher]\nconcurrency = 0\nconcurency = 5\n[fetchr]\nx = 1\n[log]\nlevel = [1]\n";
    let variables = [
        ("ORBWEAVER_KAFKA__BROKERS", "no port"),
        ("ORBWEAVER_HTTP__LISTEN", "somewhere"),
        ("ORBWEAVER_FETCHER__ALLOW_PRIVATE", "maybe"),
        ("ORBWEAVER_RATE_LIMITER__RATE", "fast"),
        ("ORBWEAVER_NOWHERE__AT_ALL", "1"),
        ("ORBWEAVER_FETCHER_SERVICE_PORT", "tcp://10.0.0.1:80"),
    ];
    let (_, faults) = read(file, &variables, &[("log.format", "xml")]);
    let expected = [
        "fetcher.concurrency = \"0\" (from crawl.toml:2): allowed: a number from 1 to 1024",
        "fetcher.concurency (from crawl.toml:3): there is no such key in [fetcher]; the nearest is `concurrency`",
        "fetchr.x (from crawl.toml:5): there is no such section; the nearest is `fetcher`",
        "log.level = [\"1\"] (from crawl.toml:7): allowed: text without control characters",
        "fetcher.allow_private = \"maybe\" (from ORBWEAVER_FETCHER__ALLOW_PRIVATE): allowed: `true` or `false`",
        "http.listen = \"somewhere\" (from ORBWEAVER_HTTP__LISTEN): allowed: an IP address and port",
        "kafka.brokers = \"no port\" (from ORBWEAVER_KAFKA__BROKERS): allowed: `HOST:PORT`, several",
        "nowhere.at_all (from ORBWEAVER_NOWHERE__AT_ALL): there is no such section",
        "rate_limiter.rate = \"fast\" (from ORBWEAVER_RATE_LIMITER__RATE): allowed: `1/s`",
        "log.format = \"xml\" (from --set): allowed: `json` or `text`",
        "cql.nodes: it is not set; set ORBWEAVER_CQL__NODES or `nodes` under [cql] in the file",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}\n{expected}");
    }
}

#[test]
fn a_secret_is_never_shown_whether_it_is_right_or_wrong() {
    let file = format!(
        "{NEEDED}username = 'u'\npassword = 'hunter2'\n[kafka.properties]\n'sasl.password' = 'hunter2'\nsasl.mechanism = 'PLAIN'\n\
         [fetcher.headers]\nauthorization = 'hunter2'\n"
    );
    let settings = accepted(&file, &[], &[]);
    let shown = effective(&settings);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        shown.contains("properties.\"sasl.mechanism\" = \"PLAIN\"") && shown.contains("password = \"…\""),
        "{shown}"
    );

    let wrong = "[kafka.properties]\n'sasl.password' = \"hunter2\\u0000\"\n[cql]\npassword = ['hunter2']\n";
    let (_, faults) = read(wrong, &[], &[]);
    assert!(faults.len() >= 2 && !faults.concat().contains("hunter2"), "{faults:?}");
}

#[test]
fn a_secret_in_a_flag_is_refused_with_its_key_and_not_repeated() {
    for (key, variable) in [
        ("cql.password", "ORBWEAVER_CQL__PASSWORD"),
        ("kafka.properties.sasl.password", "ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD"),
        (
            "kafka.properties.sasl.oauthbearer.assertion.private.key.passphrase",
            "ORBWEAVER_KAFKA__PROPERTIES__SASL__OAUTHBEARER__ASSERTION__PRIVATE__KEY__PASSPHRASE",
        ),
        ("fetcher.headers.authorization", "ORBWEAVER_FETCHER__HEADERS__AUTHORIZATION"),
    ] {
        let (settings, faults) = read(NEEDED, &[], &[(key, "hunter2")]);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert!(fault.starts_with(&format!("{key} (from --set): ")) && !fault.contains("hunter2"), "{fault}");
        assert!(fault.contains(&format!("set {variable}, or {variable}_FILE to a file")), "{fault}");
        assert_eq!(settings.origin(key), None, "{key}");
        let login = key.starts_with("cql.").then_some(("ORBWEAVER_CQL__USERNAME", "u"));
        let variables: Vec<_> = login.into_iter().chain([(variable, "hunter2")]).collect();
        accepted(NEEDED, &variables, &[]);
    }
    accepted(NEEDED, &[], &[("kafka.properties.sasl.mechanism", "PLAIN"), ("fetcher.headers.accept-language", "de")]);
}

#[test]
fn the_effective_configuration_is_a_file_that_gives_the_same() {
    let file = format!(
        "{NEEDED}[fetcher]\nheaders.x-a = 'no \"secret\"'\nrobots_lifetime = '1h 1m'\n[rate_limiter]\nrate = 0.3\n"
    );
    let settings = accepted(&file, &[], &[]);
    let again = accepted(&effective(&settings), &[], &[]);
    let values = |settings: &Settings| -> Vec<String> {
        effective(settings).lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(values(&again), values(&settings));
}

#[test]
fn a_file_may_serve_all_services_and_an_empty_variable_is_not_set() {
    let file = format!("{NEEDED}[extractor]\nhtml = true\n[frontier]\nmax_attempts = 5\n[state]\ndir = '/var/lib/x'\n");
    let settings = accepted(&file, &[("ORBWEAVER_LOG__LEVEL", "")], &[]);
    assert_eq!(shown(&settings, &["level"]), ["level = \"info\"  # default"]);
    assert!(!effective(&settings).contains("max_attempts"), "what the fetcher does not read is not shown");
    let (_, _, faults) = configure::<ExtractorService>(&inputs("[extractor]\nhtml = 'maybe'\n", &[], &[]));
    assert!(
        faults[0].to_string().starts_with("extractor.html = \"maybe\" (from crawl.toml:2): allowed:"),
        "{faults:?}"
    );
}

#[test]
fn a_value_is_checked_even_if_another_overrides_it_and_a_faulty_one_does_not_apply() {
    let file = format!("{NEEDED}[fetcher]\nconcurrency = 10\n");
    let (settings, faults) = read(&file, &[("ORBWEAVER_FETCHER__CONCURRENCY", "0")], &[]);
    assert!(faults.len() == 1 && faults[0].contains("fetcher.concurrency = \"0\""), "{faults:?}");
    assert!(effective(&settings).contains("concurrency = 10  # crawl.toml:6"));
    let (_, faults) = read(&file, &[("ORBWEAVER_FETCHER__CONCURRENCY", "0")], &[("fetcher.concurrency", "5")]);
    assert_eq!(faults.len(), 1, "{faults:?}");
}

#[test]
fn every_conflict_of_a_section_is_told_although_other_keys_are_missing() {
    let flags = [("kafka.prefix", ".a"), ("kafka.properties.acks", "1"), ("fetcher.user_agent", "/1")];
    let (_, faults) = read("", &[], &flags);
    for (fault, key) in faults[2..].iter().zip(["kafka.prefix", "kafka.properties.acks", "fetcher.user_agent"]) {
        assert!(fault.starts_with(&format!("{key} = ")) && fault.contains("(from --set)"), "{faults:#?}");
    }
    assert_eq!(faults.len(), 5, "brokers and nodes are missing, too: {faults:#?}");
}

#[test]
fn a_name_with_a_dot_is_a_key_only_below_a_map() {
    let (_, faults) =
        read(NEEDED, &[], &[("fetcher.concurrency.x", "1"), ("kafka.properties", "x"), ("fetcher.headers.", "x")]);
    assert_eq!(faults.len(), 3, "{faults:?}");
    for fault in &faults {
        assert!(fault.contains("there is no such key in ["), "{fault}");
    }
}

/// All services, in the order of the flow.
fn services() -> [(Settings, &'static str, &'static str, Option<&'static str>); 7] {
    fn of<S: Service>() -> (Settings, &'static str, &'static str, Option<&'static str>) {
        (configure::<S>(&Inputs::default()).1, S::NAME, S::LISTEN, S::RECORDS)
    }
    [
        of::<NormalizerDedupService>(),
        of::<FrontierService>(),
        of::<RateLimiterService>(),
        of::<FetcherService>(),
        of::<ExtractorService>(),
        of::<ArchiverService>(),
        of::<UrlstoreService>(),
    ]
}

#[test]
fn each_service_lists_its_keys_and_its_port_is_its_own() {
    let mut ports = BTreeSet::new();
    for (settings, name, listen, _) in services() {
        let text = listed(&settings);
        assert_eq!(text.contains("kafka.brokers  (ORBWEAVER_KAFKA__BROKERS)"), name != "urlstore", "{text}");
        assert!(text.contains(&format!("default: {listen}\n")) && ports.insert(listen), "{text}");
        assert_eq!(text.contains("cql.nodes"), ["fetcher", "extractor", "archiver", "urlstore"].contains(&name));
        assert_eq!(text.contains("rate_limiter.rate"), ["frontier", "rate-limiter", "fetcher"].contains(&name));
    }
}

#[test]
fn every_section_is_known_and_every_key_can_be_written_as_a_variable_and_is_described() {
    let services = services();
    let keys = || services.iter().flat_map(|(settings, ..)| settings.keys());
    let sections: BTreeSet<_> = keys().map(|key| key.section).collect();
    assert_eq!(sections, BTreeSet::from(SECTIONS));
    for path in keys().map(Key::path) {
        assert!(path.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'*')), "{path}");
        // A variable with this suffix names a file.
        assert!(!path.contains("__") && !path.ends_with("_file"), "{path}");
    }
    for key in keys() {
        assert!(key.meaning().ends_with(['.', ')']), "{}: {}", key.path(), key.meaning());
    }
    assert_eq!(
        keys().find(|key| key.path() == "kafka.properties.*").unwrap().variable(),
        "ORBWEAVER_KAFKA__PROPERTIES__NAME"
    );
}

#[test]
fn every_service_that_reads_the_wide_domains_compares_them_with_those_that_crawls_pin() {
    fn compares<S: Service>() -> (bool, bool) {
        let (service, settings, _) = configure::<S>(&Inputs::default());
        let reads = settings.keys().iter().any(|key| key.path() == "normalizer_dedup.wide_domains");
        (reads, service.wide_domains().is_some())
    }
    assert_eq!(compares::<NormalizerDedupService>(), (true, false), "where it applies definitions");
    assert_eq!([compares::<FetcherService>(), compares::<ExtractorService>()], [(true, true); 2]);
    assert_eq!([compares::<FrontierService>(), compares::<RateLimiterService>()], [(false, false); 2]);
    assert_eq!(compares::<ArchiverService>(), (false, false));
}

/// Compares the table between the markers of a README with the keys; writes it if `ORBWEAVER_WRITE_DOCS` is set.
fn agree(readme: &str, sections: &[&str]) {
    let services = services();
    let mut known = BTreeSet::new();
    let keys = services.iter().flat_map(|(settings, ..)| settings.keys());
    let mut keys: Vec<&Key> = keys.filter(|key| sections.contains(&key.section) && known.insert(key.path())).collect();
    keys.sort_by_key(|key| sections.iter().position(|section| *section == key.section));
    let records =
        |(_, name, _, records): &(_, &str, _, Option<&str>)| records.map(|records| format!("{name} `{records}`"));
    let records: Vec<String> = services.iter().filter_map(records).collect();
    let default = |path: &str| match path {
        "http.listen" => Some("`127.0.0.1:` 9461 to 9467 by service".to_owned()),
        "runtime.records" => Some(format!("`10000`; {}", records.join(", "))),
        _ => None,
    };
    let path = PathBuf::from("../..").join(readme);
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- configuration -->\n", "<!-- /configuration -->");
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{readme} has no `{}`", begin.trim()));
    let (there, after) = rest.split_once(end).unwrap_or_else(|| panic!("{readme} has no `{end}`"));
    let wanted = table(keys, default);
    if std::env::var_os("ORBWEAVER_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            there, wanted,
            "{readme} is out of date: ORBWEAVER_WRITE_DOCS=1 cargo test --workspace --test integration configuration"
        );
    }
}

#[test]
fn the_readmes_have_every_key_as_the_code_describes_it() {
    agree("crates/process/README.md", &["kafka", "cql", "http", "log", "runtime", "state"]);
    agree("services/normalizer-dedup/README.md", &["normalizer_dedup"]);
    agree("services/frontier/README.md", &["frontier"]);
    agree("services/rate-limiter/README.md", &["rate_limiter"]);
    agree("services/fetcher/README.md", &["fetcher"]);
    agree("services/extractor/README.md", &["extractor"]);
    agree("services/archiver/README.md", &["archiver"]);
    agree("services/urlstore/README.md", &["urlstore"]);
}

/// Returns the reference of all keys for programs, such as `tests/deployment`.
fn reference() -> String {
    let services = services();
    let mut keys = BTreeMap::<String, Value>::new();
    for (settings, service, ..) in &services {
        for key in settings.keys() {
            let described = keys.entry(key.path()).or_insert_with(|| {
                json!({
                    "required": key.required,
                    "default": key.default,
                    "secret": key.hidden(),
                    "meaning": key.meaning(),
                    "services": [],
                })
            });
            if described["default"].as_str() != key.default.as_deref() {
                described["default"] = json!("by service");
            }
            described["services"].as_array_mut().unwrap().push(json!(service));
        }
    }
    let services: BTreeMap<_, _> = services.iter().map(|(_, name, listen, _)| (name, listen)).collect();
    let keys: Vec<String> = keys.iter().map(|(path, key)| format!("\"{path}\": {key}")).collect();
    let generated = json!("ORBWEAVER_WRITE_DOCS=1 cargo test --workspace --test integration");
    let (services, keys) = (json!(services), keys.join(",\n"));
    format!("{{\n\"generated_by\": {generated},\n\"services\": {services},\n\"keys\": {{\n{keys}\n}}\n}}\n")
}

#[test]
fn the_reference_for_programs_has_every_key_as_the_code_describes_it() {
    let path = Path::new("../../docs/configuration.json");
    if std::env::var_os("ORBWEAVER_WRITE_DOCS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == reference(),
        "docs/configuration.json is out of date: ORBWEAVER_WRITE_DOCS=1 cargo test --workspace --test integration"
    );
}

/// Text of almost any shape that TOML may have.
const TOML: &str = "(\\[[a-z_.]{1,12}\\]\n)?([a-z_.\"]{1,12} *= *[\\[{'\"0-9a-z,:=\\]}. -]{0,24}\n){0,6}";

proptest! {
    #[test]
    fn no_file_and_no_environment_makes_it_panic(
        file in prop_oneof![proptest::collection::vec(any::<u8>(), 0..400), TOML.prop_map(String::into_bytes)],
        names in proptest::collection::vec(("[A-Z_.]{0,20}", proptest::collection::vec(any::<u8>(), 0..40)), 0..4),
    ) {
        let environment = names.into_iter().map(|(name, value)| {
            (OsString::from(format!("ORBWEAVER_{name}")), OsString::from_vec(value.into_iter().filter(|b| *b != 0).collect()))
        });
        let inputs = Inputs { file: Some(("x.toml".into(), file)), environment: environment.collect(), flags: vec![] };
        let (_, settings, faults) = configure::<FrontierService>(&inputs);
        let _ = (effective(&settings), faults.len());
    }

    #[test]
    fn no_value_of_a_known_key_makes_it_panic_and_each_is_taken_or_named(
        at in 0..100_usize,
        value in "\\PC{0,30}|[0-9]{1,30}[a-zA-Z/]{0,4}|-?[0-9.e]{1,12}(s|ms|MiB|/s)?",
        name in "\\PC{1,12}",
    ) {
        let (settings, _) = read("", &[], &[]);
        let keys = settings.keys();
        let path = keys[at % keys.len()].path().replace('*', &name);
        let (settings, faults) = read("", &[], &[(&path, &value)]);
        let taken = settings.origin(&path).is_some_and(|origin| *origin != Origin::Default)
            || value.split(',').all(|text| text.trim().is_empty());
        let named = faults.iter().any(|fault| fault.contains("(from --set)"));
        prop_assert!(taken || named, "{path}: {faults:?}");
        let _ = effective(&settings);
    }
}
