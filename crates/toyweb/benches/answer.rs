//! Cost of answering a page, without sockets.

use criterion::{Criterion, criterion_group, criterion_main};
use orbweaver_toyweb::{Asked, Web, WebConfig};

fn answer(criterion: &mut Criterion) {
    for (name, hosts) in [("one host", 1), ("200 hosts", 200)] {
        let config = WebConfig { pages: 100_000_000, address_hosts: hosts, ..WebConfig::default() };
        let web = match Web::new(config, 8080) {
            Ok(web) => web,
            Err(error) => panic!("{error}"),
        };
        let mut page = 0;
        criterion.bench_function(&format!("a page of 16 KiB and 30 links, {name}"), |bencher| {
            bencher.iter(|| {
                page = (page + 7_919) % 100_000_000;
                let url = web.page_url(page);
                let (host, path) = url["http://".len()..].split_at(url["http://".len()..].find('/').unwrap_or(0));
                std::hint::black_box(web.answer(&Asked { host, target: path, ..Asked::default() }))
            });
        });
    }
}

criterion_group!(benches, answer);
criterion_main!(benches);
