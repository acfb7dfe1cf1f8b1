//! Memory-intensive web: small responses that grow when decoded, and long lists of links.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;

use crate::reply::Reply;
use crate::web::Asked;

/// Size of the blocks of zeros passed to the encoder, in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// Configuration of a greedy web, whose hosts serve `/zeros` and `/links`, both linked from `/` of the first host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreedyConfig {
    /// Number of hosts, `127.0.1.1` and up.
    pub hosts: u8,
    /// Decoded size of the page of zeros in bytes; it is sent in gzip.
    pub zeros: u32,
    /// Number of links on the page of links, each to a different URL on its host.
    pub links: u32,
}

/// A greedy web on a port.
#[derive(Debug)]
pub(crate) struct Greedy {
    config: GreedyConfig,
    port: u16,
    zeros: Vec<u8>,
}

impl GreedyConfig {
    /// Returns the addresses on which the web is served.
    pub(crate) fn addresses(&self) -> Vec<Ipv4Addr> {
        (1..=self.hosts).map(|host| Ipv4Addr::new(127, 0, 1, host)).collect()
    }
}

impl Greedy {
    pub(crate) fn new(config: GreedyConfig, port: u16) -> std::io::Result<Self> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let (block, mut left) = (vec![0; BLOCK_BYTES], config.zeros as usize);
        while left > 0 {
            let written = left.min(BLOCK_BYTES);
            encoder.write_all(&block[..written])?;
            left -= written;
        }
        Ok(Self { config, port, zeros: encoder.finish()? })
    }

    pub(crate) fn start_url(&self) -> String {
        format!("http://127.0.1.1:{}/", self.port)
    }

    pub(crate) fn answer(&self, asked: &Asked<'_>) -> Reply {
        match asked.target {
            "/" => Reply::html(self.start_page()),
            "/zeros" if asked.gzip => {
                Reply::html(self.zeros.clone()).with_header("content-encoding", "gzip".to_owned())
            }
            "/links" => Reply::html(self.links()),
            _ => Reply::not_found(),
        }
    }

    fn start_page(&self) -> String {
        let mut page = "<title>Greedy pages</title>".to_owned();
        for address in self.config.addresses() {
            for path in ["zeros", "links"] {
                let _ = writeln!(page, "<a href=\"http://{address}:{}/{path}\">{path}</a>", self.port);
            }
        }
        page
    }

    fn links(&self) -> String {
        let mut page = "<title>Links</title>".to_owned();
        for link in 0..self.config.links {
            let _ = writeln!(page, "<a href=\"/linked/from/here/{link}\">link {link}</a>");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_page_leads_to_every_page_and_these_have_the_size_that_was_asked_for() {
        let config = GreedyConfig { hosts: 3, zeros: 200_000, links: 1_000 };
        let greedy = Greedy::new(config, 80).unwrap();
        let ask = |target| greedy.answer(&Asked { host: "127.0.1.2", target, gzip: true, ..Asked::default() });
        let count = |reply: &Reply| String::from_utf8_lossy(&reply.body).matches("<a href").count();
        assert_eq!((count(&ask("/")), count(&ask("/links")), ask("/robots.txt").status), (6, 1_000, 404));
        let mut zeros = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&ask("/zeros").body[..]), &mut zeros).unwrap();
        assert_eq!(zeros, vec![0; 200_000]);
    }
}
