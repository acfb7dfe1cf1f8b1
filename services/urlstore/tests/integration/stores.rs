//! Equal answers over every store.

use std::sync::Arc;

use orbweaver_store::{FjallOptions, FjallStore, MemoryStore, Store};
use orbweaver_urlstore::router;

use crate::world::{api, config, fill, get, request, send};

const TARGETS: [&str; 18] = [
    "/v1/url?url=a.example",
    "/v1/url?url=old.example",
    "/v1/url?url=old.example&resolve=no",
    "/v1/url?url=left.example",
    "/v1/url?url=away.example",
    "/v1/url?url=nowhere.example",
    "/v1/history?url=a.example",
    "/v1/history?url=a.example&limit=1",
    "/v1/links?url=a.example&limit=3",
    "/v1/links?url=plain.example",
    "/v1/captures?url=a.example",
    "/v1/captures?url=a.example&limit=1",
    "/v1/content?url=a.example",
    "/v1/content?url=open.example",
    "/v1/pages?site=example",
    "/v1/pages?site=example&status=301&limit=2",
    "/v1/pages?site=example&crawl=docs",
    "/v1/pages?site=nowhere.example",
];

#[tokio::test]
async fn the_embedded_store_answers_as_the_one_in_memory() {
    let (dir, embedded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fjall = FjallStore::open(embedded.path(), FjallOptions::default()).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(fjall)];
    let mut routers = vec![];
    for store in stores {
        fill(&*store, dir.path()).await;
        routers.push(router(api(store, Some(dir.path()), &config())));
    }
    for target in TARGETS {
        let (memory, embedded) = (get(&routers[0], target).await, get(&routers[1], target).await);
        assert_eq!((embedded.status, embedded.body, embedded.headers), (memory.status, memory.body, memory.headers));
    }
    let body = r#"{"urls":["old.example","left.example","nowhere.example","::"]}"#;
    let [memory, embedded] = [&routers[0], &routers[1]].map(|router| send(router, request("POST", "/v1/urls", body)));
    assert_eq!(embedded.await.json(), memory.await.json());
}
