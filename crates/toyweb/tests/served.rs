//! Tests of the served web, walked by a client independent of the generator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_toyweb::{Fate, Kind, Logging, Serving, ToyWeb, WebConfig};
use regex::Regex;
use url::Url;

/// Response as read by a minimal test client.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

/// Sends a GET on a new connection; named hosts are distinguished only by the Host header.
fn get(url: &Url, cookie: &str) -> Result<Answer> {
    let port = url.port().context("a port")?;
    let host = url.host_str().context("a host")?;
    let address = if host.ends_with(".localhost") { "127.0.0.1" } else { host };
    let mut stream = TcpStream::connect((address, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {host}:{port}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).context("no answer")?.parse()?;
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    if let Some(length) = headers.get("content-length") {
        ensure!(body.len() == length.parse::<usize>()?, "{} bytes of {length}", body.len());
    }
    Ok(Answer { status, headers, body: String::from_utf8(body)? })
}

/// Returns the links of a page that a crawler follows, found by regular expressions.
fn links(url: &Url, answer: &Answer) -> Result<Vec<Url>> {
    let body = &answer.body;
    let nofollow = Regex::new("(?i)<meta name=\"robots\" content=\"[^\"]*nofollow")?.is_match(body);
    if nofollow || answer.headers.get("x-robots-tag").is_some_and(|value| value.contains("nofollow")) {
        return Ok(Vec::new());
    }
    let base = Regex::new("<base href=\"([^\"]*)\"")?.captures(body).map(|found| url.join(&found[1])).transpose()?;
    let base = base.as_ref().unwrap_or(url);
    let hrefs = Regex::new("<(?:a|area|iframe|frame) (?:href|src)=\"([^\"]*)\"|URL='([^']*)'\"")?;
    let mut found = Vec::new();
    for capture in hrefs.captures_iter(body) {
        let reference = capture.get(1).or(capture.get(2)).context("a group")?.as_str().replace("&amp;", "&");
        let mut link = base.join(&reference)?;
        link.set_fragment(None);
        link.set_path(&link.path().replace("%7E", "~"));
        found.push(link);
    }
    Ok(found)
}

/// Walks the served web; returns the last status of each URL and whether it was HTML.
fn walk(start: &str) -> Result<BTreeMap<String, Option<(u16, bool)>>> {
    let start = Url::parse(start)?;
    let mut met = BTreeMap::from([(start.to_string(), None)]);
    let mut todo = VecDeque::from([start]);
    while let Some(url) = todo.pop_front() {
        let mut end = None;
        for attempt in 0..4 {
            let cookie = if attempt == 0 { "" } else { "wall=passed" };
            let Ok(answer) = get(&url, cookie) else { continue };
            let html = answer.headers.get("content-type").is_some_and(|value| value.starts_with("text/html"));
            end = Some((answer.status, html));
            let mut next = links(&url, &answer)?;
            let target = answer.headers.get("location").map(|location| url.join(location)).transpose()?;
            let turned = target
                .as_ref()
                .is_some_and(|target| target.path().replace("%7E", "~") == url.path() && target.query() == url.query());
            next.extend(target.filter(|_| !turned));
            for link in next {
                if !met.contains_key(link.as_str()) {
                    met.insert(link.to_string(), None);
                    todo.push_back(link);
                }
            }
            if answer.status < 400 && !turned || matches!(answer.status, 404 | 410) {
                break;
            }
        }
        met.insert(url.to_string(), end);
    }
    Ok(met)
}

#[test]
fn the_truth_of_a_plain_web_is_what_a_walk_of_the_served_pages_reaches() -> Result<()> {
    for (seed, links) in [(1, 30), (2, 2), (3, 5)] {
        let config = WebConfig {
            seed,
            links,
            pages: 400,
            bytes: 2_000,
            address_hosts: 3,
            named_hosts: 3,
            ..WebConfig::default()
        };
        let web = ToyWeb::start(config, &Serving::default())?;
        let truth: BTreeSet<_> = web.truth().into_iter().map(|expected| expected.url).collect();
        let met = walk(web.start_url())?;
        ensure!(met.values().all(|end| *end == Some((200, true))), "every page is answered");
        ensure!(met.into_keys().collect::<BTreeSet<_>>() == truth, "seed {seed}");
    }
    Ok(())
}

#[test]
fn the_truth_of_every_special_place_is_what_the_server_does() -> Result<()> {
    let config = WebConfig {
        pages: 60,
        bytes: 3_000,
        address_hosts: 5,
        named_hosts: 4,
        named_sites: 2,
        slow_ms: 20,
        ..WebConfig::default()
    };
    let web = ToyWeb::start(config.with_every_special(4), &Serving::default())?;
    let (mut met, mut fates) = (walk(web.start_url())?, BTreeSet::new());
    for expected in web.truth() {
        let end = met.remove(&expected.url);
        fates.insert(expected.fate);
        let fits = match expected.fate {
            Fate::Fetched if expected.kind == Some(Kind::Respelled) => matches!(end, Some(Some((301, _)))),
            Fate::Fetched | Fate::OutOfScope | Fate::RefusedByRobots => end == Some(Some((200, true))),
            // The walk follows chains to their end; a crawler does not.
            Fate::Unreached if expected.kind == Some(Kind::LongChain) => end.is_some(),
            Fate::Redirected | Fate::Circling => matches!(end, Some(Some((301..=308, _)))),
            Fate::NotHtml => end == Some(Some((200, false))),
            Fate::Gone => matches!(end, Some(None | Some((404 | 410 | 500, _)))),
            Fate::Cut => end == Some(None),
            Fate::BehindNofollow => end.is_none() && get(&Url::parse(&expected.url)?, "")?.status == 200,
            Fate::Unreached => end.is_none(),
        };
        ensure!(fits, "{expected:?}: {end:?}");
    }
    ensure!(fates.len() == 10, "not every fate: {fates:?}");
    ensure!(met.is_empty(), "met, but not in the truth: {met:?}");
    Ok(())
}

#[test]
fn a_reset_place_resets_the_connection_and_leaves_the_server_standing() -> Result<()> {
    let config = WebConfig { specials: [(Kind::Reset, 1)].into(), ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { logging: Logging::Memory(10), ..Serving::default() })?;
    let base = Url::parse(web.start_url())?;
    let mut stream = TcpStream::connect(("127.0.1.1", base.port().context("a port")?))?;
    write!(stream, "GET /x/reset/0/page HTTP/1.1\r\nhost: 127.0.1.1\r\n\r\n")?;
    let error = stream.read(&mut [0; 10]).err().context("an answer came")?;
    ensure!(error.kind() == std::io::ErrorKind::ConnectionReset, "{error}");
    ensure!(get(&base, "")?.status == 200);
    let statuses: Vec<_> = web.log().entries().iter().map(|entry| entry.status).collect();
    ensure!(statuses == [0, 200], "{statuses:?}");
    Ok(())
}

#[test]
fn the_log_tells_who_asked_for_what_in_order() -> Result<()> {
    let serving = Serving { logging: Logging::Memory(100), ..Serving::default() };
    let web = ToyWeb::start(WebConfig::default(), &serving)?;
    let start = Url::parse(web.start_url())?;
    get(&start, "")?;
    get(&start.join("/nowhere")?, "")?;
    let entries = web.log().entries();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.target.as_str(), entry.status)).collect();
    ensure!(seen == [("/", 200), ("/nowhere", 404)], "{seen:?}");
    ensure!(entries[0].at_us < entries[1].at_us && entries[0].epoch_us < entries[1].epoch_us);
    ensure!(entries[0].host == format!("127.0.1.1:{}", web.address().port()));
    ensure!(web.log().count() == 2);
    Ok(())
}

#[test]
fn a_directory_is_served_with_its_types_and_directories_redirect_to_their_own_url() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::create_dir(dir.path().join("a b"))?;
    std::fs::write(dir.path().join("a b/index.html"), "<p>hello</p>")?;
    std::fs::write(dir.path().join("plain.txt"), "text")?;
    let web = ToyWeb::start_directory(dir.path(), &Serving::default())?;
    let start = Url::parse(web.start_url())?;
    let ask = |path: &str| get(&start.join(path)?, "");
    ensure!(ask("/a%20b")?.headers["location"] == "/a%20b/");
    ensure!(ask("/a%20b/?x=1")?.body == "<p>hello</p>");
    ensure!(ask("/a%20b/index.html")?.headers["content-type"] == "text/html");
    ensure!(ask("/plain.txt")?.headers["content-type"] == "text/plain");
    ensure!(ask("/none")?.status == 404 && ask("/")?.status == 404);
    Ok(())
}

#[test]
fn the_same_port_cannot_be_served_twice() -> Result<()> {
    let web = ToyWeb::start(WebConfig::default(), &Serving::default())?;
    let port = web.address().port();
    let serving = Serving { port, ..Serving::default() };
    let error = ToyWeb::start(WebConfig::default(), &serving).err().context("it started")?.to_string();
    ensure!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    web.stop();
    ToyWeb::start(WebConfig::default(), &serving)?;
    Ok(())
}
