//! Look-up, hit and miss.

use super::away::within;
use super::{Found, Machine, State};
use crate::client_exchange::Reply;
use freshet_base::clock::UnixMillis;
use freshet_cache::{
    Asker, Failure, Key, Left, LeftBy, Lookup, MissWhy, Object, Selecting, Ticket, Use,
    WaitOutcome, Waiter,
};
use freshet_fetch::selecting::Selection;
use freshet_fetch::{Cause, Fetched, Plan};
use freshet_http::cache_control::RequestCacheControl;
use freshet_http::fields::Fields;
use freshet_http::freshness::Reuse;
use freshet_http::message::Method;
use freshet_http::range::{RangeRequest, RangeSpec};
use freshet_http::reason::Reason;
use freshet_site::client_body::RequestBody;
use freshet_site::keys::id_of;
use freshet_site::policy::{ClientTask, Hit, Miss};
use freshet_site::shares::TRANSIENT;
use freshet_site::upkeep::keep_of;
use freshet_site::usable::Asked;
use freshet_telemetry::transcript::Tag;
use freshet_worker::copies;
use freshet_worker::keepers::{Used, Wanted};
use std::sync::Arc;
use tokio::time::timeout;

/// What a request that found nothing usable goes on with.
pub(super) struct Missed {
    pub(super) ticket: Ticket,
    pub(super) stale: Option<Arc<Object>>,
}

impl Machine<'_> {
    /// How long what is stored has to be for this request: a packager writes on to a file whose parts are
    /// segments, and what was stored of it may be from before the playlist named this one.
    fn length_min(&self) -> u64 {
        let ClientTask { site, request, .. } = &self.task;
        let channels = &self.worker.shared.channels;
        if channels.have_none() {
            return 0;
        }
        let end = match request.fields.get("range").and_then(RangeRequest::parse) {
            Some(RangeRequest::One(RangeSpec::FromTo(_, last))) => last.saturating_add(1),
            Some(RangeRequest::One(RangeSpec::From(first))) => first.saturating_add(1),
            _ => return 0,
        };
        let secret = self.worker.shared.cache.secret();
        let key = id_of(site, secret, &request.authority, &request.target);
        channels.named_end(&key).map_or(0, |named| named.min(end))
    }

    /// From where in the order of purges on what is stored is known to be what the channel means that names it:
    /// its packager may have given the name to something else since. A query that players add changes nothing.
    fn doubted_below(&self) -> u64 {
        let ClientTask { site, request, .. } = &self.task;
        let channels = &self.worker.shared.channels;
        if !channels.doubt_any() || !site.settings.media.read {
            return 0;
        }
        let secret = self.worker.shared.cache.secret();
        let of = |target| channels.doubted_below(&id_of(site, secret, &request.authority, target));
        let path = request.target.split_once('?').map_or(0, |(path, _)| of(path));
        of(&request.target).max(path)
    }

    /// Finds an object, waits for another's fetch, or gets the turn to fetch.
    pub(super) async fn lookup(&mut self) -> State {
        let key = self.key();
        if let Some(state) = self.reload() {
            return state;
        }
        let (cache, group) = (Arc::clone(&self.worker.shared.cache), self.worker.group);
        let mut collapsed = false;
        let mut asked_keepers = self.task.hash_always_miss;
        let mut may_recode = self.task.name_coding();
        // Whoever looks for nothing stored, or for nothing that is on its way, waits for none of it either.
        let asker = match self.task.hash_ignore_busy || self.task.hash_always_miss {
            true => Asker::Hurried,
            false => Asker::Client,
        };
        let length_min = self.length_min();
        let came = cache.usable_from(self.task.now);
        self.task.left_by = None;
        let doubted_below = self.doubted_below();
        let (mut is_taken_back, mut has_ended) = (false, false);
        loop {
            self.hold = None;
            // Where the fence came down meanwhile, what was purged is gone.
            let fence = cache.fenced_below(self.task.now).min(came).max(doubted_below);
            let asked = Asked::new(&self.task, fence, collapsed);
            let (selection, now) = (Selection::of(&self.task), self.task.now);
            let is_outgrown = |object: &Object| {
                length_min > 0 && object.body().total().is_some_and(|total| total < length_min)
            };
            let classify = &mut |object: &Object| match is_outgrown(object) {
                true => Use::Ignore,
                false => {
                    let usage = asked.classify(object);
                    is_taken_back |= usage == Use::Ignore && asked.is_for_one(object);
                    usage
                }
            };
            let request = (&selection as &dyn Selecting, self.task.hash_ignore_vary);
            let found = cache.lookup_from(group, &key, request, asker, now, classify);
            if is_taken_back && !std::mem::replace(&mut has_ended, true) {
                drop(found);
                self.end_taken_back(&key, &asked);
                continue;
            }
            match found {
                Lookup::Hit { object, refresh } => {
                    if self.forget_banned(&object) {
                        drop(refresh);
                        continue;
                    }
                    let reason = match (asked.reuse(&object), &refresh) {
                        _ if collapsed => Reason::HitFilling,
                        (Reuse::Fresh, _) => Reason::Hit,
                        _ => Reason::HitStale,
                    };
                    if refresh.is_some() {
                        self.keep_body().await;
                    }
                    return self.found(object, refresh, reason, collapsed);
                }
                Lookup::Miss { ticket, stale, why } => {
                    self.task.reason = match why {
                        MissWhy::UriMiss => Reason::Miss,
                        MissWhy::VaryMiss => Reason::MissVary,
                        MissWhy::Stale if asked.is_fenced(stale.as_deref()) => Reason::MissFenced,
                        MissWhy::Stale => Reason::MissExpired,
                        MissWhy::Request => Reason::MissRequest,
                    };
                    let is_new = matches!(why, MissWhy::UriMiss | MissWhy::VaryMiss);
                    let ticket = match self.ask_keepers(ticket, is_new, &mut asked_keepers).await {
                        Ok(()) => continue,
                        Err(ticket) => ticket,
                    };
                    let is_other = matches!(why, MissWhy::VaryMiss | MissWhy::Stale);
                    let ticket = if is_other && std::mem::take(&mut may_recode) {
                        let asked = Asked::new(&self.task, fence, collapsed);
                        match self.recode(&key, ticket, stale.as_deref(), &asked) {
                            Ok(()) => continue,
                            Err(ticket) => ticket,
                        }
                    } else {
                        ticket
                    };
                    let stale = self.hold(stale);
                    return State::Miss(Box::new(Missed { ticket, stale }));
                }
                Lookup::HitForMiss { left_by, left, ticket, stale } => {
                    if left.is_some_and(|left| self.forget_banned_left(&left, left_by)) {
                        drop(ticket);
                        continue;
                    }
                    self.task.reason = Reason::HitForMiss;
                    // Who looks for nothing finds no marker either.
                    self.task.left_by = Some(left_by).filter(|_| !self.task.hash_always_miss);
                    let is_new = stale.is_none();
                    let ticket = match self.ask_keepers(ticket, is_new, &mut asked_keepers).await {
                        Ok(()) => continue,
                        Err(ticket) => ticket,
                    };
                    let stale = self.hold(stale);
                    return State::Miss(Box::new(Missed { ticket, stale }));
                }
                Lookup::Wait { waiter, stale } => {
                    if asked.only_if_cached {
                        return self.only_if_cached();
                    }
                    if !std::mem::replace(&mut collapsed, true) {
                        self.worker.stats.waits.increment();
                    }
                    let stale = self.hold(stale);
                    if let Some(state) = self.wait(waiter, stale).await {
                        return state;
                    }
                }
                Lookup::Crowded { stale } => {
                    let failure = Cause::Crowded.failure("too many wait for one fetch");
                    return self.failed(&failure, stale);
                }
            }
        }
    }

    /// An object is what the request gets: those are told who keep responses besides, or would have it.
    #[inline]
    fn found(
        &mut self,
        object: Arc<Object>,
        refresh: Option<Ticket>,
        reason: Reason,
        collapsed: bool,
    ) -> State {
        let (site, original) = (&self.task.site, object.original());
        let selection = Selection::of(&self.task);
        let request = match object.variation() {
            Some(variation) => selection.fields(&variation.rule),
            None => &self.task.request.fields,
        };
        self.worker.shared.keepers.used(Used { site, object: original, request });
        copies::note_use(self.worker, &object);
        if let Some(taking) = self.worker.shared.taking.get() {
            taking.want(&object);
        }
        self.note_hit(&object);
        State::Hit(Box::new(Found {
            object,
            reason,
            hit: !collapsed,
            origin: None,
            stored: false,
            collapsed,
            sent: None,
            for_one: Fields::new(),
            refresh,
            _hold: None,
        }))
    }

    /// Waits for another's fetch: where that leads, unless it is looked for once more.
    async fn wait(&mut self, waiter: Waiter, stale: Option<Arc<Object>>) -> Option<State> {
        let patience = self.patience(stale.as_deref());
        let waiting = within(patience, waiter);
        let outcome = match self.circle_patience() {
            Some(limit) => match timeout(limit, waiting).await {
                Ok(outcome) => outcome,
                Err(_) => return Some(State::Pass),
            },
            None => waiting.await,
        };
        self.task.transcript.timestamp("Waitinglist");
        match outcome {
            Ok(WaitOutcome::Failed(failure)) => Some(self.failed(&failure, stale)),
            Err(late) => Some(self.failed(&late, stale)),
            Ok(_) => None,
        }
    }

    /// Ends what was stored while the site gave cookies to all, in memory and on disks: it gives them to one now.
    fn end_taken_back(&self, key: &Key, asked: &Asked<'_>) {
        let shared = &self.worker.shared;
        let born = shared.disks.as_ref().map_or(0, |disks| disks.born());
        let stored = shared.cache.peek(key).variants;
        for object in stored.iter().filter(|object| asked.is_for_one(object)) {
            shared.end(object, born);
        }
    }

    /// Makes the response of one that is stored in another coding.
    fn recode(
        &self,
        key: &Arc<Key>,
        ticket: Ticket,
        stale: Option<&Object>,
        asked: &Asked<'_>,
    ) -> Result<(), Ticket> {
        freshet_fetch::recode(self.worker, &self.task, key, ticket, stale, |object| {
            if self.forget_banned(object) { Use::Ignore } else { asked.classify(object) }
        })
    }

    /// Brings what else keeps the resource into memory, once for a request.
    async fn ask_keepers(
        &mut self,
        ticket: Ticket,
        is_new: bool,
        asked: &mut bool,
    ) -> Result<(), Ticket> {
        if !is_new || std::mem::replace(asked, true) {
            return Err(ticket);
        }
        let key = self.key();
        let request = &self.task.request;
        let whole = request.method != Method::Head && !request.fields.contains("range");
        let selection = Selection::of(&self.task);
        let wanted = Wanted { key: &key, request, selection: &selection, whole };
        self.worker.shared.keepers.restore(self.worker, wanted, ticket).await
    }

    /// Keeps a stale object's bytes from being dropped by others while the origin is asked; `None`
    /// where they may be gone already.
    fn hold(&mut self, stale: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let stale = stale.filter(|stale| !self.forget_banned(stale))?;
        self.hold = Some(stale.body().reader(..));
        Some(stale).filter(|stale| stale.is_indexed())
    }

    /// Takes an object that is banned out of the cache; whether it is.
    pub(super) fn forget_banned(&self, object: &Arc<Object>) -> bool {
        let shared = &self.worker.shared;
        let is_banned = shared.bans.bans(object, &self.task.request);
        if is_banned {
            let id = object.with_head(|head| head.fetch_id);
            self.task.transcript.note(Tag::ExpBan, format_args!("{id} banned lookup"));
            shared.cache.forget(object);
        }
        is_banned
    }

    /// Takes back what a response left that was not kept, where it is banned; whether it is.
    fn forget_banned_left(&self, left: &Arc<Left>, left_by: LeftBy) -> bool {
        let shared = &self.worker.shared;
        let is_banned = shared.bans.bans_left(left, &self.task.request);
        if is_banned {
            let text = format_args!("{} banned lookup", left_by.fetch_id);
            self.task.transcript.note(Tag::ExpBan, text);
            shared.cache.forget_left(left);
        }
        is_banned
    }

    /// Whether what this fetch left of a response that was not kept has ended before its time.
    pub(super) fn is_over(&mut self, fetch: u64) -> bool {
        let key = self.key();
        let markers = self.worker.shared.cache.peek(&key).markers;
        let marker = markers.into_iter().find(|marker| marker.left_by.fetch_id == fetch);
        marker.is_none_or(|marker| {
            marker.left.is_some_and(|left| self.forget_banned_left(&left, marker.left_by))
        })
    }

    pub(super) fn hit(&mut self, mut found: Found) -> State {
        let site = self.task.site.clone();
        let policy = &*site.policy;
        if policy.may_purge() {
            found._hold = Some(found.object.body().reader(..));
        }
        let outcome = policy.hit(&mut self.task, &found.object);
        let [taken, taken_stale] = &self.worker.stats.taken;
        if matches!(outcome, Hit::Deliver | Hit::Pass) {
            taken.increment();
        }
        match outcome {
            Hit::Deliver => {
                if found.reason == Reason::HitStale {
                    taken_stale.increment();
                }
                // As the policy left the request, and only where what is stored answers it.
                if let Some(ticket) = found.refresh.take() {
                    self.refresh(ticket, &found.object);
                }
                self.task.note_body_read("malloc", TRANSIENT);
                State::Deliver(Box::new(found))
            }
            Hit::Pass => State::Pass,
            Hit::Restart => State::Restart(None),
            Hit::Synth(status, reason) => State::Synth(status, reason),
        }
    }

    pub(super) async fn miss(&mut self, missed: Missed) -> State {
        let asked = RequestCacheControl::from_fields(&self.task.request.fields);
        if asked.only_if_cached {
            return self.only_if_cached();
        }
        let site = self.task.site.clone();
        let policy = &*site.policy;
        match policy.miss(&mut self.task) {
            Miss::Fetch => {}
            Miss::Pass => return State::Pass,
            Miss::Restart => return State::Restart(None),
            Miss::Synth(status, reason) => return State::Synth(status, reason),
        }
        self.worker.stats.misses.increment();
        let key = self.key();
        let Missed { mut ticket, mut stale } = missed;
        // What the policy has purged or banned is not what is asked for now.
        ticket.begin_now();
        if policy.may_purge() {
            stale = stale.filter(|stale| stale.is_indexed());
        }
        let patience = self.patience(stale.as_deref());
        let old = stale.clone();
        let plan = Plan::miss(&mut self.task, key, ticket, stale);
        // A policy may look up what is no GET, and drops the body of what is.
        let body = site.semantics.sends_content_of_lookups.then(|| self.take_body()).flatten();
        let plan = plan.with_body(body).telling(&self.interim);
        let fetched = within(patience, freshet_fetch::start(self.worker, plan)).await;
        let late = |failure| Fetched::Failed { failure: Arc::new(failure), stale: old };
        State::Fetched(Box::new(fetched.unwrap_or_else(late)))
    }

    /// Reads the request's body, where a policy may want to send it behind the response.
    async fn keep_body(&mut self) {
        if !self.task.site.semantics.sends_content_of_lookups {
            return;
        }
        if let Some(body) = self.body.take() {
            let charge = self.task.charge.as_deref();
            self.body = body.keep(super::KEPT_BYTES_MAX, charge).await.ok();
        }
    }

    pub(super) fn note_hit(&self, object: &Object) {
        let transcript = &self.task.transcript;
        if !transcript.is_on() {
            return;
        }
        // From when the request came, also where it was restarted since.
        let (until, came) = (object.freshness().fresh_until().0, self.task.received.0);
        // What is in its grace has less than nothing left, if it is less than a millisecond.
        #[allow(clippy::cast_precision_loss, reason = "times are far below 2^52 ms")]
        let ttl = -((came as f64 - until as f64) / 1000.0);
        let keep = keep_of(object).as_secs_f64();
        let (id, grace) = object.with_head(|head| {
            (head.fetch_id, head.freshness.stale_while_revalidate().as_secs_f64())
        });
        let body = object.body();
        if body.is_complete() {
            transcript.note(Tag::Hit, format_args!("{id} {ttl:.6} {grace:.6} {keep:.6}"));
            return;
        }
        // How much of it has come, and how much will in all where that is known.
        let (came, total) = (body.gap(u64::MAX).start, body.total());
        let total = total.map(|total| format!(" {total}")).unwrap_or_default();
        let text = format_args!("{id} {ttl:.6} {grace:.6} {keep:.6} {came}{total}");
        transcript.note(Tag::Hit, text);
    }

    /// Has a stale object refreshed while it is served.
    fn refresh(&mut self, ticket: Ticket, object: &Arc<Object>) {
        let plan = Plan::refresh(&mut self.task, ticket, object);
        let plan = plan.with_body(self.body.as_ref().and_then(RequestBody::again));
        freshet_fetch::start_behind(self.worker, plan);
    }

    /// RFC 9111 §5.2.1.7: nothing stored fits and the client wants nothing else.
    pub(super) fn only_if_cached(&mut self) -> State {
        self.task.reason = Reason::OnlyIfCached;
        State::Synth(504, None)
    }

    /// Whether an object that may have been purged elsewhere is better not served at all.
    fn refuses(&self, object: &Object) -> bool {
        let settings = &self.task.site.node().settings;
        settings.fleet.as_ref().is_some_and(|fleet| fleet.refuses)
            && object.born_seq() < self.worker.shared.cache.fenced_below(self.task.now)
    }

    /// A fetch failed: a stale object helps where it may, else the client is told.
    pub(super) fn failed(&mut self, failure: &Failure, stale: Option<Arc<Object>>) -> State {
        // What was purged meanwhile is not old but wrong.
        let stale = stale.filter(|object| object.is_indexed() && !self.refuses(object));
        let stale = stale.filter(|object| may_serve_on_error(object, self.task.now));
        let away = self.channel_is_away(failure, stale.is_some());
        let failure = away.as_ref().unwrap_or(failure);
        if let Some(object) = stale.filter(|_| away.is_none()) {
            return State::Deliver(Box::new(Found {
                object,
                reason: Reason::HitStaleOnError,
                hit: true,
                origin: None,
                stored: false,
                collapsed: false,
                sent: None,
                for_one: Fields::new(),
                refresh: None,
                _hold: None,
            }));
        }
        if self.task.site.semantics.pages_failures {
            self.task.reason = failure.reason;
            return State::Synth(503, None);
        }
        State::Done(Reply::Response(Box::new(super::synth::failure(self, failure))))
    }
}

/// Whether an object may be served because the origin fails. A soft purge does not forbid it: the
/// content is old, not wrong.
pub(super) fn may_serve_on_error(object: &Object, now: UnixMillis) -> bool {
    object.with_head(|head| head.may_serve_on_error(now))
}
