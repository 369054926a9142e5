//! Putting a page together while it is sent: its own text from its parts, and for each include the
//! response to a request of its own.

use freshet_content::esi::parse::Include;
use freshet_content::esi::parts::{HEAD_BYTES, Head, Kind, LAST_BLOCK, read_include};
mod work;

use crate::client_exchange::{Request, Response};
use crate::delivery::ResponseBody;
use crate::delivery::coded::Coded;
use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use freshet_access::client::Client;
use freshet_access::ledger::readers::Held;
use freshet_base::clock::UnixMillis;
use freshet_config::esi::EsiSettings;
use freshet_content::chain::{Chain, PIECE_BYTES, Stage};
use freshet_content::coding::gzip::{HEADER, deflate, flush, trailer};
use freshet_http::coding::Coding;
use freshet_http::conditional;
use freshet_http::message::{Method, RequestHead, Version};
use freshet_http::target::resolve;
use freshet_site::interim::Interim;
use freshet_site::nesting::Nesting;
use freshet_site::pieces::{BodyBroken, Chunk, Holding};
use freshet_telemetry::transcript::{Message, Side, Tag, Transcript};
use freshet_worker::worker::Worker;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;
use work::Work;

/// How hard text is packed that is put into a packed page: it is packed anew for each response, so
/// as quickly as can be.
const LEVEL: u32 = 1;

/// Includes in a row that are answered at once, before others of the worker have their turn.
const ASKED_IN_TURN: u32 = 16;

/// What a page is put together for.
pub(crate) struct PageFor {
    pub(crate) worker: Rc<Worker>,
    pub(crate) client: Rc<Client>,
    /// The page's request's number.
    pub(crate) id: u64,
    pub(crate) transcript: Rc<Transcript>,
    pub(crate) settings: Arc<EsiSettings>,
    pub(crate) nesting: Rc<Nesting>,
}

/// A page on its way.
pub struct Assembly {
    page: PageFor,
    parts: ResponseBody,
    /// Whether the parts are under gzip.
    is_packed: bool,
    /// Whether what is sent is under gzip, and whether its beginning and end are sent as well:
    /// a page within a page brings neither.
    out_packed: bool,
    is_outermost: bool,
    head: Vec<u8>,
    current: Option<Head>,
    left: usize,
    include: Vec<u8>,
    child: Option<Child>,
    unpacking: Option<Decompress>,
    packing: Option<Compress>,
    sum: Hasher,
    bytes: u64,
    ready: Bytes,
    has_begun: bool,
    has_ended: bool,
    /// Includes since others had their turn.
    asked_in_turn: u32,
    /// Of the outermost page.
    work: Work,
    /// Whether it may keep nothing in memory.
    is_loose: bool,
}

/// An include on its way.
enum Child {
    Asking { include: Include, answer: Pin<Box<dyn Future<Output = Box<Response>>>>, log: ChildLog },
    Sending { include: Include, body: ResponseBody, fragments: bool, log: ChildLog },
}

/// What is noted of an include.
struct ChildLog {
    transcript: Rc<Transcript>,
    bytes: u64,
}

impl Assembly {
    /// Puts the page whose parts `parts` brings together. `is_packed`: the parts are under gzip;
    /// `out_packed`: so is what is sent.
    pub(crate) fn new(
        page: PageFor,
        parts: ResponseBody,
        is_packed: bool,
        out_packed: bool,
    ) -> Self {
        Self {
            is_outermost: page.nesting.level == 1,
            work: Work::new(page.settings.timeout),
            page,
            parts,
            is_packed,
            out_packed,
            head: Vec::with_capacity(HEAD_BYTES),
            current: None,
            left: 0,
            include: Vec::new(),
            child: None,
            unpacking: None,
            packing: None,
            sum: Hasher::new(),
            bytes: 0,
            ready: Bytes::new(),
            has_begun: false,
            has_ended: false,
            asked_in_turn: 0,
            is_loose: false,
        }
    }

    /// Whether what it gives is deflate without beginning and end.
    pub(crate) fn gives_fragments(&self) -> bool {
        self.out_packed && !self.is_outermost
    }

    /// What the page and its include keep in memory, as one thing.
    pub(crate) fn holding(&self) -> Option<Holding> {
        let include = match &self.child {
            Some(Child::Sending { body, .. }) => body.holding(0),
            _ => None,
        };
        match (self.parts.holding(0), include) {
            (Some(page), Some(include)) => {
                let Held { id, bytes } = include.held;
                let held = Held { id, bytes: bytes + page.held.bytes };
                Some(Holding { held, without: include.without })
            }
            (page, include) => include.or(page),
        }
    }

    /// Keeps neither the page nor its includes in memory from now on.
    pub(crate) fn loosen(&mut self) {
        self.is_loose = true;
        self.parts.loosen();
        if let Some(Child::Sending { body, .. }) = &mut self.child {
            body.loosen();
        }
    }

    /// The next piece, within the limits on all of the page.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        let next = self.poll_some(cx, bytes_max);
        if !self.is_outermost {
            return next;
        }
        let settings = &self.page.settings;
        match &next {
            Poll::Pending => {
                ready!(self.work.poll_over(cx));
                let what = format!("time ({:?})", settings.timeout);
                return Poll::Ready(Err(self.reached(&what)));
            }
            Poll::Ready(Ok(Some(chunk))) => {
                self.work.pause();
                if self.page.nesting.spent.add(chunk.as_ref().len()) > settings.bytes_max {
                    let what = format!("bytes ({})", settings.bytes_max);
                    return Poll::Ready(Err(self.reached(&what)));
                }
            }
            Poll::Ready(_) => {}
        }
        next
    }

    /// Notes that a limit was reached, which breaks the page off.
    fn reached(&self, what: &str) -> BodyBroken {
        self.page.worker.stats.esi_limited.increment();
        self.page.transcript.note(Tag::VCL_Error, format_args!("ESI limit on {what} reached"));
        BodyBroken
    }

    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        loop {
            if !self.ready.is_empty() {
                let piece = self.ready.split_to(self.ready.len().min(bytes_max));
                return Poll::Ready(Ok(Some(Chunk::Bytes(piece))));
            }
            if self.has_ended {
                return Poll::Ready(Ok(None));
            }
            if !std::mem::replace(&mut self.has_begun, true) && self.out_packed && self.is_outermost
            {
                self.ready = Bytes::from_static(&HEADER);
                continue;
            }
            if self.asked_in_turn >= ASKED_IN_TURN {
                self.asked_in_turn = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.child.is_some() {
                if let Some(chunk) = ready!(self.poll_child(cx, bytes_max))? {
                    return Poll::Ready(Ok(Some(chunk)));
                }
                continue;
            }
            if let Some(chunk) = ready!(self.poll_part(cx, bytes_max))? {
                return Poll::Ready(Ok(Some(chunk)));
            }
        }
    }

    /// The next of the page itself; `None` where something else may be next.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        let wanted = match self.current {
            Some(_) => self.left.min(bytes_max),
            None => HEAD_BYTES - self.head.len(),
        };
        let Some(piece) = ready!(self.parts.poll_next(cx, wanted))? else {
            if self.current.is_some() || !self.head.is_empty() {
                return Poll::Ready(Err(BodyBroken));
            }
            self.end();
            return Poll::Ready(Ok(None));
        };
        let bytes: &[u8] = piece.as_ref();
        let Some(head) = self.current else {
            self.head.extend_from_slice(bytes);
            if let Ok(bytes) = <&[u8; HEAD_BYTES]>::try_from(self.head.as_slice()) {
                let head = Head::read(bytes).map_err(|_| BodyBroken)?;
                self.head.clear();
                self.left = head.bytes as usize;
                self.current = Some(head).filter(|_| self.left > 0);
                if head.kind == Kind::Text && self.is_packed && self.out_packed {
                    self.sum.combine(&head.hasher());
                    self.bytes += u64::from(head.text_bytes);
                }
            }
            return Poll::Ready(Ok(None));
        };
        self.left = self.left.checked_sub(bytes.len()).ok_or(BodyBroken)?;
        if self.left == 0 {
            self.current = None;
        }
        match head.kind {
            Kind::Markup => {}
            Kind::Include => {
                self.include.extend_from_slice(bytes);
                if self.left == 0 {
                    let include = read_include(&self.include).map_err(|_| BodyBroken)?;
                    self.include.clear();
                    self.ask(include)?;
                }
            }
            Kind::Text if self.is_packed == self.out_packed => return Poll::Ready(Ok(Some(piece))),
            Kind::Text if self.is_packed => self.ready = self.unpack(bytes)?,
            Kind::Text => self.ready = self.pack(bytes)?,
        }
        Poll::Ready(Ok(None))
    }

    /// The page is over.
    fn end(&mut self) {
        self.has_ended = true;
        if self.out_packed && self.is_outermost {
            let end = trailer(&self.sum, self.bytes);
            self.ready = [&LAST_BLOCK[..], &end].concat().into();
        }
    }

    /// Begins to ask for an include.
    fn ask(&mut self, include: Include) -> Result<(), BodyBroken> {
        self.asked_in_turn += 1;
        let page = &self.page;
        let nesting = &page.nesting;
        let head = request_head(nesting, &include).filter(|_| self.may_ask());
        let Some(head) = head else {
            let breaks = page.settings.obey_onerror && !include.may_fail;
            return if breaks { Err(BodyBroken) } else { Ok(()) };
        };
        let worker = Rc::clone(&page.worker);
        worker.stats.esi_requests.increment();
        let id = worker.next_id();
        page.transcript.note(Tag::Link, format_args!("req {id} esi"));
        let scribe = worker.shared.scribe.as_ref();
        let transcript = Transcript::begin(scribe, Side::Client, id, "req", page.id, "esi");
        transcript.note_start();
        let transcript = Rc::new(transcript);
        note_changes(&transcript, &nesting.original, &head, &include);
        transcript.note(Tag::ReqStart, format_args!("{}", page.client.endpoint()));
        transcript.request(Message::Request, &head);
        let request = Request {
            id,
            transcript: Rc::clone(&transcript),
            head,
            body: None,
            upgrade: false,
            client: Rc::clone(&page.client),
            received: UnixMillis::now(),
            started: Instant::now(),
            interim: Interim::default(),
            nesting: Some(Rc::clone(nesting)),
            has_player: false,
            charge: None,
        };
        let answer = async move { crate::machine::handle(&worker, request).await.into_response() };
        let answer = Box::pin(answer);
        let log = ChildLog { transcript, bytes: 0 };
        self.child = Some(Child::Asking { include, answer, log });
        Ok(())
    }

    /// Whether a further include is within the limits; it is counted.
    fn may_ask(&self) -> bool {
        let PageFor { settings, nesting, transcript, worker, .. } = &self.page;
        if nesting.level > settings.depth_max {
            let depth_max = settings.depth_max;
            let text = format_args!("ESI depth limit reach (param max_esi_depth = {depth_max})");
            transcript.note(Tag::VCL_Error, text);
            return false;
        }
        let asked = nesting.spent.include();
        if asked == settings.includes_max {
            worker.stats.esi_limited.increment();
            let text = format_args!("ESI limit on includes reached ({asked})");
            transcript.note(Tag::VCL_Error, text);
        }
        asked < settings.includes_max
    }

    /// The next of an include; `None` once it is over, or where something else may be next.
    fn poll_child(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        match self.child.take() {
            None => Poll::Ready(Ok(None)),
            Some(Child::Asking { include, mut answer, log }) => {
                let Poll::Ready(response) = answer.as_mut().poll(cx) else {
                    self.child = Some(Child::Asking { include, answer, log });
                    return Poll::Pending;
                };
                self.answered(include, response, log)?;
                Poll::Ready(Ok(None))
            }
            Some(Child::Sending { include, mut body, fragments, mut log }) => {
                let Poll::Ready(next) = body.poll_next(cx, bytes_max) else {
                    self.child = Some(Child::Sending { include, body, fragments, log });
                    return Poll::Pending;
                };
                let chunk = match next {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => {
                        self.combine(&body);
                        log.end();
                        return Poll::Ready(Ok(None));
                    }
                    Err(BodyBroken) => {
                        log.end();
                        let breaks = self.page.settings.obey_onerror && !include.may_fail;
                        // Pieces that were sent have to stay readable, and nobody knows their sum.
                        let result = if breaks || fragments { Err(BodyBroken) } else { Ok(None) };
                        return Poll::Ready(result);
                    }
                };
                let packs = self.out_packed && !fragments;
                log.bytes += chunk.as_ref().len() as u64;
                self.child = Some(Child::Sending { include, body, fragments, log });
                if packs {
                    self.ready = self.pack(chunk.as_ref())?;
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(Some(chunk)))
            }
        }
    }

    /// An include was answered.
    fn answered(
        &mut self,
        include: Include,
        response: Box<Response>,
        log: ChildLog,
    ) -> Result<(), BodyBroken> {
        let Response { head, body, is_packed, .. } = *response;
        let is_good = matches!(head.status, 200 | 204);
        if self.page.settings.obey_onerror && !is_good && !include.may_fail {
            log.end();
            return Err(BodyBroken);
        }
        let fragments = matches!(&body, ResponseBody::Esi(inner) if inner.gives_fragments());
        let body = if is_packed && !fragments {
            let chain = Chain::new([Stage::unpack(Coding::Gzip)]);
            ResponseBody::Coded(Box::new(Coded::new(body, chain, 0..u64::MAX)))
        } else {
            body
        };
        let mut body = body;
        if self.is_loose {
            body.loosen();
        }
        self.child = Some(Child::Sending { include, body, fragments, log });
        Ok(())
    }

    /// Takes the sum of a page within this one.
    fn combine(&mut self, body: &ResponseBody) {
        if let ResponseBody::Esi(inner) = body
            && inner.gives_fragments()
        {
            self.sum.combine(&inner.sum);
            self.bytes += inner.bytes;
        }
    }

    /// Deflate of `text`, which nothing around it refers to.
    fn pack(&mut self, text: &[u8]) -> Result<Bytes, BodyBroken> {
        self.sum.update(text);
        self.bytes += text.len() as u64;
        let raw = self.packing.get_or_insert_with(|| Compress::new(Compression::new(LEVEL), false));
        let (mut out, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (taken, _) =
                deflate(raw, rest, FlushCompress::None, &mut out).map_err(|_| BodyBroken)?;
            rest = rest.get(taken..).unwrap_or(&[]);
        }
        flush(raw, FlushCompress::Full, &mut out).map_err(|_| BodyBroken)?;
        Ok(out.into())
    }

    /// The text of a piece of a part under gzip. A part stands for a bounded length of text.
    fn unpack(&mut self, bytes: &[u8]) -> Result<Bytes, BodyBroken> {
        let raw = self.unpacking.get_or_insert_with(|| Decompress::new(false));
        let (mut out, mut rest) = (Vec::new(), bytes);
        loop {
            out.reserve(PIECE_BYTES);
            let before = raw.total_in();
            raw.decompress_vec(rest, &mut out, FlushDecompress::None).map_err(|_| BodyBroken)?;
            let taken = usize::try_from(raw.total_in() - before).unwrap_or(0);
            rest = rest.get(taken..).unwrap_or(&[]);
            if rest.is_empty() && out.len() < out.capacity() {
                return Ok(out.into());
            }
            if taken == 0 && out.len() < out.capacity() {
                return Err(BodyBroken);
            }
        }
    }
}

impl ChildLog {
    /// The include is over.
    fn end(&self) {
        self.transcript.timestamp("Resp");
        // Its head went nowhere.
        let body = self.bytes;
        self.transcript.note(Tag::ReqAcct, format_args!("0 0 0 0 {body} {body}"));
    }
}

/// Tells how the request for an include was made of the page's, as Varnish does.
fn note_changes(
    transcript: &Transcript,
    page: &RequestHead,
    head: &RequestHead,
    include: &Include,
) {
    if !transcript.is_on() {
        return;
    }
    transcript.note_bytes(Tag::ReqURL, head.target.as_bytes());
    if !include.host.is_empty() {
        transcript.field(Tag::ReqUnset, b"Host", page.authority.as_bytes());
        transcript.field(Tag::ReqHeader, b"Host", head.authority.as_bytes());
    }
    if page.method != head.method {
        transcript.note_bytes(Tag::ReqMethod, head.method.as_str().as_bytes());
    }
    if page.version != head.version {
        transcript.note_bytes(Tag::ReqProtocol, head.version.as_str().as_bytes());
    }
    let order = ["If-Modified-Since", "If-None-Match", "Range", "Accept-Encoding"];
    let (set, unset) = (Tag::ReqHeader, Tag::ReqUnset);
    transcript.changes((set, unset), (&page.fields, &head.fields), &order);
}

/// The request for an include: the page's as it came, with another target. Host and target are as a client would have
/// sent them, in one spelling, unless the site's policy wants them as they stand in the page; `None` where nobody could
/// have.
fn request_head(nesting: &Nesting, include: &Include) -> Option<RequestHead> {
    let mut head = nesting.original.clone();
    head.method = Method::Get;
    head.version = Version::Http11;
    let host = String::from_utf8_lossy(&include.host);
    let target = String::from_utf8_lossy(&include.target);
    if nesting.site.semantics.forwards_as_it_is {
        head.target = target.into_owned();
        if !host.is_empty() {
            head.authority = host.into_owned();
        }
    } else {
        let slashes = if host.is_empty() { "" } else { "//" };
        let reference = format!("{slashes}{host}{target}");
        (head.authority, head.target) = resolve(&head.authority, &head.target, &reference)?;
    }
    let fields = &mut head.fields;
    // Only the whole of it fits into a page.
    conditional::strip(fields);
    for name in ["range", "if-range", "content-length", "transfer-encoding", "expect", "upgrade"] {
        fields.remove(name);
    }
    if nesting.asks_for_gzip {
        fields.set("Accept-Encoding", "gzip");
    } else {
        fields.remove("accept-encoding");
    }
    Some(head)
}
