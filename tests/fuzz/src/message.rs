//! Messages of the log, which users and other versions write.

use bytes::Bytes;
use orbweaver_messages::{
    ArchiveFile, CompletionAnswer, CompletionProbe, ConsumerGroups, CrawlDefinition, CrawlEvent, DeadLetter,
    Discovered, Dispatch, Document, FrontierUrl, Outcome, Page, PageChange, PageCount, ReadyDispatch, ScopeEntry, Seed,
    SeenBatch, SitePages, SiteSettings, SiteState, decode, encode,
};
use serde::{Serialize, de::DeserializeOwned};

const MESSAGES: [fn(&[u8]); 22] = [
    round_trip::<Seed>,
    round_trip::<Discovered>,
    round_trip::<FrontierUrl>,
    round_trip::<Dispatch>,
    round_trip::<ReadyDispatch>,
    round_trip::<Outcome>,
    round_trip::<Page>,
    round_trip::<ArchiveFile>,
    round_trip::<PageChange>,
    round_trip::<Document>,
    round_trip::<SiteState>,
    round_trip::<SitePages>,
    round_trip::<CrawlDefinition>,
    round_trip::<CrawlEvent>,
    round_trip::<ScopeEntry>,
    round_trip::<PageCount>,
    round_trip::<CompletionProbe>,
    round_trip::<CompletionAnswer>,
    round_trip::<ConsumerGroups>,
    round_trip::<SiteSettings>,
    round_trip::<DeadLetter>,
    seen,
];

/// The first byte of the input chooses the message, the others are its value.
pub(crate) fn check(data: &[u8]) {
    let Some((first, value)) = data.split_first() else { return };
    MESSAGES[usize::from(*first) % MESSAGES.len()](value);
}

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &[u8]) {
    let Ok(message) = decode::<T>("message", Some(&Bytes::copy_from_slice(value))) else { return };
    let read: T = decode("message", Some(&encode(&message))).expect("a written message can be read");
    assert_eq!(encode(&read), encode(&message), "a message reads as it was written");
}

fn seen(value: &[u8]) {
    if let Ok(batch) = SeenBatch::decode(Some(&Bytes::copy_from_slice(value))) {
        assert_eq!(SeenBatch::decode(Some(&batch.encode())).as_ref().map(SeenBatch::encode), Ok(batch.encode()));
    }
}
