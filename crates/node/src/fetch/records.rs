//! What the transcript of a fetch says of its exchange and its body.

use super::asked::Asked;
use crate::transcript::{Message, Tag, Transcript, head_bytes_of_request, head_bytes_of_response};
use freshet_content::chain::Filter;
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_net::address::PeerAddress;
use freshet_origin::error::FailureKind;
use freshet_origin::{OriginError, OriginResponse};
use freshet_wire::h1::Framing;
use freshet_wire::h1::response::ResponseError;
use std::fmt;

/// An origin's answer has come, over which connection and when.
pub(super) fn answered(transcript: &Transcript, origin: &str, response: &OriginResponse) {
    if !transcript.is_on() {
        return;
    }
    let facts = &response.facts;
    transcript.timestamp_before("Connected", facts.answered_after);
    let (remote, local) = (Ends(facts.remote), Ends(facts.local.map(PeerAddress::Tcp)));
    let how = if facts.reused { "reuse" } else { "connect" };
    transcript.note(Tag::BackendOpen, format_args!("0 {origin} {remote} {local} {how}"));
    transcript.timestamp_before("Bereq", facts.answered_after);
    transcript.timestamp("Beresp");
    transcript.response(Message::OriginResponse, &response.head);
}

/// An origin was asked in vain.
pub(super) fn failed(transcript: &Transcript, origin: Option<&str>, error: &OriginError) {
    let origin = origin.unwrap_or_default();
    match error.kind() {
        FailureKind::FirstByteTimeout => {
            transcript.note(Tag::FetchError, format_args!("first byte timeout"));
        }
        FailureKind::Closed => {
            let text = format_args!("HTC eof (Unexpected end of input)");
            transcript.note(Tag::FetchError, text);
        }
        FailureKind::ConnectionLimit => {
            transcript.note(Tag::FetchError, format_args!("backend {origin}: busy"));
        }
        FailureKind::Refused => {
            let text = format_args!("backend {origin}: fail errno 111 (Connection refused)");
            transcript.note(Tag::FetchError, text);
        }
        _ => {
            let bad = ResponseError::OriginContentLengthInvalid;
            if matches!(error, OriginError::OriginHeadMalformed { reason } if *reason == bad) {
                transcript.note(Tag::Error, format_args!("Body cannot be fetched"));
            }
            transcript.note(Tag::FetchError, format_args!("{error}"));
        }
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
    transcript.changes(Tag::BerespHeader, Tag::BerespUnset, before, after);
}

/// Bytes of a head as it is kept: each part of it with its end.
pub(super) fn stored_head_bytes(head: &ResponseHead) -> u64 {
    // Version and status.
    let first = 13 + head.reason_phrase().len() + 1;
    let line = |(name, value): (&[u8], &[u8])| name.len() + value.len() + 3;
    (first + head.fields.iter().map(line).sum::<usize>()) as u64
}

/// The body is about to come, and where it goes: the kind and the name of a storage.
pub(super) fn body_begins(transcript: &Transcript, framing: Framing, (kind, name): (&str, &str)) {
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
    let how = if framing == Framing::None { "-" } else { "stream" };
    transcript.note(Tag::Fetch_Body, format_args!("{number} {word} {how}"));
}

impl Asked {
    /// The body has come, `bytes` of it.
    pub(super) fn note_body_ended(&self, framing: Framing, bytes: u64) {
        let origin = self.origin.as_deref().unwrap_or_default();
        body_ended(&self.task.transcript, origin, framing, bytes, self.heads);
    }
}

fn body_ended(transcript: &Transcript, origin: &str, framing: Framing, bytes: u64, heads: Heads) {
    let how = if framing == Framing::UntilClose { "close" } else { "recycle" };
    transcript.note(Tag::BackendClose, format_args!("0 {origin} {how}"));
    transcript.timestamp("BerespBody");
    transcript.note(Tag::Length, format_args!("{bytes}"));
    let Heads { request, body, response } = heads;
    transcript.note(
        Tag::BereqAcct,
        format_args!("{request} {body} {} {response} {bytes} {}", request + body, response + bytes),
    );
}

/// Bytes of an exchange but those of the response's body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heads {
    request: u64,
    /// The request's body.
    body: u64,
    response: u64,
}

/// Bytes of an exchange as they are on the wire; 0 where nobody wants to know.
pub(super) fn heads(
    transcript: &Transcript,
    request: &RequestHead,
    body: u64,
    response: &ResponseHead,
) -> Heads {
    if !transcript.is_on() {
        return Heads::default();
    }
    // `Content-Length`, which the writer adds.
    let length = if body > 0 { body.to_string().len() as u64 + 18 } else { 0 };
    Heads {
        request: head_bytes_of_request(request) + length,
        body,
        response: head_bytes_of_response(response),
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
