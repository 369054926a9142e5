//! What happens to a request step by step, for programs that show it.
//!
//! Each connection, request and fetch has a [`Transcript`], which gathers records under tags:
//! Varnish's, which name the states and fields this node has as well. When it is over it goes to
//! the node's [`Scribe`]. A node without a scribe has transcripts that are off: noting something
//! then costs a branch, and nothing is formatted.

mod tag;

pub use tag::Tag;

use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead, Scheme, Version};
use std::cell::RefCell;
use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Records are handed over in parts of about this many bytes, so that a long transaction neither
/// grows without bound nor is seen only at its end.
const PART_BYTES: usize = 12 << 10;

/// What a transcript is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// A client's connection or request.
    Client,
    /// A fetch.
    Backend,
}

/// Who takes transcripts.
pub trait Scribe: Send + Sync {
    /// Whether a client's request is to be written down; `traceparent` is what it says of the trace it
    /// is a part of (W3C Trace Context §3.2).
    fn wants_request(&self, id: u64, client: Option<IpAddr>, traceparent: Option<&[u8]>) -> bool {
        let _ = (id, client, traceparent);
        true
    }

    /// Whether something else is: `kind` and `parent` are those of [`Transcript::begin`].
    fn wants(&self, id: u64, kind: &str, parent: u64) -> bool {
        let _ = (id, kind, parent);
        true
    }

    /// What an origin is told in `traceparent` that is asked in transaction `id`.
    fn traceparent(&self, id: u64) -> Option<String> {
        let _ = id;
        None
    }

    /// What a client is sent in transaction `id`: once, when all of its records have been noted but the last.
    fn answered(&self, id: u64, outcome: &Outcome<'_>) {
        let _ = (id, outcome);
    }

    /// By which scheme the origin is asked in transaction `id` that is tried next.
    fn asks(&self, id: u64, scheme: Scheme) {
        let _ = (id, scheme);
    }

    /// Takes records of transaction `id`, in order. The last part ends with [`Tag::End`].
    fn take(&self, id: u64, side: Side, records: &Records);

    /// Takes a record that belongs to no transaction.
    #[inline]
    fn note(&self, tag: Tag, text: &str) {
        let _ = (tag, text);
    }

    /// Whether each record is to be handed over at once.
    fn immediate(&self) -> bool {
        false
    }
}

/// A response as it was sent. What records say of one is what there was before conditions and ranges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome<'a> {
    /// By which scheme the request came.
    pub scheme: Scheme,
    /// The status.
    pub status: u16,
    /// What `Cache-Status` says.
    pub cache_status: Option<&'a [u8]>,
}

/// Records in order.
#[derive(Debug, Default)]
pub struct Records {
    text: Vec<u8>,
    records: Vec<(Tag, Range<usize>)>,
}

impl Records {
    /// Tags and texts.
    pub fn iter(&self) -> impl Iterator<Item = (Tag, &[u8])> {
        self.records
            .iter()
            .map(|(tag, range)| (*tag, self.text.get(range.clone()).unwrap_or_default()))
    }

    fn clear(&mut self) {
        self.text.clear();
        self.records.clear();
    }
}

/// The transcript of one connection, request or fetch. Ends when it is dropped.
#[derive(Default)]
pub struct Transcript(Option<Box<Open>>);

struct Open {
    scribe: Arc<dyn Scribe>,
    side: Side,
    state: RefCell<State>,
}

struct State {
    id: u64,
    records: Records,
    started: f64,
    last: f64,
}

/// Which message a head is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message {
    /// A client's request.
    Request,
    /// The response to it.
    Response,
    /// A request to an origin.
    OriginRequest,
    /// Its response.
    OriginResponse,
}

impl Transcript {
    /// One that takes nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Begins a transcript: `kind` is `sess`, `req` or `bereq`, `parent` the id of what it belongs
    /// to, `reason` why it is there.
    pub fn begin(
        scribe: Option<&Arc<dyn Scribe>>,
        side: Side,
        id: u64,
        kind: &str,
        parent: u64,
        reason: &str,
    ) -> Self {
        let wants = |scribe: &&Arc<dyn Scribe>| scribe.wants(id, kind, parent);
        Self::open(scribe.filter(wants), side, id, (kind, parent, reason))
    }

    /// Begins that of a client's request on a connection.
    pub fn begin_request(
        scribe: Option<&Arc<dyn Scribe>>,
        id: u64,
        parent: u64,
        client: Option<IpAddr>,
        head: &RequestHead,
    ) -> Self {
        let wants = |scribe: &&Arc<dyn Scribe>| {
            scribe.wants_request(id, client, head.fields.get("traceparent"))
        };
        Self::open(scribe.filter(wants), Side::Client, id, ("req", parent, "rxreq"))
    }

    #[inline]
    fn open(
        scribe: Option<&Arc<dyn Scribe>>,
        side: Side,
        id: u64,
        (kind, parent, reason): (&str, u64, &str),
    ) -> Self {
        let Some(scribe) = scribe else { return Self(None) };
        let now = unix_seconds();
        let state = State { id, records: Records::default(), started: now, last: now };
        let (scribe, state) = (Arc::clone(scribe), RefCell::new(state));
        let transcript = Self(Some(Box::new(Open { scribe, side, state })));
        transcript.note(Tag::Begin, format_args!("{kind} {parent} {reason}"));
        transcript
    }

    /// Ends this transcript and begins the one of what follows, with a link to it. Times go on to be
    /// told from where the first one began.
    pub fn renew(&self, id: u64, kind: &str, parent: u64, reason: &str) {
        let Some(open) = &self.0 else { return };
        self.note(Tag::Link, format_args!("{kind} {id} {reason}"));
        self.note(Tag::End, format_args!(""));
        open.hand_over();
        // It is, as what was before it.
        open.scribe.wants(id, kind, parent);
        open.state.borrow_mut().id = id;
        self.note(Tag::Begin, format_args!("{kind} {parent} {reason}"));
    }

    /// Seconds since it began; 0 where none is kept.
    pub fn age_seconds(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |open| unix_seconds() - open.state.borrow().started)
    }

    /// When it began, in seconds since 1970; 0 where none is kept.
    pub fn started_seconds(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |open| open.state.borrow().started)
    }

    /// Tells an origin of the trace that its answer is a part of.
    pub fn lead(&self, request: &mut Fields) {
        let Some(open) = &self.0 else { return };
        let id = open.state.borrow().id;
        if let Some(value) = open.scribe.traceparent(id) {
            request.set("traceparent", value);
        }
    }

    /// Tells what the client was sent.
    pub fn answered(&self, outcome: &Outcome<'_>) {
        if let Some(open) = &self.0 {
            let id = open.state.borrow().id;
            open.scribe.answered(id, outcome);
        }
    }

    /// Tells by which scheme an origin is asked.
    pub fn asks(&self, scheme: Scheme) {
        if let Some(open) = &self.0 {
            let id = open.state.borrow().id;
            open.scribe.asks(id, scheme);
        }
    }

    /// The trace it is a part of, in hexadecimal digits, where it is of one.
    pub fn trace_id(&self) -> Option<String> {
        let open = self.0.as_ref()?;
        let id = open.state.borrow().id;
        // `version-trace-parent-flags` (W3C Trace Context §3.2.2).
        Some(open.scribe.traceparent(id)?.split('-').nth(1)?.to_owned())
    }

    /// Whether records are taken at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a record.
    #[inline]
    pub fn note(&self, tag: Tag, text: fmt::Arguments<'_>) {
        if let Some(open) = &self.0 {
            open.add(tag, |out| {
                let _ = out.write_fmt(text);
            });
        }
    }

    /// Adds a record with this text.
    pub fn note_bytes(&self, tag: Tag, text: &[u8]) {
        if let Some(open) = &self.0 {
            open.add(tag, |out| out.extend_from_slice(text));
        }
    }

    /// Hands over a record that belongs to no transaction.
    pub fn note_aside(&self, tag: Tag, text: &str) {
        if let Some(open) = &self.0 {
            open.scribe.note(tag, text);
        }
    }

    /// Adds `name: value`.
    pub fn field(&self, tag: Tag, name: &[u8], value: &[u8]) {
        if let Some(open) = &self.0 {
            open.add(tag, |out| {
                out.extend_from_slice(name);
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
            });
        }
    }

    /// Adds a record that tells the time, which `write` gets in seconds.
    #[inline]
    pub fn note_time(&self, tag: Tag, write: impl FnOnce(f64, &mut Vec<u8>)) {
        if let Some(open) = &self.0 {
            open.add(tag, |out| write(unix_seconds(), out));
        }
    }

    /// Adds when it began, which for what follows something is when that ended.
    pub fn note_start(&self) {
        let Some(open) = &self.0 else { return };
        let (at, since_start) = {
            let state = open.state.borrow();
            (state.last, state.last - state.started)
        };
        open.add(Tag::Timestamp, |out| {
            let _ = write!(out, "Start: {at:.6} {since_start:.6} {:.6}", 0.0);
        });
    }

    /// Adds a time: absolute, since the beginning and since the last one.
    #[inline]
    pub fn timestamp(&self, label: &str) {
        let Some(open) = &self.0 else { return };
        let now = unix_seconds();
        let (since_start, since_last) = {
            let state = &mut *open.state.borrow_mut();
            let since_last = now - state.last;
            state.last = now;
            (now - state.started, since_last)
        };
        open.add(Tag::Timestamp, |out| {
            let _ = write!(out, "{label}: {now:.6} {since_start:.6} {since_last:.6}");
        });
    }

    /// Adds a time that was `ago` before now.
    pub fn timestamp_before(&self, label: &str, ago: Duration) {
        let Some(open) = &self.0 else { return };
        let at = unix_seconds() - ago.as_secs_f64();
        let (since_start, since_last) = {
            let state = &mut *open.state.borrow_mut();
            let at = at.max(state.last);
            let since_last = at - state.last;
            state.last = at;
            (at - state.started, since_last)
        };
        open.add(Tag::Timestamp, |out| {
            let _ = write!(out, "{label}: {at:.6} {since_start:.6} {since_last:.6}");
        });
    }

    /// Adds a request's head.
    pub fn request(&self, message: Message, head: &RequestHead) {
        if !self.is_on() {
            return;
        }
        let [method, url, protocol, header] = match message {
            Message::Request => [Tag::ReqMethod, Tag::ReqURL, Tag::ReqProtocol, Tag::ReqHeader],
            _ => [Tag::BereqMethod, Tag::BereqURL, Tag::BereqProtocol, Tag::BereqHeader],
        };
        self.note_bytes(method, head.method.as_str().as_bytes());
        self.note_bytes(url, head.target.as_bytes());
        // Origins are asked in HTTP/1.1, whatever the client speaks; of HTTP/2 it is noted still.
        let version = match (message, head.version) {
            (Message::Request, version) | (_, version @ Version::Http2) => version,
            _ => Version::Http11,
        };
        // Varnish's name of it.
        let version = if version == Version::Http2 { "HTTP/2.0" } else { version.as_str() };
        self.note_bytes(protocol, version.as_bytes());
        if !head.authority.is_empty() {
            self.field(header, b"Host", head.authority.as_bytes());
        }
        self.fields(header, &head.fields);
    }

    /// Adds a response's head.
    pub fn response(&self, message: Message, head: &ResponseHead) {
        if !self.is_on() {
            return;
        }
        let [protocol, status, reason, header] = match message {
            Message::Response => {
                [Tag::RespProtocol, Tag::RespStatus, Tag::RespReason, Tag::RespHeader]
            }
            _ => [Tag::BerespProtocol, Tag::BerespStatus, Tag::BerespReason, Tag::BerespHeader],
        };
        self.note_bytes(protocol, head.version.as_str().as_bytes());
        // As it is sent.
        self.note(status, format_args!("{:03}", head.status % 1000));
        self.note_bytes(reason, head.reason_phrase().as_bytes());
        if message != Message::Response || head.version == Version::Http11 {
            return self.fields(header, &head.fields);
        }
        // What the origin said comes before what is said here, which begins with the version.
        let is_ours = |name: &[u8]| {
            [b"age".as_slice(), b"via", b"accept-ranges"]
                .iter()
                .any(|ours| name.eq_ignore_ascii_case(ours))
        };
        for (name, value) in head.fields.iter().filter(|(name, _)| !is_ours(name)) {
            self.field(header, name, value);
        }
        self.note_bytes(protocol, Version::Http11.as_str().as_bytes());
        for (name, value) in head.fields.iter().filter(|(name, _)| is_ours(name)) {
            self.field(header, name, value);
        }
    }

    /// Adds what turned `before` into `after`, name by name in this order, others last: lines removed,
    /// then lines that came.
    pub fn changes(
        &self,
        (set, unset): (Tag, Tag),
        (before, after): (&Fields, &Fields),
        order: &[&str],
    ) {
        if !self.is_on() {
            return;
        }
        let mut old: Vec<_> = before.iter().collect();
        let mut new = Vec::new();
        for line in after.iter() {
            match old.iter().position(|each| *each == line) {
                Some(at) => {
                    old.remove(at);
                }
                None => new.push(line),
            }
        }
        let place = |name: &[u8]| {
            let is_it = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
            order.iter().position(is_it).unwrap_or(order.len())
        };
        for at in 0..=order.len() {
            for (name, value) in old.iter().filter(|(name, _)| place(name) == at) {
                self.field(unset, name, value);
            }
            for (name, value) in new.iter().filter(|(name, _)| place(name) == at) {
                self.field(set, name, value);
            }
        }
    }

    fn fields(&self, tag: Tag, fields: &Fields) {
        for (name, value) in fields.iter() {
            self.field(tag, name, value);
        }
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.add(Tag::End, |_| {});
            open.hand_over();
        }
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transcript")
            .field(&self.0.as_ref().map(|open| open.state.borrow().id))
            .finish()
    }
}

impl Open {
    fn add(&self, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) {
        let full = {
            let State { records, .. } = &mut *self.state.borrow_mut();
            let start = records.text.len();
            write(&mut records.text);
            let end = records.text.len();
            records.records.push((tag, start..end));
            end + 16 * records.records.len() >= PART_BYTES
        };
        if full || self.scribe.immediate() {
            self.hand_over();
        }
    }

    fn hand_over(&self) {
        let State { id, records, .. } = &mut *self.state.borrow_mut();
        if !records.records.is_empty() {
            self.scribe.take(*id, self.side, records);
            records.clear();
        }
    }
}

/// Bytes of a request's head on the wire.
pub fn head_bytes_of_request(head: &RequestHead) -> u64 {
    // `Host: ` and a line end; spaces, version and line end of the first line; the empty line.
    let host = if head.authority.is_empty() { 0 } else { head.authority.len() + 8 };
    let first = head.method.as_str().len() + head.target.len() + 12;
    (first + host + 2) as u64 + field_bytes(&head.fields)
}

/// Bytes of a response's head on the wire.
pub fn head_bytes_of_response(head: &ResponseHead) -> u64 {
    (15 + head.reason_phrase().len() + 2) as u64 + field_bytes(&head.fields)
}

fn field_bytes(fields: &Fields) -> u64 {
    fields.iter().map(|(name, value)| (name.len() + value.len() + 4) as u64).sum()
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Scribe for Kept {
        fn take(&self, id: u64, _: Side, records: &Records) {
            let mut kept = self.0.lock().expect("nobody panicked");
            for (tag, text) in records.iter() {
                kept.push(format!("{id} {} {}", tag.name(), String::from_utf8_lossy(text)));
            }
        }
    }

    #[test]
    fn a_transcript_is_handed_over_whole_at_its_end() {
        let kept = Arc::new(Kept::default());
        let scribe: Arc<dyn Scribe> = Arc::clone(&kept) as Arc<dyn Scribe>;
        let transcript = Transcript::begin(Some(&scribe), Side::Client, 7, "req", 6, "rxreq");
        transcript.note(Tag::VCL_call, format_args!("RECV"));
        let (mut before, mut after) = (Fields::default(), Fields::default());
        before.append("A", "1");
        before.append("B", "2");
        after.append("A", "1");
        after.append("B", "3");
        transcript.changes((Tag::ReqHeader, Tag::ReqUnset), (&before, &after), &[]);
        assert!(kept.0.lock().expect("nobody panicked").is_empty());
        drop(transcript);
        assert_eq!(
            *kept.0.lock().expect("nobody panicked"),
            [
                "7 Begin req 6 rxreq",
                "7 VCL_call RECV",
                "7 ReqUnset B: 2",
                "7 ReqHeader B: 3",
                "7 End "
            ]
        );
    }

    #[test]
    fn without_a_scribe_nothing_is_written() {
        let transcript = Transcript::begin(None, Side::Client, 7, "req", 6, "rxreq");
        transcript.note(Tag::VCL_Log, format_args!("x"));
        assert!(!transcript.is_on());
    }
}
