//! Whether what a service has said is so still. It is asked for the version its answers rest on, and answers
//! when there is another one; what was remembered before is forgotten then. While it cannot be asked, a yes
//! holds as long as it is remembered: who cannot be reached cannot have let the others know.

use super::Service;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::pool::Pool;
use freshet_origin::{Origin, Terms, Waits, exchange_within};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// How long a service is asked to wait for a change.
const WAIT: Duration = Duration::from_secs(20);
/// How long its answer may be on its way.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause after it was not answered, or answered at once with what was known.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest answer that is read.
const BYTES_MAX: usize = 4 << 10;

/// What is known of changes.
#[derive(Default)]
pub(super) struct Watch {
    /// How often something has changed.
    changes: AtomicU64,
    /// Whether somebody is asking.
    is_on: AtomicBool,
}

impl Watch {
    /// Something to remember with an answer that is asked for from now on, and to compare later.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }
}

/// Has somebody ask for changes of a service from now on, for as long as it is there.
pub(super) fn begin(service: &Arc<Service>, target: &str, pool: &Pool) {
    if service.watch.is_on.swap(true, Relaxed) {
        return;
    }
    let on = On(Arc::downgrade(service));
    let (origin, target, pool) = (Arc::clone(&service.origin), target.to_owned(), pool.clone());
    spawn_local(async move {
        let mut known: Option<String> = None;
        while on.is_wanted() {
            let begun = tokio::time::Instant::now();
            let asking = ask(&pool, &origin, &target, known.as_deref().unwrap_or_default());
            let version = timeout(WAIT_MAX, asking).await.ok().flatten();
            let Some(version) = version else {
                sleep(PAUSE).await;
                continue;
            };
            if known.as_ref() == Some(&version) {
                // One that does not wait is not asked in a circle.
                sleep(PAUSE.saturating_sub(begun.elapsed())).await;
                continue;
            }
            on.note();
            known = Some(version);
        }
    });
}

/// Somebody who asks. When that ends with its worker, the next request begins it again.
struct On(Weak<Service>);

impl On {
    fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }

    fn note(&self) {
        if let Some(service) = self.0.upgrade() {
            service.watch.changes.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for On {
    fn drop(&mut self) {
        if let Some(service) = self.0.upgrade() {
            service.watch.is_on.store(false, Relaxed);
        }
    }
}

/// Which version there is, as its entity tag says: the one that is known, or another as soon as there is one
/// (`wait`, RFC 7240 §4.3).
async fn ask(pool: &Pool, origin: &Arc<Origin>, target: &str, known: &str) -> Option<String> {
    let mut fields = Fields::default();
    fields.append("Prefer", format!("wait={}", WAIT.as_secs()));
    if !known.is_empty() {
        fields.append("If-None-Match", known);
    }
    let request = RequestHead {
        method: Method::Get,
        target: target.into(),
        fields,
        ..RequestHead::default()
    };
    let waits = Waits { first_byte: Some(WAIT_MAX), ..Waits::default() };
    let terms = Terms { waits, ..Terms::default() };
    let asked = exchange_within(pool, origin, &request, None, &mut |_| {}, terms).await;
    let mut response = asked.ok()?;
    // Read to its end, so that the connection can be used again.
    response.body.read_whole(BYTES_MAX).await.ok()?;
    match response.head.status {
        304 => Some(known.to_owned()),
        200..=299 => response.head.fields.get_str("etag").map(str::to_owned),
        _ => None,
    }
}
