//! Addresses that are dialled although they are not public.

use orbweaver_fetcher::{FetchError, FetcherConfig};

use super::{
    client::{Asker, config},
    server::Server,
};

fn within(networks: &[&str]) -> FetcherConfig {
    let networks: Vec<_> = networks.iter().map(|&network| network.to_owned()).collect();
    FetcherConfig { allow_private: false, allow_networks: networks.into(), ..config() }
}

#[tokio::test]
async fn addresses_of_permitted_networks_are_dialled_and_others_are_not() {
    let server = Server::start(vec![]).await;
    let port = server.address.port();
    for host in ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "any.localhost."] {
        let url = format!("http://{host}:{port}/");
        for networks in [&["127.0.0.0/8"][..], &["fd00::/8", "127.0.0.1/32"]] {
            let asked = Asker::new(&within(networks)).ask(&url).await;
            assert_eq!(asked.answer().status, 200, "{host}: {networks:?}");
        }
        let connections = server.connections();
        for networks in [&["127.0.0.2/31"][..], &["10.0.0.0/8", "::/0"]] {
            let failure = Asker::new(&within(networks)).ask(&url).await.failure();
            // By name, the other address of this machine is in the network of all IPv6 addresses.
            let is_dialled = networks.contains(&"::/0") && host.contains("localhost");
            let expected = if is_dialled { FetchError::Connect } else { FetchError::Private };
            assert_eq!(failure, expected, "{host}: {networks:?}");
        }
        assert_eq!(server.connections(), connections, "{host}");
    }
}
