//! Cost of a page: packing, passing the gates, and the whole fetch over loopback.
#![allow(clippy::expect_used, reason = "a benchmark ends by panicking, and criterion makes its functions")]

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_fetcher::{
    Client, FetcherConfig, HttpClient, Purpose, Request,
    gates::{GateEvent, QueuedRequest, SiteGates},
    pack,
};
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Makes 16 KiB of text with tags, about as compressible as a page.
fn page() -> Vec<u8> {
    let mut state = 7u32;
    let words = ["the", "crawler", "of", "a", "site", "<p>", "</p>", "<a href=\"/page/", "\">", "links", "and", "text"];
    let mut page = String::new();
    while page.len() < 16 << 10 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        page.push_str(words[(state >> 16) as usize % words.len()]);
        page.push_str(if state & 64 == 0 { " " } else { "\n" });
        if state & 7 == 0 {
            page.push_str(&(state >> 8).to_string());
        }
    }
    page.into_bytes()
}

fn packing(criterion: &mut Criterion) {
    let page = page();
    let mut group = criterion.benchmark_group("pack");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("16 KiB", |bencher| {
        bencher.iter_with_large_drop(|| pack(black_box(page.clone()), false, true, 16 << 20));
    });
    group.finish();
}

fn gates(criterion: &mut Criterion) {
    const SITES: usize = 100_000;
    let sites: Vec<String> = (0..SITES).map(|site| format!("site{site}.example")).collect();
    let mut gates = SiteGates::new(256);
    let (mut now, mut next, mut turns) = (0, 0, vec![]);
    criterion.bench_function("gates, one of 100,000 sites pushed, sent and answered", |bencher| {
        bencher.iter(|| {
            let (not_before_ms, not_after_ms) = (now, now + 30_000);
            let wish = QueuedRequest { payload: next, not_before_ms, not_after_ms, interval_ms: 1000, is_first: false };
            gates.push(&sites[next % SITES], wish, 0, now).expect("no site is blocked");
            next += 1;
            if next % 100 == 0 {
                now += 1;
            }
            gates.poll(now, 256, &mut turns);
            for turn in turns.drain(..) {
                if let GateEvent::Send(site, _) = turn {
                    gates.answered(&site, now, now);
                }
            }
        });
    });
}

fn asking(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let body = page();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer: Arc<[u8]> = [head.into_bytes(), body].concat().into();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let config = FetcherConfig {
        user_agent: "bench".into(),
        allow_private: true,
        request_timeout: Duration::from_secs(30),
        ..FetcherConfig::default()
    };
    let client = HttpClient::new(&config, Arc::new(SystemClock)).expect("a client");
    let memory = ByteBudget::new(config.body_memory, IntGauge::new("bytes", "in use").expect("a gauge"));
    let url = Url::parse(&format!("http://{address}/page")).expect("a url");
    criterion.bench_function("request 16 KiB over loopback, client and server on one thread", |bencher| {
        bencher.iter(|| {
            let request = Request { url: url.clone(), purpose: Purpose::Page, cookie: None };
            runtime.block_on(client.ask(request, &mut memory.reservation())).result.expect("an answer")
        });
    });
}

criterion_group!(benches, packing, gates, asking);
criterion_main!(benches);
