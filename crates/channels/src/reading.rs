//! The bytes of a manifest that has come.

use freshet_content::chain::{Chain, Stage};
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;
use freshet_media::Format;
use freshet_media::limits::MANIFEST_BYTES_MAX;
use freshet_store::{Body, Next};
use freshet_wire::h1::Framing;
use std::io::Read as _;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A response that is held because it is a manifest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// What it is written in.
    pub format: Format,
    /// Whether its lifetime may be shortened by what it says: a policy's own word stands.
    pub may_shorten: bool,
}

/// The format of a response of this framing, where it is a manifest that is short enough to be held.
pub fn format_of(fields: &Fields, framing: &Framing, target: &str) -> Option<Format> {
    let is_short = match framing {
        Framing::None => false,
        Framing::Length(bytes) => *bytes > 0 && *bytes <= MANIFEST_BYTES_MAX as u64,
        _ => true,
    };
    if is_short { Format::of(fields.get("content-type"), target) } else { None }
}

/// The first `length` bytes of a body, which are all there, unpacked where it is under `coding`. `None` where
/// they are not, or not to be unpacked, or too many.
pub fn bytes_of(body: &Arc<Body>, length: u64, coding: Option<Coding>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?.min(MANIFEST_BYTES_MAX));
    let mut reader = body.reader(..length);
    while (bytes.len() as u64) < length {
        let mut now = Context::from_waker(Waker::noop());
        let Poll::Ready(Next::Data(piece)) = reader.poll_next(&mut now, MANIFEST_BYTES_MAX) else {
            return None;
        };
        bytes.extend_from_slice(&piece);
    }
    match coding {
        None => Some(bytes),
        Some(Coding::Gzip) => {
            let mut unpacked = Vec::new();
            let most = MANIFEST_BYTES_MAX as u64 + 1;
            let packed = flate2::read::MultiGzDecoder::new(&bytes[..]);
            packed.take(most).read_to_end(&mut unpacked).ok()?;
            (unpacked.len() <= MANIFEST_BYTES_MAX).then_some(unpacked)
        }
        Some(coding) => unpacked(coding, &bytes),
    }
}

/// What is under a coding, where that is sound and short enough.
fn unpacked(coding: Coding, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut chain = Chain::new([Stage::unpack(coding)]);
    let (mut out, mut taken) = (Vec::new(), 0);
    loop {
        let step = chain.step(bytes.get(taken..)?, true, &mut out).ok()?;
        taken += step.consumed;
        if out.len() > MANIFEST_BYTES_MAX {
            return None;
        }
        if step.ended {
            return Some(out);
        }
    }
}
