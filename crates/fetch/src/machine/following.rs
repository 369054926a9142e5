//! Fetching the next segment of a quality of DASH before a player asks for it.
//!
//! An MPD is of all qualities and says little of new segments: they are made of a template, and players
//! count, or go by its timeline. So it is players who say which qualities are watched, and how far they
//! are: one that had to be fetched for begins it. From then on the segment after the newest that was asked
//! for is fetched as soon as it can be, by the clock or by the timeline of a newer MPD; it is one request to
//! the origin either way. What no player takes ends it: there is never more than one segment too many.

use super::ahead::Example;
use super::asked::Asked;
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_channels::Wanted;
use freshet_channels::limits::{JITTER_SHARE, TARGETS_OF_FOLLOWING};
use freshet_http::message::RequestHead;
use freshet_http::target::key_target;
use freshet_site::policy::FetchKind;
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;

/// How often in a segment's length it is looked whether a player took what was fetched last, and how often
/// that is at most and at least.
const LOOKS: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A quality that is followed, until it is dropped.
struct Following {
    worker: Rc<Worker>,
    template: Box<str>,
    example: Example,
}

impl Asked {
    /// Follows the quality of a segment that a player has asked for.
    pub(super) fn follow(&self, segment: &Key) {
        let is_players = self.plan.kind == FetchKind::Miss;
        if !is_players {
            return;
        }
        let Some(example) = self.example() else { return };
        // Templates are known as the policy has made them: where it makes something else of a request, it
        // is not known how players ask for the next.
        let RequestHead { authority, target, .. } = &self.plan.client;
        let is_as_it_came =
            example.request.authority == *authority && example.request.target == key_target(target);
        if !is_as_it_came {
            return;
        }
        if let Some(template) = self.worker.shared.channels.note_front(segment) {
            let worker = Rc::clone(&self.worker);
            spawn_local(Following { worker, template, example }.run());
        }
    }
}

impl Following {
    async fn run(self) {
        let channels = &self.worker.shared.channels;
        let mut moved = UnixMillis::now();
        while self.goes_on() {
            let Some(coming) = channels.coming(&self.template) else { return };
            let now = UnixMillis::now();
            let look = (coming.target / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
            let is_taken = coming.before.is_none_or(|before| self.was_taken(&before));
            let wait = match coming.next.filter(|_| is_taken) {
                Some((value, next, at)) => {
                    let due = at.plus(self.jitter(&next, coming.target));
                    if due > now {
                        Duration::from_millis(due.0 - now.0)
                    } else {
                        let target = target_of(&next).to_owned();
                        let wanted = Wanted { target, range: None };
                        if self.example.send(&self.worker, &wanted) {
                            channels.advance(&self.template, value);
                            moved = now;
                        }
                        look
                    }
                }
                None => look,
            };
            // That is also what ends it where a clock is wrong.
            let patience = coming.target * TARGETS_OF_FOLLOWING;
            if now.since(moved) > patience || wait > patience {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Whether its configuration is in force, and its worker stays.
    fn goes_on(&self) -> bool {
        !self.worker.is_draining() && self.example.site.is_of(&self.worker.snapshot())
    }

    /// Whether a player got a segment that was fetched ahead.
    fn was_taken(&self, text: &str) -> bool {
        let key = self.example.key(&self.worker, target_of(text));
        let known = key.map(|key| self.worker.shared.cache.peek(&key).variants);
        known.is_some_and(|known| known.iter().any(|object| object.hits() > 0))
    }

    /// How much later than it can be a segment is asked for: by its name and this node, so that nodes do
    /// not ask at once.
    fn jitter(&self, text: &str, target: Duration) -> Duration {
        let most_ms = u64::try_from((target / JITTER_SHARE).as_millis()).unwrap_or(0);
        let key = self.example.key(&self.worker, target_of(text));
        let by_name = key.map_or(0, |key| u64::try_from(key.hash() >> 64).unwrap_or(0));
        Duration::from_millis(by_name % (most_ms + 1))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.worker.shared.channels.forget_front(&self.template);
    }
}

/// The target in the text of a key.
fn target_of(text: &str) -> &str {
    text.rsplit('\0').next().unwrap_or_default()
}
