//! A store in memory that fails on demand, for tests.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    memory::InMemory,
    multipart::{MultipartStore, PartId},
    path::Path,
};

/// Failure of a store.
#[derive(Debug, Clone, Default)]
pub enum Fault {
    /// None.
    #[default]
    None,
    /// All requests fail from this step on; each has one before and one after its effect.
    KilledAt(usize),
    /// The request of this number succeeds, but its response is lost.
    LostResponse(usize),
    /// Each object is written twice, as by a client that repeats a request whose response was lost.
    Repeated,
}

/// Requests of one run to a store.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<Objects>,
    fault: Fault,
    steps: Arc<AtomicUsize>,
}

/// Objects and uploads, which several runs share.
#[derive(Debug, Default)]
pub struct Objects {
    /// Complete objects.
    pub memory: InMemory,
    /// Number of the parts of each incomplete upload.
    pub uploads: Mutex<BTreeMap<String, usize>>,
    /// Number of the uploads that were begun.
    pub begun: AtomicUsize,
}

impl Faulty {
    /// Creates the requests of a run with a fault.
    #[must_use]
    pub fn new(inner: &Arc<Objects>, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(inner), fault, steps: Arc::default() })
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.steps.load(Ordering::SeqCst) / 2
    }

    /// Counts a step. Even ones are before the effect of a request; parts are sent at the same time.
    async fn step(&self) -> Result<()> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        let failed = |source: &str| Err(Error::Generic { store: "test", source: source.into() });
        match &self.fault {
            Fault::KilledAt(last) if step >= *last => failed("killed"),
            Fault::LostResponse(request) if step == 2 * request + 1 => failed("lost"),
            _ => Ok(()),
        }
    }

    async fn request<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        self.step().await?;
        let result = request.await;
        self.step().await?;
        result
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("test")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, text: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = async {
            if matches!(self.fault, Fault::Repeated) {
                self.inner.memory.put_opts(path, text.clone(), options.clone()).await?;
            }
            self.inner.memory.put_opts(path, text, options).await
        };
        self.request(put).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.memory.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.request(self.inner.memory.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path| {
            let this = this.clone();
            async move {
                this.request(this.inner.memory.delete(&path)).await?;
                Ok(path)
            }
        };
        paths.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.memory.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.memory.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, path: &Path) -> Result<String> {
        let create = async {
            let id = self.inner.memory.create_multipart(path).await?;
            self.inner.uploads.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), 0);
            self.inner.begun.fetch_add(1, Ordering::SeqCst);
            Ok(id)
        };
        self.request(create).await
    }

    async fn put_part(&self, path: &Path, id: &String, number: usize, text: PutPayload) -> Result<PartId> {
        let put = async {
            let gone = || Error::NotFound { path: path.to_string(), source: "no such upload".into() };
            *self.inner.uploads.lock().unwrap_or_else(PoisonError::into_inner).get_mut(id).ok_or_else(gone)? += 1;
            self.inner.memory.put_part(path, id, number, text).await
        };
        self.request(put).await
    }

    async fn complete_multipart(&self, path: &Path, id: &String, parts: Vec<PartId>) -> Result<PutResult> {
        let complete = async {
            assert_eq!(self.inner.uploads.lock().unwrap_or_else(PoisonError::into_inner).remove(id), Some(parts.len()));
            self.inner.memory.complete_multipart(path, id, parts).await
        };
        self.request(complete).await
    }

    async fn abort_multipart(&self, path: &Path, id: &String) -> Result<()> {
        let abort = async {
            let gone = || Error::NotFound { path: path.to_string(), source: "no such upload".into() };
            self.inner.uploads.lock().unwrap_or_else(PoisonError::into_inner).remove(id).ok_or_else(gone)?;
            self.inner.memory.abort_multipart(path, id).await
        };
        self.request(abort).await
    }
}
