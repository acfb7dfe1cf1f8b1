//! Settings of the service as a process.

use orbweaver_process::{
    configuration::{Inputs, Key},
    configure,
};
use orbweaver_urlstore::service::UrlstoreService;

use crate::world::OF_SECRET;

const NODES: &str = "[cql]\nnodes = ['c:1']\n[urlstore]\n";

/// Returns the keys that are read, and the faults.
fn read(own: &str) -> (Vec<String>, Vec<String>) {
    let file = Some(("urlstore.toml".into(), format!("{NODES}{own}").into_bytes()));
    let (_, settings, faults) = configure::<UrlstoreService>(&Inputs { file, ..Inputs::default() });
    (settings.keys().iter().map(Key::path).collect(), faults.iter().map(ToString::to_string).collect())
}

#[test]
fn the_service_needs_the_nodes_of_the_store_and_no_brokers() {
    let (keys, faults) = read("");
    assert_eq!(faults, [""; 0]);
    assert!(keys.iter().any(|key| key == "cql.nodes") && !keys.iter().any(|key| key.starts_with("kafka.")), "{keys:?}");
}

#[test]
fn a_start_that_would_expose_the_store_is_refused_with_the_remedy() {
    let (_, faults) = read("listen = '0.0.0.0:9480'\n");
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.starts_with("urlstore.listen = \"0.0.0.0:9480\" (from urlstore.toml:4): "), "{fault}");
    assert!(fault.ends_with("`urlstore.token_sha256` must be set, since the address is not on loopback"), "{fault}");
    assert_eq!(read(&format!("listen = '0.0.0.0:9480'\ntoken_sha256 = '{OF_SECRET}'\n")).1, [""; 0]);
    let (_, faults) = read("token_sha256 = 'hunter2'\n");
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.starts_with("urlstore.token_sha256") && !fault.contains("hunter2"), "{fault}");
}
