//! The network between services and servers: a TCP proxy in front of each server, whose connections can be cut and
//! slowed.
//!
//! A cut drops and closes nothing: bytes wait until it is over, as in a network that loses all packets for a while. A
//! cut-off process is identified by the ports of its sockets (`/proc`), so that all processes share the proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use crate::fault::Server;

/// Bytes forwarded at once.
const CHUNK: usize = 16 << 10;
/// Maximum number of chunks in transit per direction of a connection.
const ON_THEIR_WAY: usize = 64;
/// Maximum number of new connections looked up in one scan of `/proc`.
const LOOKED_UP_AT_ONCE: usize = 1_024;

/// Faults of the network.
#[derive(Debug, Clone, Default)]
struct Weather {
    /// Servers that are cut off from all services.
    cut: BTreeSet<Server>,
    /// Additional latency of each chunk.
    delay: Duration,
    /// Processes that are cut off from all servers.
    processes: BTreeSet<u32>,
    /// Ports of the sockets of these processes.
    ports: BTreeMap<u16, u32>,
}

/// Proxies of all servers; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    weather: watch::Sender<Weather>,
    servers: Vec<Server>,
    tasks: Vec<AbortHandle>,
}

impl Network {
    /// Starts a proxy for each server, from one loopback port to another.
    pub(crate) async fn start(links: &[(Server, u16, u16)]) -> io::Result<Self> {
        let weather = watch::Sender::new(Weather::default());
        let (lookups, asked) = mpsc::channel(LOOKED_UP_AT_ONCE);
        let tasks = vec![tokio::spawn(look_up(asked, weather.clone())).abort_handle()];
        let mut network = Self { weather: weather.clone(), servers: vec![], tasks };
        for (server, from, to) in links.iter().copied() {
            let listener = TcpListener::bind(("127.0.0.1", from)).await?;
            network.servers.push(server);
            let link = Link { server, port: 0, weather: weather.subscribe(), lookups: lookups.clone() };
            network.tasks.push(tokio::spawn(accept(listener, to, link)).abort_handle());
        }
        Ok(network)
    }

    /// Returns all servers with a proxy.
    pub(crate) fn servers(&self) -> Vec<Server> {
        self.servers.clone()
    }

    /// Cuts all services off from a server.
    pub(crate) fn cut(&self, server: Server) {
        self.weather.send_modify(|weather| _ = weather.cut.insert(server));
    }

    /// Ends [`Network::cut`].
    pub(crate) fn restore(&self, server: Server) {
        self.weather.send_modify(|weather| _ = weather.cut.remove(&server));
    }

    /// Cuts a process off from all servers.
    pub(crate) async fn cut_off(&self, process: u32) {
        // From now on new connections are looked up, so that the scan below finds all others.
        self.weather.send_modify(|weather| _ = weather.processes.insert(process));
        let ports = spawn_blocking(move || ports_of(process)).await.unwrap_or_default();
        self.weather.send_modify(|weather| weather.ports.extend(ports.into_iter().map(|port| (port, process))));
    }

    /// Ends [`Network::cut_off`].
    pub(crate) fn reconnect(&self, process: u32) {
        self.weather.send_modify(|weather| {
            weather.processes.remove(&process);
            weather.ports.retain(|_, owner| *owner != process);
        });
    }

    /// Sets the additional latency; zero restores the normal one.
    pub(crate) fn delay(&self, by: Duration) {
        self.weather.send_modify(|weather| weather.delay = by);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn accept(listener: TcpListener, to: u16, link: Link) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, peer)) => {
                connections.spawn(connect(client, to, Link { port: peer.port(), ..link.clone() }));
            }
            // Transient, such as too many open files.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Port of a connection, and the sender that signals the end of its lookup.
type Lookup = (u16, oneshot::Sender<()>);

/// Looks up the processes of new connections. One scan of `/proc` serves all connections that arrived during the
/// previous one: processes reconnect repeatedly to an unavailable server, and a scan takes long.
async fn look_up(mut asked: mpsc::Receiver<Lookup>, weather: watch::Sender<Weather>) {
    let mut lookups = vec![];
    while asked.recv_many(&mut lookups, LOOKED_UP_AT_ONCE).await > 0 {
        let processes = weather.borrow().processes.clone();
        let owned = |process| ports_of(process).into_iter().map(move |port| (port, process));
        let read = move || processes.into_iter().flat_map(owned).collect::<BTreeMap<u16, u32>>();
        let owners = spawn_blocking(read).await.unwrap_or_default();
        weather.send_if_modified(|weather| {
            let before = weather.ports.clone();
            for (port, _) in &lookups {
                // The port of a closed connection may have been reused.
                weather.ports.remove(port);
                let owner = owners.get(port).filter(|process| weather.processes.contains(process));
                weather.ports.extend(owner.map(|process| (*port, *process)));
            }
            weather.ports != before
        });
        for (_, done) in lookups.drain(..) {
            // The connection may be closed.
            let _ = done.send(());
        }
    }
}

/// One connection and its view of the network's faults.
#[derive(Clone)]
struct Link {
    server: Server,
    port: u16,
    weather: watch::Receiver<Weather>,
    lookups: mpsc::Sender<Lookup>,
}

impl Link {
    /// Determines whether the connection belongs to a cut-off process.
    async fn find_owner(&self) {
        if self.weather.borrow().processes.is_empty() {
            return;
        }
        let (done, found) = oneshot::channel();
        // The lookup fails only once the network has ended.
        if self.lookups.send((self.port, done)).await.is_ok() {
            let _ = found.await;
        }
    }

    /// Waits while the connection is cut. Returns the current latency of a chunk.
    async fn passes(&mut self) -> Duration {
        let (server, port) = (self.server, self.port);
        let passes = |weather: &Weather| !weather.cut.contains(&server) && !weather.ports.contains_key(&port);
        let delay = self.weather.wait_for(passes).await.map(|weather| weather.delay);
        // The network has ended, and this connection with it.
        delay.unwrap_or_default()
    }
}

async fn connect(client: TcpStream, to: u16, mut link: Link) -> io::Result<()> {
    link.find_owner().await;
    link.passes().await;
    let server = TcpStream::connect(("127.0.0.1", to)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // When one side closes, so does the other: neither protocol uses half-closed connections.
    tokio::select! {
        done = pump(from_client, to_server, link.clone()) => done,
        done = pump(from_server, to_client, link) => done,
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut link: Link) -> io::Result<()> {
    let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THEIR_WAY);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            let length = from.read(&mut chunk).await?;
            chunk.truncate(length);
            if length == 0 || sender.send((Instant::now(), chunk)).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((came, chunk)) = chunks.recv().await {
            let delay = link.passes().await;
            sleep_until(came + delay).await;
            to.write_all(&chunk).await?;
        }
        // A cut also hides the end of a connection.
        link.passes().await;
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(drop)
}

/// Returns the local ports of the TCP sockets of a process; none if it has ended.
fn ports_of(process: u32) -> BTreeSet<u16> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return BTreeSet::new() };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()?.into_os_string().into_string().ok());
    let sockets: BTreeSet<String> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    table.lines().skip(1).filter_map(|line| port_of(line, &sockets)).collect()
}

/// Returns the local port in a line of `/proc/net/tcp` if it describes one of these sockets.
fn port_of(line: &str, sockets: &BTreeSet<String>) -> Option<u16> {
    let mut fields = line.split_whitespace();
    let (_, port) = fields.nth(1)?.split_once(':')?;
    sockets.contains(fields.nth(7)?).then(|| u16::from_str_radix(port, 16).ok())?
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SERVER: Server = Server::Broker(1);
    const SOON: Duration = Duration::from_secs(10);
    const A_WHILE: Duration = Duration::from_millis(200);

    /// Starts an echo server with a proxy in front of it, and connects through the proxy.
    async fn connected() -> (Network, TcpStream) {
        let echo = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let to = echo.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = echo.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut from, mut back) = stream.split();
                    tokio::io::copy(&mut from, &mut back).await
                });
            }
        });
        let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
        let network = Network::start(&[(SERVER, free, to)]).await.unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", free)).await.unwrap();
        echoes(&mut stream).await;
        (network, stream)
    }

    async fn echoes(stream: &mut TcpStream) {
        stream.write_all(b"x").await.unwrap();
        assert_eq!(timeout(SOON, stream.read_u8()).await.unwrap().unwrap(), b'x');
    }

    /// Asserts that a byte is not echoed.
    async fn is_held(stream: &mut TcpStream) {
        stream.write_all(b"a").await.unwrap();
        assert!(timeout(A_WHILE, stream.read_u8()).await.is_err(), "it arrives through a cut");
    }

    async fn arrives(stream: &mut TcpStream) {
        assert_eq!(timeout(SOON, stream.read_u8()).await.unwrap().unwrap(), b'a');
    }

    #[tokio::test]
    async fn what_is_sent_while_a_server_or_a_process_is_cut_off_arrives_when_that_is_over() {
        let (network, mut stream) = connected().await;
        network.cut(SERVER);
        is_held(&mut stream).await;
        network.restore(SERVER);
        arrives(&mut stream).await;

        let own = std::process::id();
        network.cut_off(own).await;
        is_held(&mut stream).await;
        let mut second = TcpStream::connect(stream.peer_addr().unwrap()).await.unwrap();
        is_held(&mut second).await;
        network.reconnect(own);
        arrives(&mut stream).await;
        arrives(&mut second).await;

        network.cut(Server::Cql);
        network.cut_off(u32::MAX).await;
        echoes(&mut stream).await;
        let mut third = TcpStream::connect(stream.peer_addr().unwrap()).await.unwrap();
        echoes(&mut third).await;
    }

    #[tokio::test]
    async fn a_slow_network_delays_and_a_server_that_closes_closes() {
        let (network, mut stream) = connected().await;
        network.delay(A_WHILE);
        let begun = Instant::now();
        echoes(&mut stream).await;
        assert!(begun.elapsed() >= A_WHILE * 2, "there and back");
        network.delay(Duration::ZERO);
        stream.shutdown().await.unwrap();
        assert_eq!(timeout(SOON, stream.read(&mut [0])).await.unwrap().unwrap(), 0);
    }

    #[test]
    fn the_port_of_a_socket_is_read_off_the_table_of_the_kernel() {
        let line =
            "   0: 0100007F:65EC 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 41234 1 0 20";
        assert_eq!(port_of(line, &BTreeSet::from(["41234".to_owned()])), Some(26_092));
        assert_eq!(port_of(line, &BTreeSet::from(["4123".to_owned()])), None);
    }
}
