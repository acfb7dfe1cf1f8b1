//! The crawl next to the API, with scripted controls; and the files of the console.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Body, http::Request};
use futures::future::{BoxFuture, FutureExt as _};
use orbweaver_store::MemoryStore;
use orbweaver_url::Policy;
use orbweaver_urlstore::{
    Api, Sources, UrlstoreConfig, UrlstoreMetrics,
    live::{
        Action, Blocked, Controls, CrawlState, DeadLettersAnswer, LiveCrawl, Overview, SettingsAnswer, SiteChange,
        SiteSetting,
    },
    problem::{Kind, Problem},
    router,
};
use serde_json::json;
use tokio::sync::watch;

use crate::world::{config, get, request, send};

/// Controls that record the calls, or fail.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) calls: Mutex<Vec<String>>,
    is_down: bool,
}

impl Scripted {
    fn answer<T: Send + 'static>(&self, call: String, answer: T) -> BoxFuture<'_, Result<T, Problem>> {
        self.calls.lock().unwrap().push(call);
        let down = Problem::new(Kind::Unavailable, "the log is closed");
        std::future::ready(if self.is_down { Err(down) } else { Ok(answer) }).boxed()
    }
}

impl Controls for Scripted {
    fn act(&self, action: Action) -> BoxFuture<'_, Result<(), Problem>> {
        self.answer(format!("{action:?}"), ())
    }

    fn site(&self, site: String) -> BoxFuture<'_, Result<SiteSetting, Problem>> {
        let setting = SiteSetting { site: site.clone(), frozen: false, requests_per_second: None, changed_at: None };
        self.answer(format!("site {site}"), setting)
    }

    fn change_site(&self, site: String, change: SiteChange) -> BoxFuture<'_, Result<SiteSetting, Problem>> {
        let SiteChange { frozen, requests_per_second } = change;
        let changed_at = Some("1970-01-01T00:00:00.000Z".to_owned());
        let call = format!("{site} {frozen} {requests_per_second:?}");
        self.answer(call, SiteSetting { site, frozen, requests_per_second, changed_at })
    }

    fn dead_letters(&self, cursor: Option<String>, limit: usize) -> BoxFuture<'_, Result<DeadLettersAnswer, Problem>> {
        let call = format!("dead letters {cursor:?} {limit}");
        self.answer(call, DeadLettersAnswer { dead_letters: vec![json!({"id": "0:7"})], next: Some("7-0".to_owned()) })
    }

    fn settings(&self) -> BoxFuture<'_, Result<SettingsAnswer, Problem>> {
        self.answer("settings".to_owned(), SettingsAnswer { settings: vec![] })
    }
}

fn overview(state: CrawlState, queued: u64) -> Arc<Overview> {
    Arc::new(Overview {
        name: "a.example".to_owned(),
        crawl: "default".to_owned(),
        state,
        ended_by: None,
        version: "0".to_owned(),
        started_at: None,
        now: "1970-01-01T00:00:00.000Z".to_owned(),
        elapsed_seconds: 1.5,
        pages_per_second: 2.0,
        queued,
        asleep: 0,
        in_flight: 0,
        sites: 1,
        next_due_at: None,
        why: Some("a\nb".to_owned()),
        urls: json!({"fetched": 3}),
        stages: vec![],
        busiest: vec![],
        blocked: Blocked::default(),
        frozen: vec![],
        dead_letters: 0,
        history: vec![(1, 2, 3)],
        actions: Action::ALL.to_vec(),
    })
}

fn served(controls: Option<Arc<Scripted>>) -> (watch::Sender<Arc<Overview>>, Router) {
    served_with(&config(), controls)
}

/// Returns the API next to a crawl.
pub(crate) fn served_with(
    config: &UrlstoreConfig,
    controls: Option<Arc<Scripted>>,
) -> (watch::Sender<Arc<Overview>>, Router) {
    let (sender, figures) = watch::channel(overview(CrawlState::Running, 7));
    let live = LiveCrawl { figures, controls: controls.map(|controls| controls as Arc<dyn Controls>) };
    let store = Arc::new(MemoryStore::new());
    let sources = Sources { store, archive: None, policy: Policy::STANDARD, live: Some(live) };
    let metrics = UrlstoreMetrics::register(&prometheus::Registry::new()).unwrap();
    (sender, router(Api::new(config, sources, metrics)))
}

/// Routers next to a crawl: running, ended, and with a log that fails.
pub(crate) fn crawls() -> [Router; 3] {
    let down = Scripted { is_down: true, ..Scripted::default() };
    [Some(Scripted::default()), None, Some(down)].map(|controls| served(controls.map(Arc::new)).1)
}

#[tokio::test]
async fn changes_reach_the_controls_and_the_answer_is_theirs() {
    let controls = Arc::new(Scripted::default());
    let (_sender, router) = served(Some(Arc::clone(&controls)));
    for (method, target, body, status) in [
        ("POST", "/v1/crawl/pause", "{}", 202),
        ("POST", "/v1/crawl/resume", "{}", 202),
        ("POST", "/v1/crawl/stop", "{}", 202),
        ("GET", "/v1/site?site=b.example", "", 200),
        ("PUT", "/v1/site?site=b.example", r#"{"frozen":true,"requests_per_second":0.001}"#, 200),
        ("PUT", "/v1/site?site=b.example", r#"{"frozen":false,"requests_per_second":10}"#, 200),
        ("PUT", "/v1/site?site=b.example", r#"{"frozen":false}"#, 200),
        ("GET", "/v1/dead-letters?limit=5&cursor=9-2", "", 200),
        ("GET", "/v1/settings", "", 200),
    ] {
        let answer = send(&router, request(method, target, body)).await;
        assert_eq!(answer.status, status, "{target} {answer:?}");
    }
    let calls = controls.calls.lock().unwrap();
    let expected = [
        "Pause",
        "Resume",
        "Stop",
        "site b.example",
        "b.example true Some(0.001)",
        "b.example false Some(10.0)",
        "b.example false None",
        r#"dead letters Some("9-2") 5"#,
        "settings",
    ];
    assert_eq!(*calls, expected);
}

#[tokio::test]
async fn a_change_that_is_not_valid_or_not_json_does_not_reach_the_controls() {
    let controls = Arc::new(Scripted::default());
    let (_sender, router) = served(Some(Arc::clone(&controls)));
    let site = "/v1/site?site=b.example";
    for (method, target, body, status) in [
        ("POST", "/v1/crawl/stop?now=yes", "{}", 400),
        ("POST", "/v1/crawl/stop", "", 400),
        ("POST", "/v1/crawl/stop", r#"{"by":"me"}"#, 400),
        ("GET", "/v1/crawl/stop", "", 405),
        ("PUT", "/v1/site", r#"{"frozen":true}"#, 400),
        ("PUT", site, r#"{"frozen":false,"requests_per_second":0}"#, 400),
        ("PUT", site, r#"{"frozen":false,"requests_per_second":10.1}"#, 400),
        ("PUT", site, r#"{"frozen":false,"requests_per_second":-1}"#, 400),
        ("PUT", site, r#"{"frozen":false,"requests_per_second":1e400}"#, 400),
        ("PUT", site, r#"{"requests_per_second":1}"#, 400),
        ("GET", "/v1/dead-letters?limit=1001", "", 400),
    ] {
        let answer = send(&router, request(method, target, body)).await;
        assert_eq!(answer.status, status, "{target} {body} {answer:?}");
    }
    // The types that pages of other sites can send without a permission.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let simple = Request::builder().method("POST").uri("/v1/crawl/stop").header("host", "localhost");
        let answer = send(&router, simple.header("content-type", kind).body(Body::from("{}")).unwrap()).await;
        assert_eq!(answer.status, 415, "{kind}");
    }
    assert_eq!(*controls.calls.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn the_stream_has_each_change_up_to_the_end_and_no_history() {
    let (sender, router) = served(Some(Arc::default()));
    let whole = get(&router, "/v1/crawl").await.json();
    assert_eq!((&whole["queued"], &whole["history"]), (&json!(7), &json!([[1, 2, 3]])));
    let reader = router.clone();
    let stream = tokio::spawn(async move { get(&reader, "/v1/crawl/events").await });
    while sender.receiver_count() < 2 {
        tokio::task::yield_now().await;
    }
    // A reader that is slow gets the newest figures alone.
    sender.send_replace(overview(CrawlState::Stopping, 5));
    sender.send_replace(overview(CrawlState::Ended, 0));
    let answer = stream.await.unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    let text = String::from_utf8(answer.body).unwrap();
    let events: Vec<_> = text.split_terminator("\n\n").collect();
    assert!(!events.is_empty());
    for event in &events {
        let data: serde_json::Value =
            serde_json::from_str(event.strip_prefix("event: crawl\ndata: ").expect(event)).unwrap();
        assert_eq!((&data["history"], &data["why"]), (&serde_json::Value::Null, &json!("a\nb")));
    }
    assert!(events.last().unwrap().contains(r#""state":"ended""#), "{text}");
    assert_eq!(sender.receiver_count(), 1, "the stream has ended, although the server has not");
}

#[tokio::test]
async fn the_console_is_served_without_a_token_runs_files_of_this_server_alone_and_names_each_of_them() {
    let [router, ..] = crawls();
    for from in ["/", "/console"] {
        let answer = get(&router, from).await;
        assert_eq!((answer.status, answer.header("location")), (307, "/console/"), "{from}");
    }
    let page = get(&router, "/console/").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let target = format!("/console/{}", if name == "index.html" { "" } else { &name });
        let answer = get(&router, &target).await;
        assert_eq!(answer.status, 200, "{name} is not served");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let mut again = request("GET", &target, "");
        again.headers_mut().insert("if-none-match", answer.header("etag").parse().unwrap());
        assert_eq!(send(&router, again).await.status, 304, "{name}");
    }
    assert_eq!(get(&router, "/console/none.js").await.status, 404);
}
