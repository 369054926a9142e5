//! A connection against a client that is made of frames.

use super::super::conduct;
use super::super::frame::{flag, write};
use super::super::hpack::Indexing;
use super::super::limits::{BLOCK_FRAMES_MAX, IDLE_FRAMES_MAX, RESETS_MAX};
use super::*;
use crate::h1::Limits;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;

mod abuse;
mod client;
mod exchange;
mod frames;
mod model;
mod order;
mod varnish;
mod windows;

/// A frame as the client sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The client's side, and the connection it talks to.
struct Peer {
    connection: Connection,
    encoder: Encoder,
    decoder: Decoder,
    now: Duration,
}

fn local() -> Local {
    Local {
        limits: Limits::default(),
        conduct: conduct::RFC_9113,
        streams_max: 10,
        stream_window_bytes: 100_000,
        connection_window_bytes: 200_000,
        header_table_bytes: 4096,
    }
}

fn varnish() -> Local {
    let limits = Limits { takes_loose_heads: true, ..Limits::default() };
    Local { limits, conduct: conduct::VARNISH, stream_window_bytes: 65_535, ..local() }
}

impl Peer {
    fn new(local: Local) -> Self {
        let mut peer = Self {
            connection: Connection::new(local, Scheme::Https),
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096),
            now: Duration::ZERO,
        };
        assert_eq!(peer.raw(PREFACE), Ok(vec![]));
        assert_eq!(peer.send(kind::SETTINGS, 0, 0, &[]), Ok(vec![Event::Opened]));
        peer.seen();
        peer
    }

    /// Events of these bytes, all of which have to be used.
    fn raw(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, Failed> {
        let mut events = Vec::new();
        while let Some(received) = self.connection.receive(bytes, self.now)? {
            bytes = &bytes[received.bytes..];
            if received.event != Event::Nothing {
                events.push(received.event);
            }
        }
        assert!(bytes.is_empty(), "{bytes:?} are left");
        Ok(events)
    }

    fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Vec<Event>, Failed> {
        let mut bytes = Vec::new();
        write(kind, flags, stream, payload, &mut bytes);
        self.raw(&bytes)
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Kept, &mut block);
        }
        block
    }

    fn ask(&mut self, stream: u32, flags: u8, more: &[(&str, &str)]) -> Result<Vec<Event>, Failed> {
        let fields =
            [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];
        let block = self.block(&[&fields[..], more].concat());
        self.send(kind::HEADERS, flags | flag::END_HEADERS, stream, &block)
    }

    /// A request without body.
    fn get(&mut self, stream: u32, more: &[(&str, &str)]) {
        let events = self.ask(stream, flag::END_STREAM, more).expect("it is a request");
        assert!(
            matches!(&events[..], [Event::Request(number, _)] if *number == stream),
            "{events:?}"
        );
    }

    /// A request with a body.
    fn post(&mut self, stream: u32, more: &[(&str, &str)]) {
        let events = self.ask(stream, 0, more).expect("it is a request");
        assert!(
            matches!(&events[..], [Event::Request(number, _)] if *number == stream),
            "{events:?}"
        );
    }

    /// What the connection said since the last time.
    fn seen(&mut self) -> Vec<Seen> {
        let control = std::mem::take(self.connection.control());
        let control = [control, std::mem::take(self.connection.releases())].concat();
        let mut rest = &control[..];
        let mut frames = Vec::new();
        while let Some(header) = Header::parse(rest) {
            let end = FRAME_HEADER_BYTES + header.len;
            let payload = rest[FRAME_HEADER_BYTES..end].to_vec();
            let Header { kind, flags, stream, .. } = header;
            frames.push(Seen { kind, flags, stream, payload });
            rest = &rest[end..];
        }
        assert!(rest.is_empty());
        frames
    }

    fn fields(&mut self, seen: &Seen) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read =
            self.decoder.decode(&seen.payload, |name, value| out.push((text(name), text(value))));
        assert_eq!(read, Ok(()));
        out
    }

    fn respond(&mut self, stream: u32, bytes: usize) {
        assert!(self.connection.respond(stream, &ResponseHead::new(200), None, false).is_some());
        assert!(self.connection.queue(stream, bytes));
        self.connection.finish(stream, None);
    }

    fn widen(&mut self, stream: u32, bytes: u32) {
        let events = self.send(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        assert_eq!(events, Ok(vec![Event::Opened]));
    }

    /// Streams in the order they send, with the bytes they send together.
    fn order(&mut self) -> Vec<(u32, usize)> {
        let mut order: Vec<(u32, usize)> = Vec::new();
        while let Some(frame) = self.connection.next_data(usize::MAX) {
            match order.last_mut() {
                Some((stream, bytes)) if *stream == frame.stream => *bytes += frame.bytes,
                _ => order.push((frame.stream, frame.bytes)),
            }
        }
        order
    }
}

fn rst(stream: u32, code: Code) -> Seen {
    let payload = (code as u32).to_be_bytes().to_vec();
    Seen { kind: kind::RST_STREAM, flags: 0, stream, payload }
}

fn window_update(stream: u32, bytes: u32) -> Seen {
    Seen { kind: kind::WINDOW_UPDATE, flags: 0, stream, payload: bytes.to_be_bytes().to_vec() }
}

/// The last frame says goodbye with this code, up to this stream.
fn assert_goaway(peer: &mut Peer, last_stream: u32, code: Code) {
    let seen = peer.seen();
    let last = seen.last().expect("it says why");
    let payload = [last_stream.to_be_bytes(), (code as u32).to_be_bytes()].concat();
    assert_eq!((last.kind, &last.payload), (kind::GOAWAY, &payload));
    assert!(peer.connection.is_done());
}
