//! The resolver against a name server of the test, on loopback.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::join_all;
use hickory_resolver::proto::{
    op::Message,
    rr::{
        RData,
        rdata::{CNAME, SOA},
    },
};
use tokio::{net::UdpSocket as Socket, sync::watch, task::JoinHandle, time::Instant};

use super::*;

/// Answer of the server to a query.
enum Reply {
    /// Records of the name in the query, with their TTL in seconds.
    Records(Vec<RData>, u32),
    /// These records.
    Chain(Vec<Record>),
    /// No record, with this code and negative TTL in seconds.
    None(ResponseCode, u32),
    Silence,
}

/// A name server, which notes its queries and may hold its answers back.
struct NameServer {
    address: SocketAddr,
    queries: Arc<Mutex<Vec<(String, RecordType)>>>,
    /// Number of queries that wait for their answers, and the most of them at once.
    waiting: Arc<(AtomicUsize, AtomicUsize)>,
    answers: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NameServer {
    async fn start(reply: impl Fn(&str, RecordType) -> Reply + Send + 'static) -> Self {
        let socket = Arc::new(Socket::bind("127.0.0.1:0").await.unwrap());
        let address = socket.local_addr().unwrap();
        let (queries, waiting) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<(AtomicUsize, AtomicUsize)>::default());
        let (answers, open) = watch::channel(true);
        let (noted, counted) = (queries.clone(), waiting.clone());
        let task = tokio::spawn(async move {
            let mut buffer = [0; 1500];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let query = Message::from_vec(&buffer[..length]).unwrap();
                let (name, family) = (query.queries[0].name().to_string(), query.queries[0].query_type());
                let answer = answer(&query, reply(&name, family));
                noted.lock().unwrap().push((name, family));
                let Some(answer) = answer else { continue };
                let (socket, mut open, counted) = (socket.clone(), open.clone(), counted.clone());
                tokio::spawn(async move {
                    counted.1.fetch_max(counted.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    open.wait_for(|open| *open).await.unwrap();
                    counted.0.fetch_sub(1, Ordering::SeqCst);
                    socket.send_to(&answer, from).await.unwrap();
                });
            }
        });
        Self { address, queries, waiting, answers, task }
    }

    fn config(&self) -> FetcherConfig {
        FetcherConfig {
            dns_servers: Some(vec![self.address.to_string()]),
            dns_min_ttl: Duration::ZERO,
            dns_min_negative_ttl: Duration::ZERO,
            ..FetcherConfig::default()
        }
    }

    fn resolver(&self) -> Resolver {
        // Whether the machine of the test has a route for IPv4 does not matter.
        Resolver { families: [RecordType::A, RecordType::AAAA], ..Resolver::new(&self.config()).unwrap() }
    }

    fn queries(&self, name: &str, family: RecordType) -> usize {
        let queries = self.queries.lock().unwrap();
        queries.iter().filter(|(asked, of)| asked == name && *of == family).count()
    }
}

fn answer(query: &Message, reply: Reply) -> Option<Vec<u8>> {
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    let name = query.queries[0].name().clone();
    message.queries.clone_from(&query.queries);
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    match reply {
        Reply::Records(data, ttl) => {
            message.answers = data.into_iter().map(|data| Record::from_rdata(name.clone(), ttl, data)).collect();
        }
        Reply::Chain(records) => message.answers = records,
        Reply::None(code, ttl) => {
            message.metadata.response_code = code;
            let soa = SOA::new(of("ns.example."), of("ops.example."), 1, 1, 1, 1, ttl);
            message.authorities.push(Record::from_rdata(of("example."), ttl, RData::SOA(soa)));
        }
        Reply::Silence => return None,
    }
    Some(message.to_vec().unwrap())
}

fn of(name: &str) -> Name {
    Name::from_ascii(name).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn data(address: &str) -> RData {
    ip(address).into()
}

/// An address that may be dialled, and another one.
const PUBLIC: &str = "93.184.216.34";
const OTHER: &str = "93.184.216.35";
const PUBLIC_V6: &str = "2606:2800:21f:cb07:6820:80da:af6b:8b2c";

async fn v4_only(ttl: u32) -> NameServer {
    NameServer::start(move |_, family| match family {
        RecordType::A => Reply::Records(vec![data(PUBLIC)], ttl),
        _ => Reply::None(ResponseCode::NoError, ttl),
    })
    .await
}

async fn without(code: ResponseCode, ttl: u32) -> NameServer {
    NameServer::start(move |_, _| Reply::None(code, ttl)).await
}

/// Looks a name up until the server has received this number of queries for it.
async fn asked_again(server: &NameServer, resolver: &Resolver, queries: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.queries("a.example.", RecordType::A) < queries {
        assert!(Instant::now() < deadline, "the answer is still cached");
        drop(resolver.look_up("a.example", None).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_address_is_cached_for_its_ttl_and_then_looked_up_again() {
    let server = v4_only(3600).await;
    let resolver = server.resolver();
    for name in ["a.example", "A.example", "a.example.", "a.example"] {
        assert_eq!(resolver.look_up(name, None).await.unwrap(), [ip(PUBLIC)]);
    }
    assert_eq!(server.queries("a.example.", RecordType::A), 1);
    assert_eq!(server.queries("a.example.", RecordType::AAAA), 0, "an address of one family is enough");

    let server = v4_only(1).await;
    asked_again(&server, &server.resolver(), 3).await;
}

#[tokio::test]
async fn the_ttl_of_an_address_is_bounded_on_both_sides() {
    let server = v4_only(0).await;
    let config = FetcherConfig { dns_min_ttl: Duration::from_hours(1), ..server.config() };
    let resolver = Resolver::new(&config).unwrap();
    for _ in 0..3 {
        resolver.look_up("a.example", None).await.unwrap();
    }
    assert_eq!(server.queries("a.example.", RecordType::A), 1);

    let server = v4_only(3600).await;
    let resolver = Resolver::new(&FetcherConfig { dns_max_ttl: Duration::from_secs(1), ..server.config() }).unwrap();
    asked_again(&server, &resolver, 2).await;
}

#[tokio::test]
async fn that_a_name_does_not_exist_is_cached_for_its_negative_ttl_which_is_bounded() {
    let server = without(ResponseCode::NXDomain, 3600).await;
    let resolver = server.resolver();
    for _ in 0..3 {
        let error = resolver.look_up("a.example", None).await.unwrap_err();
        assert!(matches!(error, ResolveError::Unknown(_)), "{error}");
    }
    assert_eq!(server.queries("a.example.", RecordType::A), 1);
    assert_eq!(server.queries("a.example.", RecordType::AAAA), 0, "it has no address of another family");

    let server = without(ResponseCode::NXDomain, 1).await;
    asked_again(&server, &server.resolver(), 2).await;
    let config = FetcherConfig { dns_min_negative_ttl: Duration::from_hours(1), ..server.config() };
    let (resolver, before) = (Resolver::new(&config).unwrap(), server.queries("a.example.", RecordType::A));
    for _ in 0..3 {
        drop(resolver.look_up("a.example", None).await);
    }
    assert_eq!(server.queries("a.example.", RecordType::A), before + 1);

    let server = without(ResponseCode::NXDomain, 3600).await;
    let config = FetcherConfig { dns_max_negative_ttl: Duration::from_secs(1), ..server.config() };
    asked_again(&server, &Resolver::new(&config).unwrap(), 2).await;
}

#[tokio::test]
async fn only_an_answer_of_the_name_servers_says_that_there_is_no_such_host() {
    for (code, is_final) in [
        (ResponseCode::NXDomain, true),
        (ResponseCode::NoError, true),
        (ResponseCode::ServFail, false),
        (ResponseCode::Refused, false),
    ] {
        let server = without(code, 3600).await;
        let resolver = server.resolver();
        let error = resolver.look_up("a.example", None).await.unwrap_err();
        assert_eq!(matches!(error, ResolveError::Unknown(_)), is_final, "{code}: {error}");
        let failure = if is_final { FetchError::UnknownHost } else { FetchError::Dns };
        assert_eq!(error.failure(), failure);
        let before = server.queries("a.example.", RecordType::A);
        drop(resolver.look_up("a.example", None).await);
        assert_eq!(server.queries("a.example.", RecordType::A) == before, is_final, "a failure is not cached");
    }
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_holds_a_lookup_up_for_a_limited_time() {
    let silent = NameServer::start(|_, _| Reply::Silence).await;
    let config = FetcherConfig { dns_timeout: Duration::from_millis(300), ..silent.config() };
    let resolver = Resolver::new(&config).unwrap();
    let error = timeout(Duration::from_secs(30), resolver.look_up("a.example", None)).await.unwrap().unwrap_err();
    assert!(matches!(error, ResolveError::Failed(_)), "{error}");
    // With another server the name is found.
    let server = v4_only(60).await;
    let servers = vec![silent.address.to_string(), server.address.to_string()];
    let resolver = Resolver::new(&FetcherConfig { dns_servers: Some(servers), ..config }).unwrap();
    assert_eq!(resolver.look_up("a.example", None).await.unwrap(), [ip(PUBLIC)]);
}

#[tokio::test]
async fn an_alias_leads_to_the_addresses_of_its_target() {
    let alias = || Record::from_rdata(of("a.example."), 60, RData::CNAME(CNAME(of("b.example."))));
    let target = || Record::from_rdata(of("b.example."), 60, data(PUBLIC));
    let at_once = NameServer::start(move |_, _| Reply::Chain(vec![alias(), target()])).await;
    let in_turn = NameServer::start(move |name, _| match name {
        "a.example." => Reply::Chain(vec![alias()]),
        _ => Reply::Chain(vec![target()]),
    })
    .await;
    for server in [at_once, in_turn] {
        assert_eq!(server.resolver().look_up("a.example", None).await.unwrap(), [ip(PUBLIC)]);
    }
}

#[tokio::test]
async fn only_public_addresses_are_returned_and_a_name_with_others_only_is_refused() {
    let server = NameServer::start(|name, family| match (name, family) {
        ("mixed.example.", RecordType::A) => {
            Reply::Records(vec![data("10.0.0.1"), data(PUBLIC), data("127.0.0.1")], 60)
        }
        ("v6.example.", RecordType::AAAA) => Reply::Records(vec![data("::1"), data(PUBLIC_V6)], 60),
        (_, RecordType::A) => Reply::Records(vec![data("169.254.169.254"), data("127.0.0.1")], 60),
        _ => Reply::Records(vec![data("fe80::1"), data("::ffff:10.0.0.1")], 60),
    })
    .await;
    let resolver = server.resolver();
    assert_eq!(resolver.look_up("mixed.example", None).await.unwrap(), [ip(PUBLIC)]);
    assert_eq!(resolver.look_up("v6.example", None).await.unwrap(), [ip(PUBLIC_V6)]);
    for name in ["private.example", "localhost", "any.LOCALHOST."] {
        let error = resolver.look_up(name, None).await.unwrap_err();
        assert!(matches!(error, ResolveError::Private { .. }), "{name}: {error}");
        assert_eq!(error.failure(), FetchError::Private);
    }
    let resolver = Resolver::new(&FetcherConfig { allow_private: true, ..server.config() }).unwrap();
    assert!(resolver.look_up("private.example", None).await.unwrap().contains(&ip("127.0.0.1")));
}

#[tokio::test]
async fn addresses_of_permitted_networks_are_returned_with_the_public_ones_and_no_others() {
    let server = NameServer::start(|name, family| match (name, family) {
        ("intranet.example.", RecordType::A) => Reply::Records(vec![data("192.168.0.1"), data("10.1.2.3")], 60),
        ("mixed.example.", RecordType::A) => Reply::Records(vec![data("10.1.2.3"), data(PUBLIC)], 60),
        (_, RecordType::A) => Reply::Records(vec![data("192.168.0.1"), data("169.254.169.254")], 60),
        _ => Reply::Records(vec![data("fd00::1"), data("::1")], 60),
    })
    .await;
    let networks = ["10.0.0.0/8", "127.0.0.0/8"].map(str::to_owned).to_vec();
    let resolver = Resolver {
        families: [RecordType::A, RecordType::AAAA],
        ..Resolver::new(&FetcherConfig { allow_networks: networks.into(), ..server.config() }).unwrap()
    };
    assert_eq!(resolver.look_up("intranet.example", None).await.unwrap(), [ip("10.1.2.3")]);
    assert_eq!(resolver.look_up("mixed.example", None).await.unwrap(), [ip("10.1.2.3"), ip(PUBLIC)]);
    assert_eq!(resolver.look_up("localhost", None).await.unwrap(), [ip("127.0.0.1")]);
    let error = resolver.look_up("other.example", None).await.unwrap_err();
    assert_eq!(error.failure(), FetchError::Private, "{error}");
}

#[tokio::test]
async fn a_public_name_with_the_address_of_this_machine_is_refused_whatever_its_spelling() {
    let server = NameServer::start(|_, family| match family {
        RecordType::A => Reply::Records(vec![data("127.0.0.1")], 60),
        _ => Reply::Records(vec![data("::1")], 60),
    })
    .await;
    let rows = std::fs::read_to_string("tests/hostile/vectors/urls.jsonl").unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let urls = rows.filter(|row| row["category"] == "names").map(|row| row["url"].as_str().unwrap().to_owned());
    let urls: Vec<String> = urls.collect();
    assert_eq!(urls.len(), 16);
    let resolver = server.resolver();
    for url in urls {
        let url = orbweaver_url::parse(&url).unwrap();
        let error = resolver.look_up(url.domain().unwrap(), None).await.unwrap_err();
        assert_eq!(error.failure(), FetchError::Private, "{url}: {error}");
    }
    assert_eq!(server.queries("localtest.me.", RecordType::A), 1);
}

#[tokio::test]
async fn an_alias_of_itself_is_a_failure_and_of_many_addresses_a_few_are_used() {
    let server = NameServer::start(|name, family| match (name, family) {
        ("many.example.", RecordType::A) => {
            Reply::Records((1..=60).map(|last| data(&format!("93.184.216.{last}"))).collect(), 60)
        }
        ("a.example.", _) => {
            Reply::Chain(vec![Record::from_rdata(of("a.example."), 60, RData::CNAME(CNAME(of("b.example."))))])
        }
        ("b.example.", _) => {
            Reply::Chain(vec![Record::from_rdata(of("b.example."), 60, RData::CNAME(CNAME(of("a.example."))))])
        }
        _ => Reply::None(ResponseCode::NoError, 60),
    })
    .await;
    let resolver = server.resolver();
    assert_eq!(resolver.look_up("many.example", None).await.unwrap().len(), MAX_ADDRESSES);
    let looped = timeout(Duration::from_secs(30), resolver.look_up("a.example", None)).await.unwrap();
    assert!(looped.is_err(), "{looped:?}");
    assert!(server.queries("a.example.", RecordType::A) < 20);
}

#[tokio::test]
async fn an_address_to_be_avoided_comes_last_and_the_other_family_before_it() {
    let server = NameServer::start(|name, family| match (name, family) {
        ("two.example.", RecordType::A) => Reply::Records(vec![data(PUBLIC), data(OTHER)], 60),
        (_, RecordType::A) => Reply::Records(vec![data(PUBLIC)], 60),
        ("both.example.", RecordType::AAAA) => Reply::Records(vec![data(PUBLIC_V6)], 60),
        _ => Reply::None(ResponseCode::NoError, 60),
    })
    .await;
    let resolver = server.resolver();
    let avoid = Some(ip(PUBLIC));
    assert_eq!(resolver.look_up("two.example", avoid).await.unwrap(), [ip(OTHER), ip(PUBLIC)]);
    assert_eq!(resolver.look_up("both.example", avoid).await.unwrap(), [ip(PUBLIC_V6), ip(PUBLIC)]);
    assert_eq!(resolver.look_up("one.example", avoid).await.unwrap(), [ip(PUBLIC)]);
}

#[tokio::test]
async fn names_that_do_not_exist_take_no_more_of_the_cache_than_configured() {
    const NAMES: usize = 5000;
    let server = NameServer::start(|_, _| Reply::None(ResponseCode::NXDomain, 600)).await;
    let again = async |dns_cache_entries: u64| {
        let minute = Duration::from_mins(1);
        let config = FetcherConfig { dns_cache_entries, dns_min_negative_ttl: minute, ..server.config() };
        let resolver = Resolver::new(&config).unwrap();
        let pass = async || {
            server.queries.lock().unwrap().clear();
            let names = (0..NAMES).map(|number| format!("h{number}.example"));
            let found = join_all(names.map(async |name| resolver.look_up(&name, None).await)).await;
            assert!(found.iter().all(|found| matches!(found, Err(ResolveError::Unknown(_)))));
            server.queries.lock().unwrap().len()
        };
        assert_eq!(pass().await, NAMES);
        NAMES - pass().await
    };
    assert_eq!(again(2 * NAMES as u64).await, NAMES, "all answers were cached");
    let cached = again(100).await;
    assert!(cached <= 200, "{cached} answers were cached");
}

#[tokio::test]
async fn no_more_lookups_than_configured_run_at_once() {
    let server = v4_only(60).await;
    let config = FetcherConfig { dns_concurrency: 4, dns_timeout: Duration::from_secs(30), ..server.config() };
    let resolver = Resolver::new(&config).unwrap();
    server.answers.send_replace(false);
    let names: Vec<String> = (0..40).map(|number| format!("h{number}.example")).collect();
    let lookups = join_all(names.iter().map(|name| resolver.look_up(name, None)));
    let opens = async {
        while server.waiting.0.load(Ordering::SeqCst) < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.answers.send_replace(true);
    };
    let (found, ()) = timeout(Duration::from_secs(30), async { tokio::join!(lookups, opens) }).await.unwrap();
    assert!(found.into_iter().all(|found| found.unwrap() == [ip(PUBLIC)]));
    assert_eq!(server.waiting.1.load(Ordering::SeqCst), 4);
    let asked: HashSet<String> = server.queries.lock().unwrap().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(asked.len(), names.len());
}

#[tokio::test]
async fn a_name_that_dns_cannot_hold_is_unknown_and_localhost_is_loopback_without_a_query() {
    let server = v4_only(60).await;
    let resolver = Resolver::new(&FetcherConfig { allow_private: true, ..server.config() }).unwrap();
    for name in ["exmaple..com", &"a".repeat(64)] {
        let error = resolver.look_up(name, None).await.unwrap_err();
        assert!(matches!(error, ResolveError::Unknown(_)), "{error}");
    }
    assert_eq!(resolver.look_up("anything.LOCALHOST.", None).await.unwrap(), [ip("127.0.0.1"), ip("::1")]);
    assert!(server.queries.lock().unwrap().is_empty());
}

#[test]
fn a_machine_without_name_servers_is_its_own() {
    let error = || NetError::Message("no such file");
    let (servers, _) = of_system(Err(error()));
    let fallback = &servers.name_servers()[0];
    assert_eq!((fallback.ip, fallback.connections[0].port), (ip("127.0.0.1"), 53));
}
