//! Tests of the public configuration interface: precedence, faults, redaction.

#![allow(clippy::unwrap_used, reason = "the functions that tests share are tests, too")]

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

use orbweaver_process::{
    ServiceId,
    configuration::{Inputs, Origin, SettingError, Settings, Value, effective, listed, table},
};
use proptest::prelude::*;

/// Resolves the settings of a fetcher from a file, variables and flags.
fn resolve(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> (Settings, Vec<String>) {
    let inputs = Inputs {
        file: Some((PathBuf::from("crawl.toml"), file.as_bytes().to_vec())),
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        flags: flags.iter().map(|(path, value)| ("--set", (*path).to_owned(), (*value).to_owned())).collect(),
    };
    let (given, mut faults) = inputs.read();
    let (settings, more) = Settings::resolve(ServiceId::Fetcher, &given);
    faults.extend(more);
    (settings, faults.iter().map(SettingError::to_string).collect())
}

const NEEDED: &str = "[kafka]\nbrokers = 'a:1'\n[cql]\nnodes = ['c:1', 'd:2']\n";

#[test]
fn flags_win_over_the_environment_and_that_over_the_file_and_that_over_defaults() {
    let file = format!("{NEEDED}[fetcher]\nconcurrency = 10\nmax_headers = 11\nconnect_timeout = '1s'\n");
    let variables = [("ORBWEAVER_FETCHER__CONCURRENCY", "20"), ("ORBWEAVER_FETCHER__MAX_HEADERS", "21")];
    let (settings, faults) = resolve(&file, &variables, &[("fetcher.concurrency", "30")]);
    assert_eq!(faults, Vec::<String>::new());
    let count = |path| settings.count::<u64>(path).unwrap();
    assert_eq!((count("fetcher.concurrency"), count("fetcher.max_headers")), (30, 21));
    assert_eq!(settings.time("fetcher.connect_timeout").unwrap().as_secs(), 1);
    assert_eq!(settings.time("fetcher.request_timeout").unwrap().as_secs(), 20);
    let origins: Vec<_> = settings
        .iter()
        .filter(|(path, _)| path.starts_with("fetcher.c") || path.starts_with("fetcher.max_h"))
        .map(|(path, setting)| format!("{path} {}", setting.origin))
        .collect();
    assert_eq!(
        origins,
        [
            "fetcher.concurrency --set",
            "fetcher.connect_timeout crawl.toml:8",
            "fetcher.max_header_bytes default",
            "fetcher.max_headers ORBWEAVER_FETCHER__MAX_HEADERS"
        ]
    );
}

#[test]
fn every_fault_is_told_at_once_with_key_value_origin_and_what_is_allowed() {
    let file = "[fetcher]\nconcurrency = 0\nconcurency = 5\n[fetchr]\nx = 1\n[extractor]\nhtml = 'maybe'\n";
    let variables = [
        ("ORBWEAVER_KAFKA__BROKERS", "no port"),
        ("ORBWEAVER_HTTP__LISTEN", "somewhere"),
        ("ORBWEAVER_RATE_LIMITER__RATE", "fast"),
        ("ORBWEAVER_NOWHERE__AT_ALL", "1"),
        ("ORBWEAVER_FETCHER_SERVICE_PORT", "tcp://10.0.0.1:80"),
    ];
    let (_, faults) = resolve(file, &variables, &[("log.format", "xml")]);
    let expected = [
        "fetcher.concurrency = \"0\" (from crawl.toml:2): allowed: a number from 1 to 1024",
        "fetcher.concurency (from crawl.toml:3): there is no such key in [fetcher]; the nearest is `concurrency`",
        "fetchr.x (from crawl.toml:5): there is no such section; the nearest is `fetcher`",
        "extractor.html = \"maybe\" (from crawl.toml:7): allowed: `true` or `false`",
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
        "{NEEDED}password = 'hunter2'\n[kafka.properties]\n'sasl.password' = 'hunter2'\nsasl.mechanism = 'PLAIN'\n\
         [fetcher.headers]\nauthorization = 'hunter2'\n"
    );
    let (settings, faults) = resolve(&file, &[], &[]);
    assert_eq!(faults, Vec::<String>::new());
    let shown = effective(&settings);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        shown.contains("properties.\"sasl.mechanism\" = \"PLAIN\"") && shown.contains("password = \"…\""),
        "{shown}"
    );
    let texts: Vec<_> = settings.texts_below("kafka.properties").collect();
    assert_eq!(texts[1], ("sasl.password".to_owned(), "hunter2".to_owned()));

    let wrong = "[kafka.properties]\n'sasl.password' = \"hunter2\\u0000\"\n[cql]\npassword = ['hunter2']\n";
    let (_, faults) = resolve(wrong, &[], &[]);
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
        let (settings, faults) = resolve(NEEDED, &[], &[(key, "hunter2")]);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert!(fault.starts_with(&format!("{key} (from --set): ")) && !fault.contains("hunter2"), "{fault}");
        assert!(fault.contains(&format!("set {variable}, or {variable}_FILE to a file")), "{fault}");
        assert!(settings.iter().all(|(path, _)| path != key), "{key}");
        let (_, faults) = resolve(NEEDED, &[(variable, "hunter2")], &[]);
        assert_eq!(faults, Vec::<String>::new());
    }
    let (_, faults) = resolve(
        NEEDED,
        &[],
        &[("kafka.properties.sasl.mechanism", "PLAIN"), ("fetcher.headers.accept-language", "de")],
    );
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn a_key_in_pem_form_and_a_password_with_a_space_at_its_end_arrive_as_their_files_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----";
    let (key, password) = (file("key.pem", &format!("{pem}\n")), file("password", " hunter2 \n"));
    let variables = [
        ("ORBWEAVER_KAFKA__PROPERTIES__SSL__KEY__PEM_FILE", key.as_str()),
        ("ORBWEAVER_CQL__PASSWORD_FILE", password.as_str()),
    ];
    let (settings, faults) = resolve(NEEDED, &variables, &[]);
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(settings.text("cql.password").unwrap(), " hunter2 ");
    let properties: Vec<_> = settings.texts_below("kafka.properties").collect();
    assert_eq!(properties, [("ssl.key.pem".to_owned(), pem.to_owned())]);

    // Rules remain for values that are shown, sent as a header, or cannot be a C string.
    let wrong = [
        ("ORBWEAVER_CQL__PASSWORD", "a\0b"),
        ("ORBWEAVER_FETCHER__HEADERS__COOKIE", "a\r\nb: c"),
        ("ORBWEAVER_KAFKA__PROPERTIES__CLIENT__RACK", "a\nb"),
    ];
    let (_, faults) = resolve(NEEDED, &wrong, &[]);
    let expected = ["text without NUL", "text without control characters", "text without control characters"];
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, allowed) in faults.iter().zip(expected) {
        assert!(fault.ends_with(&format!("allowed: {allowed}")), "{fault}");
    }
}

#[test]
fn the_effective_configuration_is_a_file_that_gives_the_same() {
    let file = format!(
        "{NEEDED}[fetcher]\nheaders.x-a = 'no \"secret\"'\nrobots_lifetime = '1h 1m'\n[rate_limiter]\nrate = 0.3\n"
    );
    let (settings, faults) = resolve(&file, &[], &[]);
    assert_eq!(faults, Vec::<String>::new());
    let (again, faults) = resolve(&effective(&settings), &[], &[]);
    assert_eq!(faults, Vec::<String>::new());
    for (path, setting) in settings.iter().filter(|(_, setting)| setting.key.is_read_by(ServiceId::Fetcher)) {
        let (_, other) = again.iter().find(|(other, _)| *other == path).unwrap();
        // Redacted secrets cannot be read back.
        assert!(other.value == setting.value || path.contains("headers"), "{path}");
    }
}

#[test]
fn a_file_may_serve_all_services_and_an_empty_variable_is_not_set() {
    let file = format!("{NEEDED}[extractor]\nhtml = true\n[frontier]\nmax_attempts = 5\n[state]\ndir = '/var/lib/x'\n");
    let (settings, faults) = resolve(&file, &[("ORBWEAVER_LOG__LEVEL", "")], &[]);
    assert_eq!(faults, Vec::<String>::new());
    let level = settings.iter().find(|(path, _)| *path == "log.level").unwrap().1;
    assert_eq!((&level.value, &level.origin), (&Value::Text("info".to_owned()), &Origin::Default));
    assert!(!effective(&settings).contains("max_attempts"), "what the fetcher does not read is not shown");
}

#[test]
fn each_service_lists_its_keys_and_its_port_is_its_own() {
    let mut ports = std::collections::BTreeSet::new();
    for service in ServiceId::ALL {
        let text = listed(service);
        assert!(text.contains("kafka.brokers  (ORBWEAVER_KAFKA__BROKERS)"), "{text}");
        assert!(text.contains(service.default_listen()) && ports.insert(service.default_listen()));
        assert_eq!(text.contains("cql.nodes"), matches!(service, ServiceId::Fetcher | ServiceId::Extractor));
        assert_eq!(
            text.contains("rate_limiter.rate"),
            !text.contains("extractor.html") && !text.contains("recent_entries")
        );
    }
}

/// Compares the table between the markers of a README with the keys; writes it if `ORBWEAVER_WRITE_DOCS` is set.
fn agree(readme: &str, sections: &[&str]) {
    let path = PathBuf::from("../..").join(readme);
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- configuration -->\n", "<!-- /configuration -->");
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{readme} has no `{}`", begin.trim()));
    let (there, after) = rest.split_once(end).unwrap_or_else(|| panic!("{readme} has no `{end}`"));
    let wanted = table(sections);
    if std::env::var_os("ORBWEAVER_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
    } else {
        assert_eq!(there, wanted, "{readme} is out of date: ORBWEAVER_WRITE_DOCS=1 cargo test -p orbweaver-process");
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
}

proptest! {
    #[test]
    fn no_file_and_no_environment_makes_it_panic(
        file in proptest::collection::vec(any::<u8>(), 0..400),
        names in proptest::collection::vec(("[A-Z_.]{0,20}", proptest::collection::vec(any::<u8>(), 0..40)), 0..4),
    ) {
        let environment = names.into_iter().map(|(name, value)| {
            (OsString::from(format!("ORBWEAVER_{name}")), OsString::from_vec(value.into_iter().filter(|b| *b != 0).collect()))
        });
        let inputs = Inputs { file: Some(("x.toml".into(), file)), environment: environment.collect(), flags: vec![] };
        let (given, faults) = inputs.read();
        let (settings, more) = Settings::resolve(ServiceId::Frontier, &given);
        let _ = (effective(&settings), faults.len() + more.len());
    }

    #[test]
    fn no_value_of_a_known_key_makes_it_panic_and_each_is_taken_or_named(
        at in 0..orbweaver_process::configuration::KEYS.len(),
        value in "\\PC{0,30}|[0-9]{1,30}[a-zA-Z/]{0,4}|-?[0-9.e]{1,12}(s|ms|MiB|/s)?",
        name in "\\PC{1,12}",
    ) {
        let key = &orbweaver_process::configuration::KEYS[at];
        let path = key.path().replace('*', &name);
        let flags = vec![("--set", path.clone(), value)];
        let (given, _) = Inputs { flags, ..Inputs::default() }.read();
        let (settings, faults) = Settings::resolve(ServiceId::Fetcher, &given);
        let taken = settings.iter().any(|(known, setting)| known == path && setting.origin != Origin::Default);
        prop_assert!(taken != faults.iter().any(|fault| fault.to_string().contains("(from --set)")), "{path}: {faults:?}");
        let _ = effective(&settings);
    }

    #[test]
    fn no_toml_of_any_shape_makes_it_panic(text in "(\\[[a-z_.]{1,12}\\]\n)?([a-z_.\"]{1,12} *= *[\\[{'\"0-9a-z,:=\\]}. -]{0,24}\n){0,6}") {
        let inputs = Inputs { file: Some(("x.toml".into(), text.into_bytes())), ..Inputs::default() };
        let _ = inputs.read();
    }
}
