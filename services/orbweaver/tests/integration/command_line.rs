//! Help, colours, and messages that name settings, of the real command.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

/// Start of an ANSI escape sequence.
const ESCAPE: u8 = 0x1b;

/// Returns a program in the environment of a user whose terminal has colours, with no preference and no configuration.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORBWEAVER_")) {
        command.env_remove(name);
    }
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").stdin(Stdio::null());
    command
}

fn orbweaver(arguments: &[&str], dir: &Path) -> Output {
    program(env!("CARGO_BIN_EXE_orbweaver")).args(arguments).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn nothing_is_coloured_in_a_pipe_or_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], i32); 7] = [
        (&["--help"], 0),
        (&["crawl", "--help"], 0),
        (&["crawl", "--no-such-option"], 64),
        (&["crawl", "--header", "no colon", "http://example.org/"], 64),
        (&["crawl", "--demo", "--max-pages", "3", "--out", "demo"], 0),
        (&["export", "demo", "--to", "shards"], 0),
        (&["export", "demo", "--to", "shards", "--status", "404"], 64),
    ];
    for (arguments, code) in cases {
        let output = orbweaver(arguments, dir.path());
        let said = [&*output.stdout, &*output.stderr].concat();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&said));
        assert!(!said.is_empty() && !said.contains(&ESCAPE), "{arguments:?}: {:?}", text(&said));
    }
    let log = std::fs::read(dir.path().join("demo/orbweaver.log")).unwrap();
    assert!(!log.contains(&ESCAPE), "{:?}", text(&log));
}

#[test]
fn a_closed_stderr_changes_neither_the_end_of_a_command_nor_its_results() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases: Vec<(&[&str], i32)> = vec![
        (&["crawl", "--no-such-option"], 64),
        (&["extract", "--base", "http://example.org/", "no-such-file"], 66),
        (&["crawl", "--demo", "--max-pages", "3", "--out", "demo"], 0),
    ];
    if cfg!(feature = "cluster") {
        // The client of the broker logs why it cannot connect.
        cases.push((&["crawls", "list", "--brokers", "127.0.0.1:9"], 74));
    }
    for (arguments, code) in cases {
        let mut command = program(env!("CARGO_BIN_EXE_orbweaver"));
        let (_, closed) = std::io::pipe().unwrap();
        let status = command.args(arguments).current_dir(dir.path()).stdout(Stdio::null()).stderr(closed).status();
        assert_eq!(status.unwrap().code(), Some(code), "{arguments:?}");
    }
    assert!(dir.path().join("demo/summary.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colours_unless_it_refuses_them() {
    let dir = tempfile::tempdir().unwrap();
    // `script` runs a command on a terminal of its own, and copies what it shows.
    let shown = |options: &str, refused: &str| {
        let line = format!("{} {options}", env!("CARGO_BIN_EXE_orbweaver"));
        let mut script = program("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("NO_COLOR", refused);
        let output = script.current_dir(dir.path()).output().unwrap();
        (output.status.code(), output.stdout)
    };
    for (options, code) in [("--help", 0), ("crawl --no-such-option", 64)] {
        let (ended, coloured) = shown(options, "");
        assert_eq!(ended, Some(code), "{}", text(&coloured));
        assert!(coloured.contains(&ESCAPE), "{options}: {:?}", text(&coloured));
        let (ended, plain) = shown(options, "1");
        assert_eq!(ended, Some(code), "{}", text(&plain));
        assert!(!plain.is_empty() && !plain.contains(&ESCAPE), "{options}: {:?}", text(&plain));
    }
}

#[cfg(feature = "cluster")]
mod cluster {
    use std::collections::BTreeSet;

    use clap::{Arg, Args as _, CommandFactory as _};
    use orbweaver::{
        cli::{CLUSTER_HEADING, Cli},
        cluster::args::Kafka,
    };
    use orbweaver_process::{
        configuration::{Inputs, Settings},
        configure,
    };

    use super::{orbweaver, text};

    fn option(arg: &Arg) -> String {
        let short = || format!("-{}", arg.get_short().unwrap());
        arg.get_long().map_or_else(short, |long| format!("--{long}"))
    }

    #[test]
    fn the_options_for_a_cluster_have_a_heading_of_their_own_in_the_help() {
        let command = Cli::command();
        let crawl = command.find_subcommand("crawl").unwrap();
        let kafka = Kafka::augment_args(clap::Command::new("kafka"));
        let own = ["--brokers", "--cql", "--keyspace", "--cql-replication", "--crawl"].map(str::to_owned);
        let of_cluster: BTreeSet<String> = kafka.get_arguments().map(option).chain(own).collect();
        let headed = crawl.get_arguments().filter(|arg| arg.get_help_heading() == Some(CLUSTER_HEADING));
        assert_eq!(headed.map(option).collect::<BTreeSet<_>>(), of_cluster);
    }

    #[test]
    fn an_option_that_the_services_have_as_a_setting_names_one_that_exists() {
        let options = [
            ("--concurrency", Some("2")),
            ("--allow-private", None),
            ("--allow-network", Some("10.0.0.0/8")),
            ("--ca-file", Some("authorities.pem")),
            ("--follow-nofollow", None),
            ("--header", Some("X-Api-Key: x")),
        ];
        let inputs = Inputs::default();
        let services: [Settings; 2] = [
            configure::<orbweaver_fetcher::service::FetcherService>(&inputs).1,
            configure::<orbweaver_extractor::service::ExtractorService>(&inputs).1,
        ];
        let keys = services.iter().flat_map(Settings::keys);
        let known: BTreeSet<String> = keys.map(|key| key.path().trim_end_matches(".*").to_owned()).collect();
        for (option, value) in options {
            let base = ["crawl", "http://example.org/", "--brokers", "127.0.0.1:9", option];
            let arguments: Vec<&str> = base.into_iter().chain(value).collect();
            let output = orbweaver(&arguments, std::path::Path::new("."));
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{option}: {said}");
            let names_one = said.split('`').skip(1).step_by(2).any(|named| known.contains(named));
            assert!(said.contains(option) && names_one, "{option}: {said}");
        }
    }

    #[test]
    fn a_setting_of_a_crawl_that_cannot_be_used_is_refused_before_the_brokers_are_contacted() {
        let commands: [&[&str]; 3] =
            [&["crawls", "create", "docs"], &["crawls", "set", "docs"], &["crawl", "http://example.org/"]];
        for (option, value) in [
            ("--user-agent", "/1"),
            ("--contact", ""),
            ("--header", "Host: x"),
            ("--rate", "11"),
            ("--include", "("),
            ("--order", "depth=0%"),
            ("--revisit", "1ms..2ms"),
        ] {
            for command in commands {
                let arguments = [command, &["--brokers", "127.0.0.1:9", option, value]].concat();
                let output = orbweaver(&arguments, std::path::Path::new("."));
                let said = text(&output.stderr);
                assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
                assert!(said.contains(option), "{arguments:?}: {said}");
            }
        }
    }
}

/// Serves a store without buckets, and returns its URL. Its thread ends with the process.
fn store_without_buckets() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let request = BufReader::new(&stream).lines().map_while(Result::ok);
            request.take_while(|line| !line.is_empty()).for_each(drop);
            let body = "<Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>";
            let head = format!("content-length: {}\r\nconnection: close", body.len());
            let _ = write!(&stream, "HTTP/1.1 404 Not Found\r\n{head}\r\n\r\n{body}");
        }
    });
    url
}

#[test]
fn an_archive_that_cannot_be_uploaded_is_refused_before_the_crawl_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_without_buckets();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let settings = [("AWS_ENDPOINT_URL", &*store), ("AWS_ALLOW_HTTP", "true"), credentials[0], credentials[1]];
    for (settings, option, code, expected) in [
        (
            &settings[..],
            "--warc=s3://archive/web",
            73,
            "s3://archive/web: cannot list the objects: there is no such bucket",
        ),
        (&settings[..3], "--warc=s3://archive/web", 64, "--warc: AWS_SECRET_ACCESS_KEY is not set"),
        (&settings[..1], "--warc=s3://archive/web", 64, "--warc: AWS_ENDPOINT_URL: http:// requires"),
        (&settings[..], "--warc=", 64, "expected `s3://bucket/prefix`"),
    ] {
        let mut command = program(env!("CARGO_BIN_EXE_orbweaver"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(["crawl", "http://127.0.0.1:1/", "--out", "web", option]).envs(settings.iter().copied());
        let output = command.current_dir(dir.path()).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{option}: {said}");
        assert_eq!(output.status.code(), Some(code), "{option}: {said}");
        assert!(!dir.path().join("web").exists(), "{option}");
    }
}

#[test]
fn a_wrong_time_is_answered_with_the_option_and_an_allowed_form() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["crawl", "--max-time", "fast"], "'--max-time <TIME>': expected a duration, such as"),
        (&["report", "links", "web", "--slow", "fast"], "'--slow <TIME>': expected a duration, such as"),
        (
            &["export", "web", "--to", "out", "--since", "2027-02-01", "--until", "2027-01-01"],
            "--since 2027-02-01T00:00:00Z --until 2027-01-01T00:00:00Z: no result is in this time",
        ),
    ];
    for (arguments, expected) in cases {
        let output = orbweaver(arguments, dir.path());
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
    }
}
