//! What the transcript of a fetch says of its exchange and its body.

use super::asked::Asked;
use super::fill::Broken;
use freshet_cache::Object;
use freshet_content::chain::Filter;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::{RequestHead, ResponseHead, Version};
use freshet_net::address::PeerAddress;
use freshet_origin::error::FailureKind;
use freshet_origin::{OriginError, OriginResponse};
use freshet_site::shares::{Shares, TRANSIENT, loan_of};
use freshet_telemetry::transcript::{
    Message, Tag, Transcript, head_bytes_of_request, head_bytes_of_response,
};
use freshet_wire::h1::response::ResponseError;
use freshet_wire::h1::{Framing, write};
use std::fmt;
use std::rc::Rc;

/// An origin's answer has come, over which connection and when.
pub(super) fn answered(transcript: &Transcript, origin: &str, response: &OriginResponse) {
    if !transcript.is_on() {
        return;
    }
    let facts = &response.facts;
    transcript.timestamp_before("Connected", facts.answered_after);
    let (remote, local) = (Ends(facts.remote), Ends(facts.local.map(PeerAddress::Tcp)));
    if facts.retried {
        // The connection that was kept had been closed meanwhile.
        let none = Ends(None);
        transcript.note(Tag::BackendOpen, format_args!("0 {origin} {remote} {none} reuse"));
        transcript.timestamp_before("Bereq", facts.answered_after);
        transcript.note(Tag::FetchError, format_args!("HTC eof (-1)"));
        let why = Closing::Bad.words();
        transcript.note(Tag::BackendClose, format_args!("0 {origin} close {why}"));
        transcript.timestamp_before("Connected", facts.answered_after);
    }
    let how = if facts.reused { "reuse" } else { "connect" };
    transcript.note(Tag::BackendOpen, format_args!("0 {origin} {remote} {local} {how}"));
    transcript.timestamp_before("Bereq", facts.answered_after);
    transcript.timestamp("Beresp");
    transcript.response(Message::OriginResponse, &response.head);
}

/// An origin was asked in vain: no head of a response came. Whether it was connected to.
pub(super) fn failed(transcript: &Transcript, origin: Option<&str>, error: &OriginError) -> bool {
    if !transcript.is_on() {
        return false;
    }
    let origin = origin.unwrap_or_default();
    let closing = match error.kind() {
        FailureKind::FirstByteTimeout => Some(Closing::Timeout),
        FailureKind::Closed => Some(Closing::Bad),
        FailureKind::HeadTooLarge => Some(Closing::Overflow),
        FailureKind::HeadMalformed | FailureKind::Upgrade => Some(Closing::Junk),
        FailureKind::WriteTimeout | FailureKind::ClientBody => Some(Closing::Unsent),
        _ => None,
    };
    if closing.is_some() {
        transcript.timestamp("Connected");
        let (remote, local) = (Ends(None), Ends(None));
        transcript.note(Tag::BackendOpen, format_args!("0 {origin} {remote} {local} connect"));
        transcript.timestamp("Bereq");
    }
    let note = |text: fmt::Arguments<'_>| transcript.note(Tag::FetchError, text);
    match error.kind() {
        FailureKind::FirstByteTimeout => note(format_args!("first byte timeout")),
        FailureKind::Closed => note(format_args!("HTC eof (-1)")),
        FailureKind::HeadTooLarge => note(format_args!("overflow")),
        kind if let Some(why) = unconnected(kind) => note(format_args!("backend {origin}: {why}")),
        _ if has_no_length(error) => {
            transcript.note(Tag::Error, format_args!("Body cannot be fetched"));
        }
        FailureKind::HeadMalformed => note(format_args!("http format error")),
        _ => note(format_args!("{error}")),
    }
    if let Some(closing) = closing {
        let why = if has_no_length(error) { Closing::Body } else { closing };
        transcript.note(Tag::BackendClose, format_args!("0 {origin} close {}", why.words()));
    }
    transcript.timestamp("Beresp");
    closing.is_some()
}

/// Why there is no connection, in the words of Varnish; `None` where it is for something else.
pub fn unconnected(kind: FailureKind) -> Option<&'static str> {
    match kind {
        FailureKind::ConnectionLimit => Some("busy"),
        FailureKind::Refused => Some("fail errno 111 (Connection refused)"),
        FailureKind::HeldDown => Some("fail errno 0 (Success)"),
        FailureKind::ConnectTimeout => Some("fail errno 110 (Connection timed out)"),
        _ => None,
    }
}

/// Whether a head was refused for a length that is none.
pub(super) fn has_no_length(error: &OriginError) -> bool {
    let bad = ResponseError::OriginContentLengthInvalid;
    matches!(error, OriginError::OriginHeadMalformed { reason } if *reason == bad)
}

/// Why the connection of an exchange is closed behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Closing {
    /// The request said so.
    AsAsked,
    /// The response did, or the policy; or it ends with its connection.
    AsAnswered,
    /// It is of HTTP/1.0.
    Old,
    /// It makes no sense.
    Bad,
    /// The body broke off, or nobody wants it.
    Body,
    /// What came is no response.
    Junk,
    /// Its head is too long.
    Overflow,
    /// It did not come in time.
    Timeout,
    /// The request could not be sent.
    Unsent,
}

impl Closing {
    fn words(self) -> &'static str {
        match self {
            Self::AsAsked => "Client requested close",
            Self::AsAnswered => "Backend/VCL requested close",
            Self::Old => "Proto < HTTP/1.1",
            Self::Bad => "Received bad req/resp",
            Self::Body => "Failure receiving req.body",
            Self::Junk => "Received junk data",
            Self::Overflow => "Received buffer overflow",
            Self::Timeout => "Receive timeout",
            Self::Unsent => "Error transaction",
        }
    }

    /// Whether and why the connection of this response is closed behind it.
    pub(super) fn of(
        response: &ResponseHead,
        framing: &Framing,
        request: &RequestHead,
    ) -> Option<Self> {
        if *framing == Framing::UntilClose || write::closes(&response.fields) {
            return Some(Self::AsAnswered);
        }
        if response.version == Version::Http10 && !response.fields.contains("connection") {
            return Some(Self::Old);
        }
        write::closes(&request.fields).then_some(Self::AsAsked)
    }
}

/// The policy has looked at the answer: what is done to it.
pub(super) fn processed(
    transcript: &Transcript,
    filters: &[Filter],
    (before, after): (&Fields, &Fields),
) {
    if !transcript.is_on() {
        return;
    }
    transcript.timestamp("Process");
    // Each name has a space before it, as Varnish writes them.
    let names: String = filters.iter().map(|filter| format!(" {}", filter.name())).collect();
    transcript.note(Tag::Filters, format_args!("{names}"));
    // In the order in which Varnish's filters go about it.
    let order = match filters.first() {
        Some(Filter::Unpack(_)) => ["Content-Encoding", "Content-Length", "ETag", "Vary"],
        Some(Filter::EsiGzip) => ["ETag", "Content-Length", "Content-Encoding", "Vary"],
        _ => ["Content-Length", "ETag", "Content-Encoding", "Vary"],
    };
    transcript.changes((Tag::BerespHeader, Tag::BerespUnset), (before, after), &order);
}

/// Bytes of a head as it is kept: each part of it with its end.
pub(super) fn stored_head_bytes(head: &ResponseHead) -> u64 {
    // Version and status.
    let first = 13 + head.reason_phrase().len() + 1;
    let line = |(name, value): (&[u8], &[u8])| name.len() + value.len() + 3;
    (first + head.fields.iter().map(line).sum::<usize>()) as u64
}

/// The body is about to come, and where it goes: the kind and the name of a storage. `streams`: it is
/// sent on while it comes.
pub(super) fn body_begins(
    transcript: &Transcript,
    framing: Framing,
    (kind, name): (&str, &str),
    streams: bool,
) {
    if !transcript.is_on() {
        return;
    }
    let (number, word) = match framing {
        Framing::None | Framing::Length(0) => (0, "none"),
        Framing::Chunked => (2, "chunked"),
        Framing::Length(_) => (3, "length"),
        Framing::UntilClose => (4, "eof"),
    };
    transcript.note(Tag::Storage, format_args!("{kind} {name}"));
    let how = if streams && number > 0 { "stream" } else { "-" };
    transcript.note(Tag::Fetch_Body, format_args!("{number} {word} {how}"));
}

impl Asked {
    /// The connection of the last exchange, if there is one, is given back or closed.
    pub(super) fn note_closed(&mut self, why: Option<Closing>) {
        if !std::mem::take(&mut self.is_connected) {
            return;
        }
        let (transcript, origin) =
            (&self.task.transcript, self.origin.as_deref().unwrap_or_default());
        match why {
            Some(why) => {
                transcript
                    .note(Tag::BackendClose, format_args!("0 {origin} close {}", why.words()));
            }
            None => transcript.note(Tag::BackendClose, format_args!("0 {origin} recycle")),
        }
    }

    /// The body has come: `received` bytes of it, of which `stored` are kept.
    pub(super) fn note_body_ended(&mut self, received: u64, stored: u64) {
        self.account.response_body += received;
        self.note_closed(self.closing);
        let transcript = &self.task.transcript;
        transcript.timestamp("BerespBody");
        transcript.note(Tag::Length, format_args!("{stored}"));
    }

    /// The body broke off, and the rest of it comes with another response, from this byte on.
    pub(super) fn note_continued(&self, from: u64) {
        let origin = self.origin.as_deref().unwrap_or_default();
        self.task.transcript.note(
            Tag::Notice,
            format_args!("Body broke off, {origin} was asked for its rest from byte {from} on"),
        );
    }

    /// The body broke off after `received` bytes.
    pub(super) fn note_body_broken(&mut self, broken: &Broken, received: u64) {
        self.account.response_body += received;
        let (framing, transcript) = (self.framing, &self.task.transcript);
        match broken {
            Broken::Origin(error) => {
                let text = match (error.kind(), framing) {
                    (FailureKind::BodyIncomplete, Framing::Length(_)) => {
                        "straight insufficient bytes"
                    }
                    (FailureKind::BodyIncomplete, Framing::Chunked) => "chunked insufficient bytes",
                    (FailureKind::BodyIncomplete, _) => "eof socket fail",
                    (FailureKind::BodyMalformed, _) => "chunked header non-hex",
                    (FailureKind::BodyTimeout, Framing::Chunked) => "chunked read err",
                    (FailureKind::BodyTimeout, Framing::UntilClose) => "eof socket fail",
                    (FailureKind::BodyTimeout, _) => "straight insufficient bytes",
                    _ => "",
                };
                match text {
                    "" => transcript.note(Tag::FetchError, format_args!("{error}")),
                    text => transcript.note(Tag::FetchError, format_args!("{text}")),
                }
            }
            Broken::Coding(error) => transcript.note(Tag::FetchError, format_args!("{error}")),
            Broken::Local(error) => transcript.note(Tag::FetchError, format_args!("{error}")),
            Broken::Full => {
                transcript.note(Tag::FetchError, format_args!("Could not get storage"));
            }
            Broken::Part(filter) => {
                let why = "Attempted ESI on partial (206) response";
                transcript.note(Tag::VCL_Error, format_args!("{why}"));
                let name = filter.name();
                transcript
                    .note(Tag::FetchError, format_args!("Fetch filter {name} failed to open"));
            }
        }
        self.note_closed(Some(Closing::Body));
    }
}

impl Asked {
    /// A 304 has renewed a stored response: `bytes` of it are kept on.
    pub(super) fn note_renewed(&mut self, object: &Object) {
        if !self.task.transcript.is_on() {
            return;
        }
        let loan = loan_of(object.body());
        let (kind, name) = match &loan {
            Some(loan) => (loan.share().kind(), &**loan.share().name()),
            None => ("malloc", "s0"),
        };
        self.task.transcript.timestamp("Process");
        self.task.transcript.note(Tag::Storage, format_args!("{kind} {name}"));
        self.note_body_ended(0, object.body().total().unwrap_or(0));
    }
}

impl Asked {
    /// A page of the policy's is the answer, kept for as long as it says.
    pub(super) fn note_page(&self, bytes: usize, freshness: Option<&Freshness>) {
        if !self.task.transcript.is_on() || !self.plan.site.semantics.pages_failures {
            return;
        }
        let shares = self.plan.site.shares.as_ref();
        let is_long = |shares: &Shares| {
            let life =
                |one: &Freshness| one.lifetime().saturating_add(one.stale_while_revalidate());
            freshness.is_some_and(|freshness| life(freshness) >= shares.shortlived())
        };
        let (kind, name) = match shares.filter(|shares| is_long(shares)) {
            Some(shares) => {
                let share = shares.next();
                (share.kind(), share.name().to_string())
            }
            None => ("malloc", TRANSIENT.to_owned()),
        };
        self.task.transcript.note(Tag::Storage, format_args!("{kind} {name}"));
        self.task.transcript.note(Tag::Length, format_args!("{bytes}"));
    }
}

/// Bytes of the exchanges of a fetch, which its transcript tells at its end.
#[derive(Debug)]
pub(super) struct Account {
    transcript: Rc<Transcript>,
    request: u64,
    request_body: u64,
    response: u64,
    response_body: u64,
}

impl Account {
    pub(super) fn new(transcript: &Rc<Transcript>) -> Self {
        let transcript = Rc::clone(transcript);
        Self { transcript, request: 0, request_body: 0, response: 0, response_body: 0 }
    }

    /// Adds an exchange, but for the response's body, as it is on the wire.
    pub(super) fn add(
        &mut self,
        request: &RequestHead,
        body: u64,
        response: Option<&ResponseHead>,
    ) {
        if !self.transcript.is_on() {
            return;
        }
        // `Content-Length`, which the writer adds.
        let is_said = body == 0 || request.fields.contains("content-length");
        let length = if is_said { 0 } else { body.to_string().len() as u64 + 18 };
        self.request += head_bytes_of_request(request) + length;
        self.request_body += body;
        self.response += response.map_or(0, head_bytes_of_response);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Self { transcript, request, request_body: sent, response, response_body: got } = self;
        let (asked, answered) = (*request + *sent, *response + *got);
        let text = format_args!("{request} {sent} {asked} {response} {got} {answered}");
        transcript.note(Tag::BereqAcct, text);
    }
}

/// One end of a connection.
struct Ends(Option<PeerAddress>);

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(PeerAddress::Tcp(address)) => write!(f, "{} {}", address.ip(), address.port()),
            _ => f.write_str("0.0.0.0 0"),
        }
    }
}
