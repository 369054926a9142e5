//! An answer that belongs to a presentation, and one that is its manifest.

use super::asked::Asked;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Form, Key, Object, Purge, StoredHead};
use freshet_channels::limits::{HANDED_OVER_WAIT, TARGETS_OF_BEHIND};
use freshet_channels::{
    Advice, Belongs, Directives, Keeping, Known, Last, Noted, Opened, Piece, Place, Reached, Seen,
    Skip, Track, Version, Wanted, bytes_of, format_of, without_directives,
};
use freshet_config::storage::Storage;
use freshet_content::chain::Filter;
use freshet_http::coding::Coding;
use freshet_http::freshness::{Freshness, Given, InPlaceOf, Settings, Storability, storability};
use freshet_http::message::ResponseHead;
use freshet_http::range::RangeRequest;
use freshet_http::reason::Reason;
use freshet_http::target;
use freshet_media::cmsd::Static;
use freshet_media::hls;
use freshet_media::limits::MANIFEST_BYTES_MAX;
use freshet_media::{
    Class, Course, Format, Kind, Manifest, Name, Unreadable, cmsd, mpd, read_given,
};
use freshet_site::keys::{facts_of, id_of, key_of};
use freshet_site::policy::{Answer, FetchKind};
use freshet_site::upkeep::{Upkeep, upkeep_of};
use freshet_store::{Body, Next};
use freshet_wire::h1::Framing;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A manifest that has come.
pub(super) struct Read {
    bytes: Vec<u8>,
    manifest: Manifest,
    /// Whether it took the place of one that was further.
    is_set_back: Cell<bool>,
    /// Whether its packager had stood still, and may have started again.
    has_stood: Cell<bool>,
}

/// Whether an answer of this status has something of what was asked for.
fn is_content(status: u16) -> bool {
    matches!(status, 200 | 206)
}

impl Asked {
    /// Waits for what belongs to a channel for as long as it may be late: all who ask for it wait for this one
    /// answer. That is longer than usual for one that a packager holds back until there is news, and shorter
    /// for any other of a live channel, so that one request that gets no answer costs no more than its time.
    pub(super) fn await_news(&mut self) {
        if !self.reads_media() || self.worker.shared.channels.is_empty() {
            return;
        }
        let target = &self.plan.client.target;
        let own = &self.plan.site.settings.origin_timeouts;
        let about = match self.belongs(target, self.task.now) {
            Some(Belongs::Manifest(about)) => Some(about),
            Some(Belongs::Named(about, ..)) if about.class == Class::Live => Some(about),
            _ => None,
        };
        let wait = about.and_then(|about| about.late_max());
        let directives = Directives::of(target);
        let is_held = directives.sequence.is_some();
        let waits_for_segment = is_held && directives.part.is_none();
        self.silence_max = about.and_then(|about| about.silence_max(waits_for_segment));
        let waits = &mut self.task.waits;
        waits.first_byte = wait
            .filter(|wait| if is_held { *wait > own.first_byte } else { *wait < own.first_byte });
        waits.between_bytes = wait.filter(|wait| *wait < own.between_bytes);
    }

    /// When the answer was asked for, as far as that says how old it is (RFC 9111 §4.2.3). What a
    /// packager holds back until there is news it makes when it sends it.
    pub(super) fn asked_at(&self) -> UnixMillis {
        let is_held =
            self.reads_media() && Directives::of(&self.plan.client.target).sequence.is_some();
        if is_held { self.task.now } else { self.request_time }
    }

    /// Brings an answer in line with the channel it belongs to, where it does, and says what it is.
    pub(super) fn advise(&self, answer: &mut Answer) {
        if !self.reads_media() || self.plan.kind == FetchKind::Pass {
            return;
        }
        let advice = self.advise_of_channel(answer);
        self.leave_to_rules(answer);
        if self.plan.site.settings.media.cmsd {
            self.tell(advice.map(|advice| advice.told()).unwrap_or_default(), answer);
        }
    }

    /// What follows from the channel that an answer belongs to.
    fn advise_of_channel(&self, answer: &mut Answer) -> Option<Advice> {
        let (target, now) = (&self.plan.client.target, self.task.now);
        let belongs = self.belongs(target, now)?;
        let advice = Advice::of(belongs, target, answer.head.status, now)?;
        answer.media = Some(advice);
        let head = &answer.head;
        self.outlive(&advice, head, &mut answer.freshness);
        let judge = |given: Given| {
            let settings = Settings { given: Some(given), ..self.freshness() };
            storability(&self.received(head.status, &head.fields), &settings)
        };
        let kept = Keeping {
            freshness: &mut answer.freshness,
            uncacheable: &mut answer.uncacheable,
            storage: &mut answer.storage,
            keep: &mut answer.keep,
            judge: &judge,
        };
        advice.apply(kept, self.plan.site.settings.media.overrides, now);
        if is_content(answer.head.status) && matches!(belongs, Belongs::Named(..)) {
            self.follow(&self.key_of(&self.plan.client.authority, target));
        }
        self.count(&advice, answer);
        Some(advice)
    }

    /// Has a playlist without a lifetime outlive it as far as the site has others do: that it is asked for each time says
    /// how soon it changes, and not that it is one user's.
    fn outlive(&self, advice: &Advice, head: &ResponseHead, freshness: &mut Freshness) {
        if !advice.is_of_playlist() || !freshness.lifetime().is_zero() {
            return;
        }
        let given = Given { lifetime: Duration::from_millis(1), in_place_of: InPlaceOf::Lifetime };
        let settings = Settings { given: Some(given), ..self.freshness() };
        let received = self.received(head.status, &head.fields);
        if let Storability::Store(others) = storability(&received, &settings) {
            freshness.set_stale_while_revalidate(others.stale_while_revalidate());
            freshness.set_stale_if_error(others.stale_if_error());
        }
    }

    /// Tells players what an object is and what comes behind it, where its origin tells them nothing.
    fn tell(&self, told: Static, answer: &mut Answer) {
        let head = &mut answer.head;
        if head.fields.contains(cmsd::STATIC_NAME) {
            return;
        }
        let next = if is_content(head.status) { self.next() } else { None };
        let (next, next_range) = next.map(|Wanted { target, range }| (target, range)).unzip();
        let next = next.map(|next| target::relative(&self.plan.client.target, &next).to_owned());
        let told = Static { next, next_range: next_range.flatten(), ..told };
        if let Some(told) = told.value() {
            head.fields.append(cmsd::STATIC_NAME, told);
        }
    }

    /// What players ask for behind this.
    fn next(&self) -> Option<Wanted> {
        let (shared, client) = (&self.worker.shared, &self.plan.client);
        let key = self.id_of(&client.authority, &client.target);
        let whole = |target: String| Wanted { target, range: None };
        let range = client.fields.get("range").and_then(RangeRequest::parse);
        let start = range.map_or(0, |range| range.start());
        shared.channels.next_of(&key).map(whole).or_else(|| shared.films.next_of(&key, start))
    }

    /// Whether an origin does not have, by this status, a channel's manifest or what that names now: another
    /// one may.
    pub(super) fn lacks_known(&self, status: u16) -> bool {
        let is_known = || {
            let belongs = self.belongs(&self.plan.client.target, self.task.now);
            matches!(belongs, Some(Belongs::Manifest(_) | Belongs::Named(..)))
        };
        matches!(status, 404 | 410)
            && self.plan.kind != FetchKind::Pass
            && self.reads_media()
            && is_known()
    }

    /// What it belongs to.
    fn belongs(&self, target: &str, now: UnixMillis) -> Option<Belongs> {
        let authority = &self.plan.client.authority;
        let key_of = |target: &str| self.key_of(authority, target);
        self.worker.shared.channels.of_request(target, now, key_of)
    }

    /// Holds an answer until it is whole that is a manifest, to read it.
    pub(super) fn hold_manifest(&self, answer: &mut Answer, framing: &Framing) {
        let has_parts = answer.filters.iter().any(Filter::makes_page);
        let is_whole = answer.head.status == 200 && !has_parts;
        if !is_whole || !self.reads_media() || self.plan.ticket.is_none() {
            return;
        }
        let format = format_of(&answer.head.fields, framing, &self.plan.client.target);
        if let Some(format) = format {
            answer.manifest = Some(Seen { format, may_shorten: !answer.has_own_life });
            answer.stream = false;
        }
    }

    /// Whether an answer is a part of a manifest: the next one of which is another, and which is of use as a
    /// whole only.
    pub(super) fn is_part_of_manifest(&self, answer: &Answer) -> bool {
        let kind = answer.head.fields.get("content-type");
        answer.head.status == 206
            && self.reads_media()
            && Format::of(kind, &self.plan.client.target).is_some()
    }

    /// How much of an answer is read before anybody sees it.
    pub(super) fn ahead_bytes_max(&self, answer: &Answer) -> u64 {
        let bytes_max = self.plan.site.object_bytes_max(&self.worker.shared.cache);
        if answer.manifest.is_some() { bytes_max.min(MANIFEST_BYTES_MAX as u64) } else { bytes_max }
    }

    /// Reads a manifest of which `length` bytes are all there are.
    pub(super) fn read_manifest(
        &self,
        answer: &Answer,
        form: Form,
        body: &Arc<Body>,
        length: u64,
    ) -> Option<Read> {
        let seen = answer.manifest?;
        let fields = &answer.head.fields;
        let coding = Coding::of(fields).or_else(|| form.gzip.then_some(Coding::Gzip));
        let is_other = coding.is_none() && fields.contains("content-encoding");
        let bytes = bytes_of(body, length, coding).filter(|_| !is_other);
        let stats = &self.worker.stats;
        let manifest = bytes.as_deref().map(|bytes| self.read(seen.format, bytes));
        let (bytes, manifest) = match (bytes, manifest) {
            (Some(bytes), Some(Ok(manifest))) => (bytes, manifest),
            (_, unread) => {
                stats.media_unreadable.increment();
                let why = unread.and_then(Result::err).map(|why| why.to_string());
                let why = why.as_deref().unwrap_or("its coding is none that is taken off here");
                tracing::debug!(key = %self.plan.key, "a manifest was not read: {why}");
                return None;
            }
        };
        stats.media_manifests.increment();
        let (is_set_back, has_stood) = (Cell::new(false), Cell::new(false));
        Some(Read { bytes, manifest, is_set_back, has_stood })
    }

    /// Reads a manifest, with the variables that it may take from its own URL and from the playlist that
    /// names it.
    fn read(&self, format: Format, bytes: &[u8]) -> Result<Manifest, Unreadable> {
        let (authority, target) = (&self.plan.client.authority, &self.plan.client.target);
        let id = self.id_of(authority, target);
        let imported = self.worker.shared.channels.variables_of(&id);
        let query = target.split_once('?').map_or("", |(_, query)| query);
        read_given(format, bytes, &hls::Given { query, imported: imported.as_deref() })
    }

    /// Whether a version that has come takes the place of the stored one. It does not where it is behind
    /// that: then the stored one, which stays, is returned.
    pub(super) async fn place_manifest(&self, read: &Read, body: &Body) -> Option<Arc<Object>> {
        // What an operator wants anew, or may want so elsewhere, is taken as it comes.
        let fence = self.worker.shared.cache.fenced_below(self.task.now);
        let stored = self.plan.stale.as_ref().filter(|stored| {
            stored.is_indexed() && stored.soft_purged_at().is_none() && stored.born_seq() >= fence
        });
        let before = match stored {
            Some(stored) if read.manifest.progress.is_some() => self.reached(stored).await,
            _ => None,
        };
        let channels = &self.worker.shared.channels;
        let reached = match channels.place(&self.plan.key, &read.manifest, before, self.task.now) {
            Place::Behind => return stored.cloned(),
            Place::Taken(reached) => reached,
            Place::Resumed(reached) => {
                read.has_stood.set(true);
                Some(reached)
            }
            Place::TakenBack(reached) => {
                self.set_back(read);
                Some(reached)
            }
        };
        if let Some((upkeep, reached)) = upkeep_of(body).zip(reached) {
            upkeep.note_reached(reached);
        }
        None
    }

    /// How far a stored version has come. One that was not read here, as it came from the process before
    /// or from a disk, is read now.
    async fn reached(&self, stored: &Arc<Object>) -> Option<Reached> {
        if let Some(reached) = upkeep_of(stored.body()).and_then(Upkeep::reached) {
            return Some(reached);
        }
        let (format, coding, since) = stored.with_head(|head| {
            let kind = head.fields.get("content-type");
            let coding =
                Coding::of(&head.fields).or_else(|| head.form.gzip.then_some(Coding::Gzip));
            (Format::of(kind, &self.plan.client.target), coding, head.freshness.received)
        });
        let length = stored.body().total().filter(|bytes| *bytes <= MANIFEST_BYTES_MAX as u64)?;
        if let Some(taking) = self.worker.shared.taking.get() {
            taking.want(stored);
        }
        // Its bytes may still be on their way from the process before.
        let mut reader = stored.body().reader(..);
        let came = async { while let Next::Data(_) = reader.next(MANIFEST_BYTES_MAX).await {} };
        let _ = timeout(HANDED_OVER_WAIT, came).await;
        let bytes = bytes_of(stored.body(), length, coding)?;
        let manifest = self.read(format?, &bytes).ok()?;
        let keep_min = manifest.target * TARGETS_OF_BEHIND;
        manifest.progress.map(|progress| Reached { progress, since, keep_min })
    }

    /// Whether a version that is kept for nobody is behind what players were given before.
    pub(super) fn is_behind(&self, read: &Read) -> bool {
        let (channels, key) = (&self.worker.shared.channels, &self.plan.key);
        match channels.place(key, &read.manifest, channels.reached(key), self.task.now) {
            Place::Behind => return true,
            Place::Taken(Some(reached)) => channels.note_reached(key, reached),
            Place::Taken(None) => {}
            Place::Resumed(reached) => {
                read.has_stood.set(true);
                channels.note_reached(key, reached);
            }
            Place::TakenBack(reached) => {
                self.set_back(read);
                channels.note_reached(key, reached);
            }
        }
        false
    }

    fn set_back(&self, read: &Read) {
        self.worker.stats.media_set_back.increment();
        read.is_set_back.set(true);
    }

    /// Takes over what a manifest says, and brings in line how it is kept itself. `stored`: its head and
    /// its body, where it is kept.
    pub(super) fn take_manifest(
        &self,
        read: &Read,
        answer: &mut Answer,
        stored: Option<(&mut StoredHead, &Body)>,
    ) {
        let Some(seen) = answer.manifest else { return };
        let Some(advice) = self.note_manifest(read, stored.is_some()) else { return };
        answer.media = Some(advice);
        let Some((head, body)) = stored.filter(|_| seen.may_shorten) else { return };
        self.outlive(&advice, &answer.head, &mut head.freshness);
        advice.shorten(&mut head.freshness, self.task.now);
        advice.place(&mut answer.storage, &mut answer.keep, &head.freshness, self.task.now);
        self.leave_to_rules(answer);
        if let Some((upkeep, keep)) = upkeep_of(body).zip(answer.keep) {
            upkeep.set_keep(keep);
        }
    }

    /// Takes over what a manifest says of its channel; what follows for the manifest itself.
    fn note_manifest(&self, read: &Read, is_stored: bool) -> Option<Advice> {
        let Read { bytes, manifest, is_set_back, has_stood } = read;
        let (authority, target) = (&self.plan.client.authority, &self.plan.client.target);
        let channels = &self.worker.shared.channels;
        let resolved = |reference: &str| match target::resolve(authority, target, reference) {
            Some((authority, target)) => self.key_of(&authority, &target),
            // Of no use, and in its place.
            None => self.key_of("", reference),
        };
        let names = manifest.names.iter();
        let names = names.map(|name| (name.kind, manifest.reference(name, bytes)));
        let keys = names.clone().filter(|(kind, _)| *kind == Kind::Key);
        channels.note_keys(keys.map(|(_, reference)| resolved(reference)));
        let rated = manifest.names.iter().filter(|name| name.bandwidth > 0);
        let rated = rated.map(|name| (resolved(manifest.reference(name, bytes)), name.bandwidth));
        channels.note_bitrates(rated);
        if manifest.course == Course::OfOthers {
            let playlists = names.clone().filter(|(kind, _)| *kind == Kind::Playlist);
            let playlists = playlists.map(|(_, reference)| resolved(reference));
            channels.note_variables(playlists, &manifest.variables);
        }
        let class = manifest.class(self.plan.site.settings.media.dvr_after)?;
        if class == Class::Vod {
            self.open_film(manifest, bytes);
        }
        let id = self.id_of(authority, target);
        let skip = Directives::of(target).skip;
        // Who has not asked for less cannot use it, whatever a packager makes of a query.
        let is_short = manifest.is_delta && skip == Skip::Nothing;
        let stored = (is_stored && !is_short).then(|| {
            let known = Known { key: Arc::clone(&self.plan.key), target: target.as_str().into() };
            (known, skip)
        });
        if class == Class::Vod {
            let lengths = manifest.lengths(bytes).into_iter();
            let lengths = lengths.map(|(reference, end)| (resolved(reference), end)).collect();
            channels.end(Last { id: &id, stored, lengths });
            return None;
        }
        let names = names.map(|(_, reference)| resolved(reference)).collect();
        let templates = manifest.templates.iter().map(|template| resolved(template)).collect();
        let series = manifest.series.iter();
        let series = series.map(|one| (resolved(&one.template), one.clone())).collect();
        let (begins_again, now) = (is_set_back.get() || channels.has_ended(&id), self.task.now);
        let version = Version {
            id: &id,
            manifest,
            class,
            names,
            templates,
            series,
            stored,
            begins_again,
            has_stood: has_stood.get(),
            now,
        };
        let Noted { new, reused, listed, doubted, is_doubted } = channels.note(&version);
        if is_doubted || !doubted.is_empty() {
            let below = self.worker.shared.cache.next_in_order();
            channels.doubt(&doubted, Some(&id).filter(|_| is_doubted), below);
        }
        let segment = |(at, value): (usize, u64)| {
            let template = &manifest.series.get(at)?.template;
            Some(resolved(&mpd::segment(template, value)))
        };
        let named = reused.iter().filter_map(|at| version.names.get(*at)).cloned();
        self.forget_before(named.chain(listed.into_iter().filter_map(segment)));
        let new = new.iter().filter_map(|at| manifest.names.get(*at));
        let new: Vec<_> = new.map(|name| (name, manifest.reference(name, bytes))).collect();
        self.fetch_ahead(&new, manifest.edge().is_none());
        Advice::manifest(version.about(), target)
    }

    /// Forgets what is stored under new names of a packager that has started again: it gives to what is new
    /// names that it has given before.
    fn forget_before(&self, names: impl Iterator<Item = Key>) {
        for key in names {
            let _ = self.worker.shared.purge(&key, Purge::Hard);
        }
    }

    /// Takes over what comes next in a film, and fetches what its players ask for first.
    fn open_film(&self, manifest: &Manifest, bytes: &[u8]) {
        let Some(example) = self.example() else { return };
        let of = |target: &str| self.key_of(&example.request.authority, target);
        let wanted = |reference: &str, range| example.wanted(reference, range);
        let is_piece = |name: &&Name| matches!(name.kind, Kind::Init | Kind::Segment);
        let pieces = manifest.names.iter().filter(is_piece).filter_map(|name| {
            let wanted = wanted(manifest.reference(name, bytes), name.range.clone())?;
            let (kind, sequence) = (name.kind, name.sequence);
            Some(Piece { key: of(&wanted.target), wanted, kind, sequence })
        });
        let tracks = manifest.series.iter().filter_map(|series| {
            let start = series.initialization.as_deref();
            let initialization = start.and_then(|start| wanted(start, None));
            let (key, sequel) =
                (of(&wanted(&series.template, None)?.target), series.sequel.clone());
            let initialization = initialization.map(|start| of(&start.target));
            Some(Track { key, sequel, initialization })
        });
        let (pieces, tracks) = (pieces.collect::<Vec<_>>(), tracks.collect::<Vec<_>>());
        if pieces.is_empty() && tracks.is_empty() {
            return;
        }
        let id = of(&without_directives(&example.request.target));
        let is_of_all = manifest.edge().is_none();
        let opened = Opened { id, pieces, tracks, is_of_all };
        let first = self.worker.shared.films.note(opened, self.task.now);
        // What nobody has asked for yet nobody has opened.
        for wanted in first.iter().filter(|_| !self.plan.is_ahead()) {
            example.send(&self.worker, wanted);
        }
    }

    /// What a rule of the configuration says about where it is kept goes before what is found out.
    fn leave_to_rules(&self, answer: &mut Answer) {
        let (rules, target) = (&self.plan.site.settings, &self.plan.client.target);
        let by_media = self.class_for_rules(answer);
        match by_media.and_then(|class| rules.storage_of_media(target, class)) {
            Some(storage) => answer.storage = storage.clone(),
            None if answer.storage == Storage::Memory
                && rules.storage_of(target) != Storage::Configured =>
            {
                answer.storage = Storage::Configured;
            }
            None => {}
        }
    }

    /// What kind of presentation an answer is of, where a rule goes by that and no policy has said more.
    fn class_for_rules(&self, answer: &Answer) -> Option<Class> {
        let may_say = matches!(answer.storage, Storage::Configured | Storage::Memory);
        if !may_say || !self.plan.site.settings.stores_by_media() {
            return None;
        }
        let shared = &self.worker.shared;
        let known = (&shared.channels, &shared.films);
        let (site, client) = (&self.plan.site, &self.plan.client);
        let facts = || facts_of(known, shared.cache.secret(), site, client, self.task.now);
        answer.media.and_then(|advice| advice.class).or_else(|| facts()?.class)
    }

    fn count(&self, advice: &Advice, answer: &Answer) {
        let stats = &self.worker.stats;
        match advice.reason {
            _ if answer.uncacheable.is_some() => {}
            Reason::MediaLate => stats.media_late.increment(),
            Reason::MediaWindow => stats.media_window.increment(),
            Reason::MediaKey => stats.media_keys.increment(),
            _ => stats.media_live.increment(),
        }
    }

    fn reads_media(&self) -> bool {
        self.plan.site.settings.media.read
    }

    fn key_of(&self, authority: &str, target: &str) -> Key {
        key_of(&self.plan.site, self.worker.shared.cache.secret(), authority, target)
    }

    fn id_of(&self, authority: &str, target: &str) -> Key {
        id_of(&self.plan.site, self.worker.shared.cache.secret(), authority, target)
    }
}
