//! Records as they are without a rule.

use orbweaver_log::{ConsumerRecord, MemoryLog, Record};
use orbweaver_messages::{Millis, topic};
use orbweaver_stage::CLAIM_HEADER;
use serde_json::Value;

/// Returns the JSON of a record's value; `Null` for a tombstone or invalid JSON.
fn json(value: Option<&[u8]>) -> Value {
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}

fn change(record: &mut Record, change: impl FnOnce(&mut Value)) {
    let mut value = json(record.value.as_deref());
    if value.is_object() {
        change(&mut value);
        record.value = Some(value.to_string().into());
    }
}

/// Gives a record of a site the same epoch for every owner.
pub(super) fn of_any_epoch(site: &mut Record) {
    change(site, |site| site["epoch"] = u32::MAX.into());
}

/// Gives a dispatch an unlimited lifetime.
pub(super) fn without_end(dispatch: &mut Record) {
    change(dispatch, |dispatch| {
        for field in ["not_after_ms", "expires_ms"] {
            dispatch[field] = Value::from(i64::from(u32::MAX) * 1_000);
        }
    });
}

/// Removes the time of the previous write from a dispatch.
pub(super) fn without_write_time(dispatch: &mut Record) {
    change(dispatch, |dispatch| dispatch["written_at_ms"] = 0.into());
}

/// Makes a dispatch request the canonical form.
pub(super) fn as_its_key(dispatch: &mut Record) {
    change(dispatch, |dispatch| {
        let context = &mut dispatch["context"];
        if context["key"].is_string() {
            context["url"] = context["key"].clone();
        }
    });
}

/// Removes the chain of redirects from a discovered URL.
pub(super) fn without_chain(discovered: &mut Record) {
    change(discovered, |discovered| discovered["chain"] = Value::Array(vec![]));
}

/// Turns a deferral into a failed request.
pub(super) fn as_an_attempt(outcome: &mut Record) {
    change(outcome, |outcome| {
        if outcome["kind"] == "deferred" {
            outcome["kind"] = "retry".into();
            for field in ["requested_at_ms", "answered_at_ms"] {
                outcome[field] = outcome["ended_at_ms"].clone();
            }
        }
    });
}

/// Gives a URL that is admitted again the depth of its first record.
pub(super) fn at_first_depth(waiting: &mut Record, log: &MemoryLog) {
    if waiting.headers.iter().any(|(name, _)| *name == CLAIM_HEADER) {
        return;
    }
    let before = log.records(waiting.tp);
    let first = before.iter().find(|before| before.key == waiting.key && before.value.is_some());
    let Some(depth) = first.map(|first| json(first.value.as_deref())["context"]["depth"].clone()) else { return };
    change(waiting, |waiting| waiting["context"]["depth"] = depth);
}

/// Makes a definition replace any version.
pub(super) fn without_version(setting: &mut ConsumerRecord) {
    let mut value = json(setting.value.as_deref());
    if value.as_object_mut().is_some_and(|fields| fields.remove("replaces").is_some()) {
        setting.value = Some(value.to_string().into());
    }
}

/// Moves an outcome in time so that it ended at `now`.
pub(super) fn as_of(now: Millis, outcome: &mut ConsumerRecord) {
    let mut value = json(outcome.value.as_deref());
    let Some(ended_ms) = value["ended_at_ms"].as_i64().filter(|_| outcome.tp.topic == topic::OUTCOMES) else {
        return;
    };
    for field in ["requested_at_ms", "answered_at_ms", "ended_at_ms", "blocked_until_ms"] {
        if let Some(moment_ms) = value[field].as_i64() {
            value[field] = (moment_ms + now - ended_ms).into();
        }
    }
    outcome.value = Some(value.to_string().into());
}
