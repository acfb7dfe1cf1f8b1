//! The edge: sockets, and the thread that serves them.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, IF_NONE_MATCH,
    USER_AGENT,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::content::Content;
use crate::log::{Entry, RequestLog};
use crate::reply::{Ending, Reply};
use crate::special::Kind;
use crate::web::Asked;

/// Attempts to find a port that is free on every address.
const PORT_ATTEMPTS: u32 = 32;
/// Delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Binds one port (0: any) on every address.
pub(crate) fn bind(addresses: &[Ipv4Addr], port: u16) -> io::Result<Vec<TcpListener>> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match bind_all(addresses, port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port == 0 && attempt < PORT_ATTEMPTS => {}
            result => return result,
        }
    }
}

fn bind_all(addresses: &[Ipv4Addr], mut port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        let listener = TcpListener::bind((*address, port))
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}:{port}: {error}")))?;
        listener.set_nonblocking(true)?;
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(listeners)
}

/// State shared by all connections.
struct Shared {
    content: Content,
    log: Arc<RequestLog>,
    /// Number of requests per special place; bounded, since only existing places are counted.
    visits: Mutex<HashMap<(Kind, u32), u32>>,
}

/// Thread that serves until it is stopped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Serves `content` on `listeners` in a dedicated thread.
    pub(crate) fn start(content: Content, log: Arc<RequestLog>, listeners: Vec<TcpListener>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared { content, log, visits: Mutex::new(HashMap::new()) });
        let (stop, stopped) = oneshot::channel();
        let entered = runtime.enter();
        let listeners: io::Result<Vec<_>> = listeners.into_iter().map(tokio::net::TcpListener::from_std).collect();
        drop(entered);
        let listeners = listeners?;
        let thread = std::thread::Builder::new().name("toyweb".into()).spawn(move || {
            runtime.block_on(async move {
                for listener in listeners {
                    tokio::spawn(accept(listener, Arc::clone(&shared)));
                }
                let _ = stopped.await;
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
            // Running out of file descriptors is transient; accepting again immediately would spin.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let guarded = Arc::clone(&reset);
    let service = service_fn(move |request| {
        let (shared, reset) = (Arc::clone(&shared), Arc::clone(&guarded));
        Box::pin(async move { respond(request, &shared, &reset).await })
    });
    let mut connection =
        hyper::server::conn::http1::Builder::new().half_close(false).serve_connection(TokioIo::new(stream), service);
    // An error is caused by the peer or by a deliberate reset; in both cases the connection is over.
    let _ = poll_fn(|context| connection.poll_without_shutdown(context)).await;
    if reset.load(Ordering::Relaxed) {
        let _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

/// Error that makes the server reset the connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection is reset on purpose")]
struct ResetByServer;

async fn respond(
    request: Request<Incoming>,
    shared: &Shared,
    reset: &AtomicBool,
) -> Result<Response<Answer>, ResetByServer> {
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let host = request.uri().authority().map_or_else(|| header(HOST), |authority| authority.as_str());
    let asked = Asked {
        host,
        target,
        cookie: header(COOKIE),
        gzip: header(ACCEPT_ENCODING).contains("gzip"),
        before: shared.visit(host, target),
        elapsed_ms: shared.log.elapsed_ms(),
        known: header(IF_NONE_MATCH),
    };
    let reply = match *request.method() {
        Method::GET | Method::HEAD => shared.content.answer(&asked).await,
        _ => Reply::plain(405, "only GET and HEAD are answered\n").with_header("allow", "GET, HEAD".into()),
    };
    shared.log.note(|at_us, epoch_us| Entry {
        at_us,
        epoch_us,
        host: host.to_owned(),
        target: target.to_owned(),
        status: if reply.ending == Ending::Reset { 0 } else { reply.status },
        agent: header(USER_AGENT).to_owned(),
        version: reply.version(),
    });
    if reply.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    }
    if reply.ending == Ending::Reset {
        reset.store(true, Ordering::Relaxed);
        return Err(ResetByServer);
    }
    let mut response = response(reply);
    // HTTP/1.1 connections are persistent by default (RFC 9112 section 9.3), but some clients close them without this
    // header.
    if header(CONNECTION).eq_ignore_ascii_case("keep-alive") {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    Ok(response)
}

impl Shared {
    /// Counts a visit to a special place and returns the number of previous visits.
    fn visit(&self, host: &str, target: &str) -> u32 {
        let Content::Generated(web) = &self.content else { return 0 };
        let Some(place) = web.counted(host, target) else { return 0 };
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let count = visits.entry(place).or_insert(0);
        let before = *count;
        *count = count.saturating_add(1);
        before
    }
}

fn response(reply: Reply) -> Response<Answer> {
    let promised = match reply.ending {
        Ending::Short { promised } => Some(promised),
        Ending::Whole | Ending::Reset => None,
    };
    let mut response = Response::new(Answer { body: Some(reply.body.into()), exact: promised.is_none() });
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    if let Some(promised) = promised {
        headers.insert(CONTENT_LENGTH, promised.into());
    }
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Body in a single frame, so that head and body are sent in one write.
struct Answer {
    body: Option<Bytes>,
    /// `true` if the response has the length of the body.
    exact: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = ResetByServer;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResetByServer>>> {
        Poll::Ready(self.body.take().filter(|body| !body.is_empty()).map(|body| Ok(Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.exact && self.body.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) if self.exact => SizeHint::with_exact(body.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
