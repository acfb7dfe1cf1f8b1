//! The stage with its worker and its client, against a server on loopback with many sites.

use std::sync::atomic::AtomicUsize;

use orbweaver_stage::{Clock as _, SystemClock, Worker as _};
use orbweaver_store::MemoryStore;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::*;
use crate::{FetchWorker, HttpClient};

const SITES: usize = 200;
const AT_ONCE: usize = 4;

/// Requests that the server has read and not answered yet: now, and the most of them.
#[derive(Debug, Default)]
struct Log {
    requests: AtomicUsize,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

/// Serves connections, a page for each request.
async fn serve(listener: TcpListener, log: Arc<Log>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(answer(stream, log.clone()));
    }
}

async fn answer(stream: TcpStream, log: Arc<Log>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
        }
        log.requests.fetch_add(1, Ordering::SeqCst);
        log.most.fetch_max(log.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // A server takes some time, so that requests overlap.
        sleep(Duration::from_millis(2)).await;
        log.at_once.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>").await?;
    }
}

#[tokio::test]
async fn a_server_with_many_sites_never_gets_more_requests_at_once_than_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, log) = (listener.local_addr().unwrap().port(), Arc::<Log>::default());
    let server = tokio::spawn(serve(listener, log.clone()));
    let config = FetcherConfig { allow_private: true, max_requests_per_address: AT_ONCE, ..FetcherConfig::default() };
    let (clock, store) = (Arc::new(SystemClock), Arc::new(MemoryStore::default()));
    let client = Arc::new(HttpClient::new(&config, clock.clone()).unwrap());
    let mut around = Surroundings::new(config);
    around.holds_lookups = true;
    let worker = FetchWorker::new(client, store, clock, around.stage.memory());
    let (results, mut done) = unbounded_channel();
    // The stage has the time of the machine, as its worker has.
    let synchronize = |around: &Surroundings| around.clock.advance(SystemClock.now() - around.now());
    synchronize(&around);
    around.call(FetcherStage::tick);
    for number in 0..SITES {
        let ready = around.ready(&format!("http://s{number}.localhost:{port}/"), 1 + number as u64);
        around.deliver(&ready);
    }
    let completed = async {
        while around.completed.len() < SITES {
            while let Some(plan) = around.plans.pop_front() {
                around.land(plan);
            }
            around.jobs.drain(..).for_each(|job| worker.start(job, &results));
            let until = Instant::now() + Duration::from_millis(20);
            if let Ok(Some(done)) = timeout_at(until, done.recv()).await {
                synchronize(&around);
                around.call(|stage, now, acts| stage.job_done(done, now, acts));
            } else {
                synchronize(&around);
                around.call(FetcherStage::tick);
            }
        }
    };
    timeout(Duration::from_secs(60), completed).await.unwrap();
    assert_eq!(log.most.load(Ordering::SeqCst), AT_ONCE);
    assert_eq!(log.requests.load(Ordering::SeqCst), 2 * SITES, "a robots.txt and a page each");
    assert!(around.outcomes().iter().all(|outcome| outcome.kind == OutcomeKind::Fetched), "{:?}", around.kinds());
    around.assert_all_complete();
    server.abort();
}
