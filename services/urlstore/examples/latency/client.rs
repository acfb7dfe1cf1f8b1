//! Requests at a fixed rate, and their latencies.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::data::{mix, site, url};

/// Connections, each with a thread: more than there are requests in progress unless the server is late.
const CONNECTIONS: usize = 48;
/// URLs of a batch.
const BATCH: u64 = 100;

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    Url,
    /// `/v1/url` with `resolve=no`.
    Own,
    /// `/v1/url` of a URL that is not stored.
    Absent,
    History,
    Links,
    Pages,
    Batch,
}

/// Requests to be sent.
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddr,
    /// Process of the server.
    pub(crate) process: u32,
    pub(crate) urls: u64,
    /// Requests per second.
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    /// Routes, and their shares in hundredths.
    pub(crate) mix: &'a [(Route, u64)],
}

/// Latencies by route, in microseconds and sorted, and the CPU time of the server.
pub(crate) struct Report {
    latencies: BTreeMap<Route, Vec<u128>>,
    cpu_seconds: f64,
    seconds: f64,
}

impl Load<'_> {
    /// Sends all requests.
    pub(crate) fn run(&self) -> io::Result<Report> {
        let (next, cpu, begun) = (AtomicU64::new(0), cpu_seconds(self.process), Instant::now());
        let measured: Vec<io::Result<Vec<_>>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(|| self.requests(&next, begun))).collect();
            let ended = |_| Err(io::Error::other("a client panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
        });
        let seconds = begun.elapsed().as_secs_f64();
        let mut latencies = BTreeMap::<Route, Vec<u128>>::new();
        for measured in measured {
            measured?.into_iter().for_each(|(route, micros)| latencies.entry(route).or_default().push(micros));
        }
        latencies.values_mut().for_each(|latencies| latencies.sort_unstable());
        Ok(Report { latencies, cpu_seconds: cpu_seconds(self.process) - cpu, seconds })
    }

    /// Sends the requests that this connection takes, each when it is due.
    #[allow(
        clippy::disallowed_methods,
        reason = "a thread of its own, which may block; timers of tokio are late by up to 1 ms"
    )]
    fn requests(&self, next: &AtomicU64, begun: Instant) -> io::Result<Vec<(Route, u128)>> {
        let mut measured = vec![];
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.rate * self.seconds {
                return Ok(measured);
            }
            let due = begun + Duration::from_secs_f64(number as f64 / self.rate as f64);
            let (route, request) = self.request(number);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            (&stream).write_all(request.as_bytes())?;
            let status = status_of_answer(&mut answers)?;
            let expected = if route == Route::Absent { 404 } else { 200 };
            if status != expected {
                return Err(io::Error::other(format!("{request}: status {status}")));
            }
            measured.push((route, due.elapsed().as_micros()));
        }
    }

    fn request(&self, number: u64) -> (Route, String) {
        let mut position = mix(number) % 100;
        let route = self.mix.iter().find(|(_, share)| {
            let is_here = position < *share;
            position = position.saturating_sub(*share);
            is_here
        });
        let (route, page) = (route.map_or(Route::Url, |(route, _)| *route), mix(number ^ 0x5555) % self.urls);
        let host = "host: localhost\r\n";
        let get = |target: String| format!("GET {target} HTTP/1.1\r\n{host}\r\n");
        let request = match route {
            Route::Url => get(format!("/v1/url?url={}", url(page))),
            Route::Own => get(format!("/v1/url?url={}&resolve=no", url(page))),
            Route::Absent => get(format!("/v1/url?url={}/absent", url(page))),
            Route::History => get(format!("/v1/history?url={}", url(page))),
            Route::Links => get(format!("/v1/links?url={}", url(page))),
            Route::Pages => get(format!("/v1/pages?site={}&limit=100", site(page))),
            Route::Batch => {
                let urls = (0..BATCH).map(|other| format!("\"{}\"", url(mix(number + other) % self.urls)));
                let body = format!("{{\"urls\":[{}]}}", urls.collect::<Vec<_>>().join(","));
                let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
                format!("POST /v1/urls HTTP/1.1\r\n{host}{head}\r\n\r\n{body}")
            }
        };
        (route, request)
    }
}

/// Reads an answer, and returns its status.
fn status_of_answer(answers: &mut BufReader<TcpStream>) -> io::Result<u16> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut status, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        answers.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line if status.is_none() => {
                status = Some(line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(invalid)?);
            }
            line => {
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().map_err(|_| invalid())?;
                }
            }
        }
    }
    io::copy(&mut answers.take(length), &mut io::sink())?;
    status.ok_or_else(invalid)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<u128> = self.latencies.values().flatten().copied().collect();
        all.sort_unstable();
        let cpu_micros = self.cpu_seconds * 1e6 / all.len().max(1) as f64;
        let rate = all.len() as f64 / self.seconds;
        writeln!(f, "{} answers, {rate:.0} per second, CPU of the server {cpu_micros:.0} us each", all.len())?;
        writeln!(f, "{:8} {:>8} {:>8} {:>8} {:>8} {:>8}", "us", "answers", "P50", "P99", "P99.9", "longest")?;
        let mut line = |name: &str, latencies: &[u128]| {
            let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied().unwrap_or_default();
            let (half, most, nearly_all) = (at(0.5), at(0.99), at(0.999));
            let longest = latencies.last().copied().unwrap_or_default();
            writeln!(f, "{name:8} {:>8} {half:>8} {most:>8} {nearly_all:>8} {longest:>8}", latencies.len())
        };
        for (route, latencies) in &self.latencies {
            line(&format!("{route:?}"), latencies)?;
        }
        line("all", &all)
    }
}

/// Returns the CPU time of a process so far.
fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Returns the load of the machine: processes that run or wait, on average over a minute.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
