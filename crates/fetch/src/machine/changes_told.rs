//! What an unsafe request made invalid (RFC 9111 §4.4), told to the other nodes of this place: what is kept of it is
//! at its home, which may be one of them, and what is asked for often at any.
//!
//! Its home hears of it first, as the others fill themselves from there. An answer waits until all have heard, as far
//! as that takes no time to speak of: whoever sent the request then finds what it has written, whichever node it asks.

use super::asked::Asked;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::{cache_groups, changed, method};
use freshet_origin::director::{View as _, stable_hash};
use freshet_origin::health::Health;
use freshet_origin::{Origin, OriginId, Terms, Waits, exchange_within};
use freshet_site::keys::{as_in_key, key_of};
use freshet_site::sites::SiteRef;
use freshet_worker::errands::Errand;
use freshet_worker::worker::Worker;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout_at};

/// How long an answer waits for homes, and as long again for the others. They are beside this node, and answer within
/// a millisecond or two; who takes longer hears of it all the same.
const HEARD_WITHIN: Duration = Duration::from_millis(500);
/// How long a node may take to hear a word.
const WORD_TIME_MAX: Duration = Duration::from_secs(5);
/// How often a word is said to a node that does not hear it.
const SAID_MAX: u32 = 7;
/// Until it is said again; twice as long each time, so that a node may be away for a minute.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Words of a worker that wait to be heard, of about 1 kB each. What is more is said to nobody.
const WORDS_MAX: u64 = 4096;
/// How often the log tells of words that were not heard.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// When it did last.
static UNHEARD: LogLimit = LogLimit::new();

/// What an answer has made invalid.
pub(super) struct Changes {
    site: SiteRef,
    all: Vec<Change>,
}

/// One resource of them.
struct Change {
    word: Rc<RequestHead>,
    /// Where it is kept, if that is at another node.
    home: Option<OriginId>,
}

impl Asked {
    /// What this answer has made invalid, where other nodes may have something of it.
    pub(super) fn changes(&self, head: &ResponseHead) -> Option<Changes> {
        let (site, client) = (&self.plan.site, &self.plan.client);
        if !site.upstreams.has_siblings() || !method::invalidates(&client.method, head.status) {
            return None;
        }
        let secret = self.worker.shared.cache.secret();
        // They come with the first word: it is of what was asked for, and everybody hears it.
        let mut groups = cache_groups::invalidated(&head.fields);
        let change = |(authority, target): (String, String)| {
            let node = site.node();
            let key = key_of(site, secret, &authority, &target);
            // They need not know what all names of it are here.
            let (authority, target) = as_in_key(site, &authority, &target);
            let named = (authority, &*target);
            let word = changed::word(&node.loop_id, client.scheme, named, mem::take(&mut groups));
            let home = site.upstreams.home(stable_hash(key.text()));
            Change { word: Rc::new(word), home }
        };
        let all = method::invalidated(client, head.status, &head.fields);
        Some(Changes { site: site.clone(), all: all.into_iter().map(change).collect() })
    }
}

impl Changes {
    /// Tells each home.
    pub(super) async fn tell_homes(&self, worker: &Rc<Worker>) {
        let to = |change: &Change, id: OriginId| change.home == Some(id);
        self.tell(worker, to).await;
    }

    /// Tells everybody else.
    pub(super) async fn tell_others(&self, worker: &Rc<Worker>) {
        let to = |change: &Change, id: OriginId| change.home != Some(id);
        self.tell(worker, to).await;
    }

    /// Tells all nodes that are well, and waits for them; tells the rest as well.
    async fn tell(&self, worker: &Rc<Worker>, is_for: impl Fn(&Change, OriginId) -> bool) {
        let board = &self.site.upstreams.board;
        let view = board.at(UnixMillis::now());
        let mut waited_for = Vec::new();
        for id in self.site.upstreams.siblings() {
            let Some(sibling) = board.origin(id) else { continue };
            for change in self.all.iter().filter(|change| is_for(change, id)) {
                let heard = say(worker, sibling, &change.word);
                waited_for.extend(heard.filter(|_| view.health(id) == Health::Up));
            }
        }
        let until = Instant::now() + HEARD_WITHIN;
        for heard in waited_for {
            // That it was not heard ends the wait as well.
            let _ = timeout_at(until, heard).await;
        }
    }
}

/// Has a node told in a task of its own, more than once where it does not hear. What comes back is told when it was
/// said the first time; `None` where too many words wait to be heard.
fn say(
    worker: &Rc<Worker>,
    sibling: &Arc<Origin>,
    word: &Rc<RequestHead>,
) -> Option<oneshot::Receiver<()>> {
    let Some(errand) = Errand::begin(&worker.words, WORDS_MAX) else {
        unheard(worker, sibling, "too many words wait to be heard");
        return None;
    };
    let (worker, sibling, word) = (Rc::clone(worker), Arc::clone(sibling), Rc::clone(word));
    let (first, told) = oneshot::channel();
    spawn_local(async move {
        let mut first = Some(first);
        let mut pause = AGAIN_AFTER;
        for said in 1..=SAID_MAX {
            let outcome = say_once(&worker, &sibling, &word).await;
            drop(first.take());
            match outcome {
                Said::Heard => return,
                Said::Refused => {
                    return unheard(&worker, &sibling, "it does not take this node's word");
                }
                Said::Unheard if said == SAID_MAX => {}
                Said::Unheard => sleep(pause).await,
            }
            pause *= 2;
        }
        unheard(&worker, &sibling, "it is away");
        drop(errand);
    });
    Some(told)
}

/// What came of a word.
enum Said {
    Heard,
    /// The node is there, and does not take it: it knows this one as no peer, or is of an older version.
    Refused,
    Unheard,
}

async fn say_once(worker: &Worker, sibling: &Arc<Origin>, word: &RequestHead) -> Said {
    let limit = Some(WORD_TIME_MAX);
    let waits = Waits { connect: limit, first_byte: limit, between_bytes: limit };
    let terms = Terms { waits, ..Terms::default() };
    let answer = exchange_within(&worker.pool, sibling, word, None, &mut |_| {}, terms).await;
    let Ok(answer) = answer else { return Said::Unheard };
    let status = answer.head.status;
    answer.body.discard().await;
    match status {
        status if changed::is_heard(status) => Said::Heard,
        500..=599 => Said::Unheard,
        _ => Said::Refused,
    }
}

fn unheard(worker: &Worker, sibling: &Origin, why: &str) {
    worker.stats.changes_unheard.increment();
    if let Some(held_back) = UNHEARD.admit(UnixMillis::now(), LOG_EVERY) {
        let sibling = sibling.settings.name.as_str();
        tracing::warn!(sibling, held_back, "a sibling may keep what was changed here: {why}");
    }
}
