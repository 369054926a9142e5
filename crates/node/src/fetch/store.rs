//! Making an object of an answer, or a response for one client.

use super::asked::{Asked, Road};
use super::coded::{Incoming, Source};
use super::fill::{self, Broken};
use super::prepare::append_to_list;
use super::range::Filler;
use super::{Fetch, Fetched, Made, Next, SentPart, failure, records};
use crate::decisions::{NotStored, deciding_field};
use crate::delivery::StoredBody;
use crate::disk::{Intake, Tee, meta, objective_of};
use crate::expiry::Upkeep;
use crate::lower;
use crate::policy::{Answer, FetchKind, Storage, Synthetic};
use crate::shares::{Loan, loan_of};
use crate::sites::SiteName;
use crate::transcript::Tag;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_cache::{Failure, Form, ObjectSpec, StoredHead, VARIANTS_MAX, Variation};
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::{RequestHead, ResponseHead, Scheme, Version};
use freshet_http::range::{ContentRange, Reconciled};
use freshet_http::reason::Reason;
use freshet_http::vary::Vary;
use freshet_http::{hop_by_hop, update};
use freshet_store::{Body, BodyWriter};
use freshet_wire::h1::Framing;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Tags of one object; a response that names more is kept with these only, and a purge of the rest
/// misses it, which the log says.
const TAGS_MAX: usize = 1024;
/// Room asked for before it is said that a body of unknown length is kept: its first read.
const FIRST_BYTES: usize = 16 << 10;
/// How long requests for what memory had no room for do not wait for one another: about as long as it
/// takes until fills that are under way have ended.
const NO_ROOM_SPAN: Duration = Duration::from_secs(1);
/// Bytes of a name in `Vary`; the longest field anybody has registered has 43.
const VARY_NAME_BYTES_MAX: usize = 127;

impl Fetch {
    /// Puts the answer into the cache and fills its body while it is being served.
    pub(super) async fn keep(&mut self, mut answer: Answer, incoming: Incoming) -> Next {
        let (framing, form) = (incoming.framing, incoming.form);
        let place = match place(&answer, incoming.length) {
            Ok(place) => place,
            Err(reason) => return self.give(answer, reason, incoming).await,
        };
        let cache = Arc::clone(&self.worker.shared.cache);
        if place.total.is_some_and(|total| total > cache.object_bytes_max()) {
            return self.let_through(answer, Reason::TooLarge, &place, incoming).await;
        }
        let too_long = |name: &[u8]| name.len() > VARY_NAME_BYTES_MAX;
        let variation = match meta::rule(&answer.head.fields, form) {
            Vary::None => None,
            Vary::On(_) if answer.head.fields.tokens("vary").any(too_long) => {
                return self.give(answer, Reason::VaryAny, incoming).await;
            }
            Vary::Any => return self.give(answer, Reason::VaryAny, incoming).await,
            Vary::On(rule) => {
                let key = rule.key(&self.plan.client.fields);
                Some(Variation { rule: Arc::new(rule), key })
            }
        };
        let memory = Body::new(&self.worker.shared.arena, place.total);
        let end = Some(place.end).filter(|_| place.total.is_some() || place.partial);
        let mut writer = memory.writer(place.start, end);
        if place.end > place.start && !writer.has_room(FIRST_BYTES) {
            answer.hit_for_miss = Some(NO_ROOM_SPAN);
            return self.let_through(answer, Reason::NoRoom, &place, incoming).await;
        }
        let (stream, storage, keep) = (answer.stream, answer.storage.clone(), answer.keep);
        let sent = sent_part(&answer, &place);
        let tags = tags(&self.plan.site.name, &answer.head.fields);
        let transcript = Rc::clone(&self.task.transcript);
        let heads = self.heads;
        let name = &self.plan.site.settings.cache.name;
        let received = self.received(answer.head.status, &answer.head.fields);
        let fields = update::stored_fields(&received, &self.plan.site.freshness);
        let id = self.task.id;
        let head = stored_head(answer, fields, &place, form, &self.plan.client, name, id);
        if incoming.loan.is_some() || keep.is_some() {
            memory.attach(self.upkeep(keep, incoming.loan));
        }
        let mut source = incoming.source;
        let hold = memory.reader(..);
        let mut is_whole = false;
        if !stream {
            match self.ahead(&mut source, &mut writer, end).await {
                Ok(all) => is_whole = all,
                Err(broken) => {
                    let failure = self.body_failed(&broken);
                    writer.fail(broken.into_body_error());
                    return self.no_answer(failure).await;
                }
            }
        }
        let Some(ticket) = self.plan.ticket.take() else { return Next::Done };
        let intake = Intake::new(
            &self.worker,
            &self.plan.site,
            &self.plan.key,
            &head,
            (variation.as_ref(), &tags),
            (&self.plan.client.fields, self.born),
            &storage,
        );
        if storage != Storage::Configured {
            // What a policy decided is not asked again when the object is used.
            memory.note_offer();
        }
        let is_lower = lower::is_named(&self.plan.site, &self.plan.key, &storage);
        let objective = objective_of(&self.plan.site.settings, &self.plan.key);
        let spec = ObjectSpec { head, body: memory, variation, tags, objective };
        let object = ticket.insert(spec);
        if cache.tell_crowded() {
            let url = String::from_utf8_lossy(self.plan.key.text()).into_owned();
            tracing::warn!(
                url,
                "a URL has {VARIANTS_MAX} variants by Vary; further ones evict others"
            );
        }
        if let Some(keep) = keep {
            self.worker.shared.expiry.watch(&object, keep);
        }
        let asked = Asked::of(&self.task, &self.plan.key, self.answered.as_ref());
        let filler = Filler::new(&self.worker, &object, Road::taken(asked));
        let origin = self.origin.clone();
        let fetched = Fetched::Object {
            object: Arc::clone(&object),
            reason: self.plan.reason,
            stored: object.is_indexed(),
            origin,
            sent,
            hold: Some(hold),
        };
        let from = self.origin.clone().unwrap_or_default();
        if is_whole {
            // Those who get it are to know its length.
            is_whole = writer.finish().is_ok();
            self.reply(fetched);
        } else {
            self.reply(fetched);
            is_whole = fill::object(&self.worker, &object, filler, source, writer, end).await;
        }
        fill::give_back(object.body());
        if let Some(loan) = loan_of(object.body()).filter(|_| is_whole && object.is_indexed()) {
            loan.offer(&object);
        }
        if let Some(intake) = intake.filter(|_| is_whole) {
            intake.offer(&object);
        }
        if is_whole && is_lower {
            self.worker.shared.cache.place_lower(&object);
        }
        let bytes = object.body().total().unwrap_or(0);
        records::body_ended(&transcript, &from, framing, bytes, heads);
        Next::Done
    }

    /// Gives an answer that memory has no room for to its client, and to a disk where it may go there.
    async fn let_through(
        &mut self,
        answer: Answer,
        reason: Reason,
        place: &Place,
        incoming: Incoming,
    ) -> Next {
        let form = incoming.form;
        self.tee = self.tee_of(&answer, place, form).filter(|_| form == Form::default());
        self.give(answer, reason, incoming).await
    }

    /// Reads a body nobody is to see before it is all there, with the trailers it may have.
    async fn ahead(
        &self,
        source: &mut Source,
        writer: &mut BodyWriter,
        end: Option<u64>,
    ) -> Result<bool, Broken> {
        let bytes_max = self.worker.shared.cache.object_bytes_max();
        let is_whole = fill::ahead(&self.worker, source, writer, end, bytes_max).await?;
        if let (true, Some(trailers)) = (is_whole, source.trailers()) {
            writer.body().set_trailers(trailers.clone());
        }
        Ok(is_whole)
    }

    /// What goes with the body of an object.
    fn upkeep(&self, keep: Option<Duration>, loan: Option<Arc<Loan>>) -> Arc<Upkeep> {
        // What is not kept has no end to be told of.
        let scribe = self.worker.shared.scribe.as_ref().filter(|_| keep.is_some());
        Arc::new(Upkeep::new(keep.unwrap_or_default(), loan, scribe, self.task.id))
    }

    /// A body broke off before anybody has seen anything of the answer.
    pub(super) fn body_failed(&self, broken: &Broken) -> Failure {
        self.worker.stats.fetches_failed.increment();
        match broken {
            Broken::Origin(error) => {
                records::failed(&self.task.transcript, self.origin.as_deref(), error);
                failure(error.status(), error.proxy_status(), &error.to_string())
            }
            Broken::Coding(error) => {
                self.task.transcript.note(Tag::FetchError, format_args!("{error}"));
                failure(502, "http_response_content_coding", &error.to_string())
            }
            Broken::Full => {
                self.task.transcript.note(Tag::FetchError, format_args!("Could not get storage"));
                failure(503, "proxy_internal_error", "its share of the memory is full")
            }
            Broken::Local(error) => {
                self.task.transcript.note(Tag::FetchError, format_args!("{error}"));
                failure(503, "proxy_internal_error", &error.to_string())
            }
        }
    }

    /// Keeps a page of our own in the origin's place.
    pub(super) async fn keep_page(&mut self, page: Synthetic, freshness: Freshness) {
        let Some(ticket) = self.plan.ticket.take() else {
            return self.private_page(page, Reason::Synthetic);
        };
        let Synthetic { head, body: bytes } = page;
        let total = bytes.len() as u64;
        let memory = Body::new(&self.worker.shared.arena, Some(total));
        let mut writer = memory.writer(0, Some(total));
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(room) = writer.reserve(rest.len()).await else {
                // There is no memory to keep it in.
                return self.private_page(Synthetic { head, body: bytes }, Reason::Synthetic);
            };
            let count = room.len().min(rest.len());
            let (now, later) = rest.split_at(count);
            room[..count].copy_from_slice(now);
            writer.commit(count);
            rest = later;
        }
        let _ = writer.finish();
        let fields = head.fields.clone();
        let answer = Answer {
            head,
            freshness,
            uncacheable: None,
            was_not_modified: false,
            hit_for_miss: None,
            stream: true,
            storage: Storage::default(),
            keep: None,
            share: None,
            filters: Vec::new(),
            any_coding: false,
        };
        let place = Place { start: 0, end: total, total: Some(total), partial: false };
        let name = &self.plan.site.settings.cache.name;
        let form = Form::default();
        let id = self.task.id;
        let head = stored_head(answer, fields, &place, form, &self.plan.client, name, id);
        let hold = memory.reader(..);
        let tags = self.plan.site.name.tag_of_all().into_iter().collect();
        let objective = objective_of(&self.plan.site.settings, &self.plan.key);
        let spec = ObjectSpec { head, body: memory, variation: None, tags, objective };
        let object = ticket.insert(spec);
        self.reply(Fetched::Object {
            stored: object.is_indexed(),
            object,
            reason: self.plan.reason,
            origin: self.origin.clone(),
            sent: None,
            hold: Some(hold),
        });
    }

    /// Gives the answer to the client that asked, and lets requests for it not wait for one
    /// another for a while.
    pub(super) async fn give(
        &mut self,
        answer: Answer,
        reason: Reason,
        incoming: Incoming,
    ) -> Next {
        let Incoming { mut source, framing, length, form, loan } = incoming;
        let has_body = !matches!(framing, Framing::None | Framing::Length(0));
        let memory = if answer.stream {
            Body::transit(&self.worker.shared.arena, length)
        } else {
            Body::new(&self.worker.shared.arena, length)
        };
        if loan.is_some() {
            memory.attach(self.upkeep(None, loan));
        }
        let mut writer = memory.writer(0, length);
        let mut is_whole = false;
        if !answer.stream && has_body {
            match self.ahead(&mut source, &mut writer, length).await {
                Ok(all) => is_whole = all,
                Err(broken) => {
                    let failure = self.body_failed(&broken);
                    writer.fail(broken.into_body_error());
                    return self.no_answer(failure).await;
                }
            }
        }
        if let Some(ticket) = self.plan.ticket.take() {
            let span = self.plan.site.settings.cache.hit_for_miss;
            let span = answer.hit_for_miss.unwrap_or(span);
            ticket.hit_for_miss(self.task.now.plus(span));
        }
        let reason = if self.plan.kind == FetchKind::Pass {
            self.plan.reason
        } else {
            self.note_not_stored(reason, &answer.head);
            reason
        };
        let origin = self.origin.clone();
        let made = Made { id: self.task.id, freshness: answer.freshness.clone() };
        let mut head = answer.head;
        let length = match framing {
            Framing::None => head.fields.get_str("content-length").and_then(|n| n.parse().ok()),
            _ => length,
        };
        head.fields.remove("content-length");
        if !has_body {
            let from = origin.clone().unwrap_or_default();
            self.reply(Fetched::Private { head, body: None, length, form, reason, origin, made });
            records::body_ended(&self.task.transcript, &from, framing, 0, self.heads);
            return Next::Done;
        }
        let transcript = Rc::clone(&self.task.transcript);
        let heads = self.heads;
        let from = origin.clone().unwrap_or_default();
        let before = self.worker.stats.origin_body_bytes.value();
        let length = if is_whole { Some(writer.position()) } else { length };
        let stored = StoredBody::new(&memory, 0..length.unwrap_or(u64::MAX), None);
        if !is_whole {
            memory.enter_transit();
        }
        drop(memory);
        let body = Some(stored);
        if is_whole {
            let _ = writer.finish();
            self.reply(Fetched::Private { head, body, length, form, reason, origin, made });
        } else {
            self.reply(Fetched::Private { head, body, length, form, reason, origin, made });
            let tee = self.tee.take();
            fill::private(&self.worker, source, writer, length, tee).await;
        }
        // Without a length only the worker's sum tells, which others add to meanwhile.
        let bytes = length.unwrap_or_else(|| self.worker.stats.origin_body_bytes.value() - before);
        records::body_ended(&transcript, &from, framing, bytes, heads);
        Next::Done
    }

    /// Where a response too large for memory is written while it passes, if it may be.
    fn tee_of(&self, answer: &Answer, place: &Place, form: Form) -> Option<Tee> {
        if place.partial {
            return None;
        }
        let storage = answer.storage.clone();
        let name = &self.plan.site.settings.cache.name;
        let received = self.received(answer.head.status, &answer.head.fields);
        let fields = update::stored_fields(&received, &self.plan.site.freshness);
        let variation = match meta::rule(&answer.head.fields, form) {
            Vary::None => None,
            Vary::Any => return None,
            Vary::On(rule) => {
                let key = rule.key(&self.plan.client.fields);
                Some(Variation { rule: Arc::new(rule), key })
            }
        };
        let tags = tags(&self.plan.site.name, &answer.head.fields);
        let (client, id) = (&self.plan.client, self.task.id);
        let answer = Answer {
            head: answer.head.clone(),
            freshness: answer.freshness.clone(),
            uncacheable: None,
            was_not_modified: false,
            hit_for_miss: None,
            stream: true,
            storage: Storage::default(),
            keep: None,
            share: None,
            filters: Vec::new(),
            any_coding: form.any_coding,
        };
        let head = stored_head(answer, fields, place, form, client, name, id);
        let intake = Intake::new(
            &self.worker,
            &self.plan.site,
            &self.plan.key,
            &head,
            (variation.as_ref(), &tags),
            (&self.plan.client.fields, self.born),
            &storage,
        );
        intake?.tee(place.total)
    }

    /// Leaves a note for those who ask why.
    fn note_not_stored(&self, reason: Reason, head: &ResponseHead) {
        let targeted = &self.plan.site.freshness.targeted;
        self.worker.shared.decisions.note(NotStored {
            key: Arc::clone(&self.plan.key),
            reason,
            status: head.status,
            field: deciding_field(reason, &head.fields, targeted),
            origin: self.origin.as_deref().unwrap_or("").into(),
            last: self.task.now,
            count: 1,
        });
    }
}

/// Where an answer's bytes belong in the representation.
struct Place {
    start: u64,
    end: u64,
    total: Option<u64>,
    partial: bool,
}

/// The place of an answer, from Content-Range for a 206 (RFC 9110 §14.4).
fn place(answer: &Answer, length: Option<u64>) -> Result<Place, Reason> {
    if answer.head.status != 206 {
        return Ok(Place {
            start: 0,
            end: length.unwrap_or(u64::MAX),
            total: length,
            partial: false,
        });
    }
    let part = answer.head.fields.get("content-range").and_then(ContentRange::parse);
    let part = match (part, length) {
        (Some(part), Some(length)) => match part.reconcile(length) {
            Reconciled::Agrees => part,
            Reconciled::Shorter(part) => part,
            Reconciled::Contradicts => return Err(Reason::PartialWithoutRange),
        },
        (Some(part), None) => part,
        (None, _) => return Err(Reason::PartialWithoutRange),
    };
    let Some(Range { start, end }) = part.range() else { return Err(Reason::PartialWithoutRange) };
    let total = part.total();
    Ok(Place { start, end, total, partial: !(start == 0 && Some(end) == total) })
}

/// The part a 206 brought, in the origin's words: what its client gets, even where they do not
/// quite fit the bytes.
fn sent_part(answer: &Answer, place: &Place) -> Option<SentPart> {
    let content_range = answer.head.fields.get("content-range")?;
    (answer.head.status == 206)
        .then(|| SentPart { range: place.start..place.end, content_range: content_range.into() })
}

/// The head as it is kept: complete but for what each response adds.
fn stored_head(
    answer: Answer,
    mut fields: Fields,
    place: &Place,
    form: Form,
    client: &RequestHead,
    name: &str,
    fetch_id: u64,
) -> StoredHead {
    let Answer { head, freshness, .. } = answer;
    append_to_list(&mut fields, "Via", format!("{} {name}", Version::Http11.number()).as_bytes());
    let status = if head.status == 206 { 200 } else { head.status };
    if status == 200 && !fields.contains("accept-ranges") {
        fields.append("Accept-Ranges", "bytes");
    }
    StoredHead {
        etag: fields.get("etag").map(Into::into),
        last_modified: fields.get("last-modified").and_then(date::parse),
        scheme_bound: scheme_bound(status, &fields, client.scheme),
        for_caches: hop_by_hop::has_for_caches(&fields),
        partial: place.partial,
        fetch_id,
        reason: head.reason.filter(|_| head.status == status),
        fields: fields.compact(),
        status,
        freshness,
        form,
    }
}

/// The origin is told the scheme, which is in no key. A redirect may be meant for one only: from
/// `http` to `https` of the same place, say, which would be a loop for the other. So may an error,
/// and what says itself that it varies by the scheme.
fn scheme_bound(status: u16, fields: &Fields, scheme: Scheme) -> Option<Scheme> {
    let is_redirect = (300..400).contains(&status) && fields.contains("location");
    let varies = || fields.has_token("vary", "x-forwarded-proto");
    (is_redirect || status >= 400 || varies()).then_some(scheme)
}

/// Takes over what a 304 brought.
pub(super) fn renew_head(stored: &mut StoredHead, answer: Answer, fetch_id: u64) {
    let fields = answer.head.fields;
    stored.fetch_id = fetch_id;
    // A policy may take a 304 for what it is not about. Nothing then says what the bytes are of.
    let known = stored.etag.take();
    stored.etag = known.filter(|known| fields.get("etag") == Some(&**known));
    stored.last_modified = fields.get("last-modified").and_then(date::parse);
    stored.for_caches = hop_by_hop::has_for_caches(&fields);
    stored.fields = fields.compact();
    stored.freshness = answer.freshness;
}

/// Fields with tags that are separated by spaces...
const SPACED_TAGS: [&str; 1] = ["surrogate-key"];
/// ... and, in those of Varnish's `xkey`, by commas too.
const MIXED_TAGS: [&str; 2] = ["xkey", "x-hashtwo"];

/// Tags a response can be purged by: those of [`SPACED_TAGS`], of [`MIXED_TAGS`] and of `Cache-Tag`,
/// separated by commas.
fn tags(site: &SiteName, fields: &Fields) -> Box<[u64]> {
    let lines =
        |names: &'static [&'static str]| names.iter().flat_map(|name| fields.get_all(*name));
    let spaced = lines(&SPACED_TAGS).flat_map(|line| line.split(|byte| *byte == b' '));
    let mixed =
        lines(&MIXED_TAGS).flat_map(|line| line.split(|byte| matches!(byte, b' ' | b'\t' | b',')));
    let spaced = spaced.chain(mixed);
    let listed = fields.tokens("cache-tag");
    let mut tags: Vec<u64> = spaced
        .chain(listed)
        .filter(|text| !text.is_empty())
        .take(TAGS_MAX + 1)
        .map(|text| site.tag(text))
        .collect();
    if tags.len() > TAGS_MAX {
        // An origin may do that with each response.
        static LIMIT: LogLimit = LogLimit::new();
        if let Some(held_back) = LIMIT.admit(UnixMillis::now(), Duration::from_secs(10)) {
            tracing::warn!(
                held_back,
                "a response has more than {TAGS_MAX} tags; the rest is ignored"
            );
        }
        tags.truncate(TAGS_MAX);
    }
    tags.extend(site.tag_of_all());
    tags.sort_unstable();
    tags.dedup();
    tags.into()
}
