//! What players say of themselves: Common Media Client Data, version 1 (CTA-5004) and 2 (CTA-5004-B).
//!
//! Read leniently: of the keys that are known, those whose values make sense. Players disagree with the
//! specification and with each other, so nothing is refused. A version 2 value may be a list with a
//! parameter for each kind of object, `br=(128;a 3200;v)`; of bit rates that of pictures counts, else the first.

mod reader;
mod request;
mod value;

pub use reader::{decoded, read};
pub use request::{is_said, of, said};
pub use value::{KEYS, Value};

/// A player with less than this in its buffer, or until it needs what it asks for, is about to stand
/// still: less than a usual segment, so that one late answer would empty it.
const URGENT_BUFFER_MS: u32 = 2000;

/// The most that is looked at of what one request or report says.
pub const BYTES_MAX: usize = 2048;

/// Fields it comes in where it is not in the query (CTA-5004 §2.1).
pub const FIELDS: [&str; 4] = ["CMCD-Object", "CMCD-Request", "CMCD-Session", "CMCD-Status"];

/// What a player says. All of it is a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cmcd<'a> {
    /// `sid`: the session.
    pub session: Option<&'a str>,
    /// `cid`: the content.
    pub content: Option<&'a str>,
    /// `br`: encoded bit rate of what is asked for, in kbit/s.
    pub bitrate_kbps: Option<u32>,
    /// `tb`: the highest there is.
    pub top_bitrate_kbps: Option<u32>,
    /// `lb`: the lowest there is.
    pub lowest_bitrate_kbps: Option<u32>,
    /// `tpb`: the highest it could play.
    pub playable_bitrate_kbps: Option<u32>,
    /// `pb`: that of what it shows now.
    pub playhead_bitrate_kbps: Option<u32>,
    /// `ab`, `tab` and `lab`: the same of all that plays together, what is asked for, the highest and the lowest.
    pub all_bitrate_kbps: Option<u32>,
    /// See [`Self::all_bitrate_kbps`].
    pub all_top_bitrate_kbps: Option<u32>,
    /// See [`Self::all_bitrate_kbps`].
    pub all_lowest_bitrate_kbps: Option<u32>,
    /// `mtp`: throughput as the player measured it, in kbit/s.
    pub throughput_kbps: Option<u32>,
    /// `rtp`: the throughput it asks to be limited to, in kbit/s.
    pub requested_kbps: Option<u32>,
    /// `d`: how long what is asked for plays, in milliseconds.
    pub duration_ms: Option<u32>,
    /// `pr`: how fast it plays, as it is written.
    pub rate: Option<&'a str>,
    /// `sta`: what it does, as `p` where it plays and `r` where it stands still (version 2).
    pub state: Option<&'a str>,
    /// `bl`: what is buffered, in milliseconds.
    pub buffer_ms: Option<u32>,
    /// `tbl`: what it wants to have buffered, in milliseconds (version 2).
    pub target_buffer_ms: Option<u32>,
    /// `pt`: where in the presentation it is, in milliseconds (version 2).
    pub playhead_ms: Option<u64>,
    /// `dl`: how long until the buffer runs dry, in milliseconds.
    pub deadline_ms: Option<u32>,
    /// `ltc`: how far behind the event, in milliseconds (version 2).
    pub latency_ms: Option<u32>,
    /// `msd`: from the start to the first picture, in milliseconds (version 2).
    pub start_up_ms: Option<u32>,
    /// `bsd`: how long the player stood still since it last said so, in milliseconds (version 2).
    pub starved_ms: Option<u32>,
    /// `bsa` and `bsda`: how often, and for how long in milliseconds, since its session began (version 2).
    pub starvations_all: Option<u32>,
    /// See [`Self::starvations_all`].
    pub starved_all_ms: Option<u32>,
    /// `dfa`: pictures it left out since its session began (version 2).
    pub dropped_pictures_all: Option<u32>,
    /// `bg`: that nobody looks at it (version 2).
    pub is_in_background: bool,
    /// `nr`: that what is asked for is not shown (version 2).
    pub is_not_rendered: bool,
    /// `sn`: the number of the request or report in its session (version 2).
    pub number: Option<u64>,
    /// `ec`: what failed, the first of what it says (version 2).
    pub error: Option<&'a str>,
    /// `bs`: that it stood still since the last request.
    pub is_starved: bool,
    /// `su`: that it is urgent, for a start, a seek or an empty buffer.
    pub is_start_up: bool,
    /// `st`: what kind of stream.
    pub stream: Option<Stream>,
    /// `sf`: the format: `d` for DASH, `h` for HLS, `s` for Smooth Streaming, `o` for others.
    pub format: Option<u8>,
    /// `ot`: the kind of object: `v`, `a`, `av`, `i`, `m` …
    pub object: Option<&'a str>,
    /// `nor`: what comes next, as it is written.
    pub next: Option<&'a str>,
    /// `nrr`, or `r` beside what comes next in version 2: which bytes of that, as `0-99`.
    pub next_range: Option<&'a str>,
    /// `e`: the event a report is of (version 2).
    pub event: Option<&'a str>,
    /// `ts`: when, in milliseconds since 1970 (version 2).
    pub at_ms: Option<u64>,
    /// `rc`: the status of the response a report is of; 0 where there was none (version 2).
    pub status: Option<u16>,
    /// `ttfb` and `ttlb`: how long after its request the first and the last byte of it came, in milliseconds
    /// (version 2).
    pub first_byte_ms: Option<u32>,
    /// See [`Self::first_byte_ms`].
    pub last_byte_ms: Option<u32>,
    /// `ttfbb`: the same of the first byte of its body (version 2).
    pub first_body_byte_ms: Option<u32>,
    /// `url`: what that was asked for by, as it is written (version 2).
    pub asked: Option<&'a str>,
    /// `cmsdd` and `cmsds`: what its `CMSD-Dynamic` and `CMSD-Static` said, in Base64 (version 2).
    pub server_dynamic: Option<&'a str>,
    /// See [`Self::server_dynamic`].
    pub server_static: Option<&'a str>,
    /// `smrt`: the same of streaming media response tracing, in Base64 (version 2).
    pub trace: Option<&'a str>,
    /// `cs`: which encoding of the content it is, as its packager signs it (version 2).
    pub signature: Option<&'a str>,
    /// `h`: the host an event is of (version 2).
    pub host: Option<&'a str>,
    /// `cen`: the name of an event of the player's own, where `e` is `ce` (version 2).
    pub custom_event: Option<&'a str>,
    /// `v`: the version it says; 1 where it says none.
    pub version: Option<u8>,
}

/// What a player says of a response it got, or did not get.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Response {
    /// Whether there was none, or one with an error.
    pub is_failed: bool,
    /// How long after its request the first byte of it came, in milliseconds.
    pub first_byte_ms: Option<u32>,
    /// The same of the last byte.
    pub last_byte_ms: Option<u32>,
}

/// The event of a report that is of a response (CTA-5004-B, response mode).
const RECEIVED: &str = "rr";

impl Cmcd<'_> {
    /// What a report says of a response; `None` where it is of something else.
    pub fn response(&self) -> Option<Response> {
        let is_failed = self.status.is_some_and(|status| status == 0 || status >= 400);
        let (first_byte_ms, last_byte_ms) = (self.first_byte_ms, self.last_byte_ms);
        let is_one = self.event == Some(RECEIVED);
        is_one.then_some(Response { is_failed, first_byte_ms, last_byte_ms })
    }

    /// Whether the player is about to stand still, does, or waits to begin.
    pub fn is_urgent(&self) -> bool {
        let is_short = |ms: Option<u32>| ms.is_some_and(|ms| ms < URGENT_BUFFER_MS);
        self.is_start_up
            || self.is_starved
            || is_short(self.buffer_ms)
            || is_short(self.deadline_ms)
    }
}

/// Kinds of streams.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Stream {
    /// `v`: a film.
    Vod,
    /// `l`: a channel.
    Live,
    /// `ll`: a channel with low latency.
    LowLatency,
}
