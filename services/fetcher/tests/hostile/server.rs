//! A server on loopback that sends exactly the bytes of a script.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Path whose requests are answered by the script; any other gets a page that names its path.
pub(crate) const HOSTILE: &str = "/hostile";

/// Largest request that is read, in bytes.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// One step of a script. After the last one the connection serves its next request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes, one per packet.
    Drip(Vec<u8>),
    /// Sends these bytes again and again, with this pause in between, until the client closes the connection.
    Repeat(Vec<u8>, Duration),
    /// Sends nothing for this time.
    Wait(Duration),
    /// Sends nothing until the client closes the connection.
    Hang,
    /// Closes the sending half.
    HalfClose,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// A server with one script.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    script: Vec<Step>,
    /// Whether the script begins with the connection, without a request.
    is_early: bool,
    connections: AtomicUsize,
    paths: Mutex<Vec<String>>,
    heads: Mutex<Vec<String>>,
    /// Number of scripts that ended.
    played: watch::Sender<usize>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server that plays the script after each request for [`HOSTILE`].
    pub(crate) async fn start(script: Vec<Step>) -> Self {
        Self::with(script, false).await
    }

    /// Starts a server that plays the script on each connection, whatever the client sends.
    pub(crate) async fn early(script: Vec<Step>) -> Self {
        Self::with(script, true).await
    }

    async fn with(script: Vec<Step>, is_early: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            script,
            is_early,
            connections: AtomicUsize::new(0),
            paths: Mutex::default(),
            heads: Mutex::default(),
            played: watch::Sender::new(0),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                connections.spawn(connection(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of connections that were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the paths of all requests.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.paths.lock().unwrap().clone()
    }

    /// Returns the heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }

    /// Waits until a script has ended: all its bytes are sent, or the connection is closed.
    pub(crate) async fn played(&self) {
        let mut played = self.state.played.subscribe();
        let wait = played.wait_for(|played| *played > 0);
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap().unwrap();
    }
}

async fn connection(mut stream: TcpStream, state: Arc<State>) {
    // A packet for each write, as far as the client reads in time.
    stream.set_nodelay(true).unwrap();
    while state.is_early || is_answered(&mut stream, &state).await {
        let stays_open = play(&mut stream, &state.script).await;
        state.played.send_modify(|played| *played += 1);
        if !stays_open || state.is_early {
            return;
        }
    }
}

/// Answers requests until one is for the script; `false` if there is none.
async fn is_answered(stream: &mut TcpStream, state: &State) -> bool {
    loop {
        let Some(head) = request(stream).await else { return false };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        state.paths.lock().unwrap().push(path.clone());
        state.heads.lock().unwrap().push(head);
        if path.starts_with(HOSTILE) {
            return true;
        }
        if stream.write_all(&page(&path)).await.is_err() {
            return false;
        }
    }
}

/// Returns a page that names its path.
fn page(path: &str) -> Vec<u8> {
    let body = format!("<p>{path}");
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        assert!(head.len() < MAX_REQUEST_BYTES);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Plays a script; `false` if the connection is closed.
async fn play(stream: &mut TcpStream, script: &[Step]) -> bool {
    for step in script {
        let is_sent = match step {
            Step::Send(bytes) => stream.write_all(bytes).await.is_ok(),
            Step::Drip(bytes) => drip(stream, bytes).await,
            Step::Repeat(bytes, pause) => {
                while stream.write_all(bytes).await.is_ok() {
                    tokio::time::sleep(*pause).await;
                }
                false
            }
            Step::Wait(time) => {
                tokio::time::sleep(*time).await;
                true
            }
            Step::Hang => {
                while stream.read_u8().await.is_ok() {}
                false
            }
            Step::HalfClose => stream.shutdown().await.is_ok(),
            Step::Close => false,
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                false
            }
        };
        if !is_sent {
            return false;
        }
    }
    true
}

async fn drip(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    for byte in bytes {
        if stream.write_all(&[*byte]).await.is_err() {
            return false;
        }
        // Lets the client read before the next packet.
        tokio::task::yield_now().await;
    }
    true
}
