//! The body of a response, read from the origin as the caller asks for it.

use crate::connection::Connection;
use crate::definition::Origin;
use crate::error::OriginError;
use crate::http2::stream::Stream;
use crate::pool::Pool;
use crate::stats::Held;
use crate::upload::{Stopped, Upload, WaitsFor};
use freshet_http::fields::Fields;
use freshet_wire::h1::Framing;
use freshet_wire::h1::chunked::Decoder;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Bytes of an unwanted body that [`OriginBody::discard`] reads to save the connection; more costs
/// more than a new connection does.
const DISCARD_BYTES_MAX: u64 = 64 * 1024;

/// How long [`OriginBody::discard`] waits for them: a few round trips within a region.
const DISCARD_TIME_MAX: Duration = Duration::from_millis(50);

/// A response body on its way in.
///
/// The connection goes back to the pool with the last byte; where there is none, when this is dropped or
/// [released](OriginBody::release), so that it can be said before that it is to be closed. Dropped before the
/// last byte, or after an error, the connection is closed: what is left of one response never becomes the start
/// of another.
#[derive(Debug)]
pub struct OriginBody {
    origin: Arc<Origin>,
    /// `None` once the body has ended, one way or the other.
    connection: Option<Connection>,
    /// As `connection`: a body that has ended must not keep a pool alive.
    pool: Option<Pool>,
    source: Source,
    /// Whether the connection may carry another request afterwards.
    keep_alive: bool,
    received: u64,
    declared: Option<u64>,
    failure: Option<OriginError>,
    trailers: Option<Fields>,
    /// What of the request is sent while the response comes.
    upload: Option<Box<Upload>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// The timer runs for the wait that goes on now.
    armed: bool,
    in_flight: Option<Held>,
}

#[derive(Debug)]
enum Source {
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
    /// HTTP/2, which frames it.
    Stream(Stream),
    Ended,
}

impl OriginBody {
    /// The body behind a head of this framing.
    pub(crate) fn new(
        pool: &Pool,
        connection: Connection,
        framing: Framing,
        keep_alive: bool,
        in_flight: Held,
    ) -> Self {
        let (source, declared) = match framing {
            Framing::None => (Source::Ended, None),
            Framing::Length(0) => (Source::Ended, Some(0)),
            Framing::Length(length) => (Source::Length(length), Some(length)),
            Framing::Chunked => (Source::Chunked(Box::new(Decoder::of_response())), None),
            Framing::UntilClose => (Source::UntilClose, None),
        };
        Self {
            origin: Arc::clone(&connection.origin),
            connection: Some(connection),
            pool: Some(pool.clone()),
            source,
            keep_alive,
            received: 0,
            declared,
            failure: None,
            trailers: None,
            upload: None,
            timer: None,
            armed: false,
            in_flight: Some(in_flight),
        }
    }

    /// The body behind a head on a stream of HTTP/2.
    pub(crate) fn of_stream(stream: Stream, framing: Framing, in_flight: Held) -> Self {
        let declared = match framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let mut body = Self::empty(stream.origin());
        body.keep_alive = true;
        body.declared = declared;
        body.in_flight = Some(in_flight);
        if framing == Framing::None || (declared == Some(0) && stream.is_read()) {
            body.end();
        } else {
            body.source = Source::Stream(stream);
        }
        body
    }

    /// A body of nothing, for a connection that went elsewhere.
    pub(crate) fn empty(origin: &Arc<Origin>) -> Self {
        Self {
            origin: Arc::clone(origin),
            connection: None,
            pool: None,
            source: Source::Ended,
            keep_alive: false,
            received: 0,
            declared: None,
            failure: None,
            trailers: None,
            upload: None,
            timer: None,
            armed: false,
            in_flight: None,
        }
    }

    /// Reads content into `out` and returns how much, waiting for the first byte; 0 is the end (or
    /// an empty `out`). Content of known length goes from the socket to `out` without a copy
    /// between. Cancel-safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// [`OriginError::OriginBodyIncomplete`], [`OriginError::OriginBodyMalformed`],
    /// [`OriginError::OriginBodyTimeout`] or [`OriginError::OriginBroken`], and the same again on
    /// every later call.
    pub async fn read(&mut self, out: &mut [u8]) -> Result<usize, OriginError> {
        poll_fn(|cx| self.poll_read(cx, out)).await
    }

    /// Reads what is still to come of it, to its end; none where that is more than `bytes_max`.
    ///
    /// # Errors
    /// As [`OriginBody::read`].
    pub async fn read_whole(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, OriginError> {
        let (mut whole, mut piece) = (Vec::new(), [0; 8192]);
        loop {
            match self.read(&mut piece).await? {
                0 => return Ok(Some(whole)),
                count if count > bytes_max - whole.len() => return Ok(None),
                count => whole.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// As [`OriginBody::read`], as a poll.
    ///
    /// # Errors
    /// As [`OriginBody::read`].
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<usize, OriginError>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if out.is_empty() || matches!(self.source, Source::Ended) {
            return Poll::Ready(Ok(0));
        }
        if let Err(error) = self.poll_upload(cx) {
            return Poll::Ready(Err(self.fail(error)));
        }
        if let Source::Stream(_) = self.source {
            let result = ready!(self.poll_stream(cx, out));
            return Poll::Ready(result.map_err(|error| self.fail(error)));
        }
        let result = loop {
            // A chunked body may bring framing without content: go on behind it.
            let taken = match ready!(self.poll_bytes(cx, out)) {
                Ok(count) => self.decode(out, count),
                Err(error) => Err(error),
            };
            match taken {
                Ok(0) if !matches!(self.source, Source::Ended) => {}
                other => break other,
            }
        };
        Poll::Ready(result.map_err(|error| self.fail(error)))
    }

    /// Has what is left of the request sent while the response is read.
    pub(crate) fn send_on(&mut self, upload: Upload) {
        if !matches!(self.source, Source::Ended) {
            self.upload = upload.rest().map(Box::new);
        }
    }

    /// Sends what there is of the request.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), OriginError> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let sent = match (&self.source, &mut self.connection) {
            (Source::Stream(stream), _) => stream.poll_upload(cx, upload),
            (_, Some(connection)) => {
                let before = upload.written;
                let sent = upload.poll_send(cx, &mut connection.stream);
                self.origin.stats.bytes_sent.add(upload.written - before);
                sent
            }
            (_, None) => Poll::Ready(Ok(())),
        };
        match sent {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(Stopped::Client(reason))) => Err(OriginError::ClientBody { reason }),
            // An origin that takes no more of it may answer all the same.
            Poll::Ready(Ok(()) | Err(Stopped::Origin(_))) => {
                self.upload = None;
                Ok(())
            }
        }
    }

    /// Whether the origin cannot go on before the client does.
    fn waits_for_client(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| {
            let takes = match &self.source {
                Source::Stream(stream) => stream.wants_upload(),
                _ => true,
            };
            takes && upload.waits_for() == WaitsFor::Client
        })
    }

    /// Throws the rest away so that the connection can be used again, where that is little and
    /// comes at once; otherwise closes it.
    pub async fn discard(self) {
        self.discard_within(DISCARD_BYTES_MAX, DISCARD_TIME_MAX).await;
    }

    /// The same where that is as much as this, and comes in this time; how many content bytes came in all, where
    /// it came to its end.
    pub async fn discard_within(mut self, bytes_max: u64, time_max: Duration) -> Option<u64> {
        let rest = match self.source {
            Source::Ended => return Some(self.received),
            Source::UntilClose => u64::MAX,
            Source::Length(left) => left,
            Source::Chunked(_) => 0,
            Source::Stream(_) => self.declared.map_or(0, |all| all.saturating_sub(self.received)),
        };
        if rest > bytes_max || !self.keep_alive {
            return None;
        }
        let mut thrown_away = [0; 4096];
        let reading = async {
            let end = self.received.saturating_add(bytes_max);
            while self.received < end
                && !matches!(self.read(&mut thrown_away).await, Ok(0) | Err(_))
            {}
        };
        timeout(time_max, reading).await.ok();
        self.is_ended().then_some(self.received)
    }

    /// Lets the connection go where no byte is to come.
    pub fn release(&mut self) {
        if self.is_ended() {
            self.end();
        }
    }

    /// Closes the connection behind the body, whatever the origin says.
    pub fn close_after(&mut self) {
        self.keep_alive = false;
    }

    /// Content bytes read so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Content bytes there will be, where the origin said so.
    pub fn declared(&self) -> Option<u64> {
        self.declared
    }

    /// Whether the end was reached, as the framing wants it.
    pub fn is_ended(&self) -> bool {
        matches!(self.source, Source::Ended) && self.failure.is_none()
    }

    /// Trailer fields of a body that has ended; `None` without any. They are not merged
    /// into the head (RFC 9110 §6.5.1).
    pub fn trailers(&self) -> Option<&Fields> {
        self.trailers.as_ref()
    }

    /// Content of a stream of HTTP/2 into `out`.
    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<usize, OriginError>> {
        let Source::Stream(stream) = &self.source else { return Poll::Ready(Ok(0)) };
        let so_far = (self.received, self.declared);
        let count = match stream.poll_read(cx, out, so_far) {
            Poll::Ready(result) => result?,
            Poll::Pending => return self.poll_timeout(cx).map(Err),
        };
        self.armed = false;
        self.received += count as u64;
        if stream.is_read() {
            if self.declared.is_some_and(|declared| self.received < declared) {
                return Poll::Ready(Err(incomplete(self.received, self.declared)));
            }
            self.trailers = stream.take_trailers();
            self.end();
        }
        Poll::Ready(Ok(count))
    }

    /// Bytes of the connection into `out`: what was read along with the head first. Never more
    /// than the body has where its length is known.
    fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<usize, OriginError>> {
        let most = match self.source {
            Source::Length(left) => usize::try_from(left).unwrap_or(usize::MAX).min(out.len()),
            _ => out.len(),
        };
        let out = out.get_mut(..most).unwrap_or_default();
        let Some(connection) = &mut self.connection else {
            return Poll::Ready(Err(incomplete(self.received, self.declared)));
        };
        if !connection.buffer.is_empty() {
            return Poll::Ready(Ok(connection.buffer.take_into(out)));
        }
        match connection.stream.poll_read(cx, out) {
            Poll::Ready(Ok(count)) => {
                self.armed = false;
                self.origin.stats.bytes_received.add(count as u64);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                // A TLS connection cut off: for a body that ends with its connection, that is not
                // the end (RFC 9112 §9.8).
                Poll::Ready(Err(incomplete(self.received, self.declared)))
            }
            Poll::Ready(Err(error)) => {
                Poll::Ready(Err(OriginError::OriginBroken { reason: error.to_string() }))
            }
            Poll::Pending => self.poll_timeout(cx).map(Err),
        }
    }

    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<OriginError> {
        if self.waits_for_client() {
            // Slow clients are their own side's to judge.
            self.armed = false;
            return Poll::Pending;
        }
        let limit = match (&self.source, &self.connection) {
            (Source::Stream(stream), _) => stream.between_bytes,
            (_, Some(connection)) => connection.between_bytes(),
            (_, None) => self.origin.settings.timeouts.between_bytes,
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        if !std::mem::replace(&mut self.armed, true) {
            timer.as_mut().reset(Instant::now() + limit);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(OriginError::OriginBodyTimeout { limit })
    }

    /// Takes the framing out of the first `count` bytes of `out`, in place, and returns how much
    /// content is left there. `count` 0 is the end of the connection.
    fn decode(&mut self, out: &mut [u8], count: usize) -> Result<usize, OriginError> {
        let content = match &mut self.source {
            Source::Ended | Source::Stream(_) => 0,
            Source::UntilClose if count == 0 => {
                self.end();
                0
            }
            Source::UntilClose => count,
            Source::Length(_) | Source::Chunked(_) if count == 0 => {
                return Err(incomplete(self.received, self.declared));
            }
            Source::Length(left) => {
                *left = left.saturating_sub(count as u64);
                if *left == 0 {
                    self.end();
                }
                count
            }
            Source::Chunked(decoder) => {
                let bytes = out.get_mut(..count).unwrap_or_default();
                let (content, used) = unchunk(decoder, bytes)?;
                if decoder.is_done() {
                    let trailers = decoder.take_trailers();
                    self.trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
                    // What follows the body is no answer to anything.
                    self.keep_alive &= used == count;
                    self.end();
                }
                content
            }
        };
        self.received += content as u64;
        Ok(content)
    }

    /// The body is complete: the connection goes back, or is closed.
    fn end(&mut self) {
        self.source = Source::Ended;
        self.upload = None;
        self.timer = None;
        self.in_flight = None;
        let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.take()) else {
            return;
        };
        if self.keep_alive && connection.buffer.is_empty() {
            pool.check_in(connection);
        }
    }

    fn fail(&mut self, error: OriginError) -> OriginError {
        self.origin.failed(&error);
        self.connection = None;
        self.pool = None;
        self.source = Source::Ended;
        self.upload = None;
        self.timer = None;
        self.in_flight = None;
        self.failure = Some(error.clone());
        error
    }
}

impl Drop for OriginBody {
    fn drop(&mut self) {
        self.release();
    }
}

/// Moves the content of chunked `bytes` to their front. Returns its length and how many bytes
/// belonged to the body.
fn unchunk(decoder: &mut Decoder, bytes: &mut [u8]) -> Result<(usize, usize), OriginError> {
    let (mut content, mut used) = (0, 0);
    while used < bytes.len() && !decoder.is_done() {
        let rest = bytes.get(used..).unwrap_or_default();
        let progress = decoder
            .decode(rest)
            .map_err(|error| OriginError::OriginBodyMalformed { reason: error })?;
        let data = used + progress.data.start..used + progress.data.end;
        let len = data.len();
        if data.start != content {
            bytes.copy_within(data, content);
        }
        content += len;
        used += progress.consumed;
    }
    Ok((content, used))
}

fn incomplete(received: u64, declared: Option<u64>) -> OriginError {
    OriginError::OriginBodyIncomplete { received, declared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_cut_anywhere_give_the_content_in_place(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            cuts in prop::collection::vec(1_usize..20, 1..10),
        ) {
            let mut coded = Vec::new();
            for piece in &pieces {
                coded.extend_from_slice(format!("{:x};note=\"x\"\r\n", piece.len()).as_bytes());
                coded.extend_from_slice(piece);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\nx-sum: 1\r\n\r\nnext");
            let (mut decoder, mut content, mut at) = (Decoder::default(), Vec::new(), 0);
            let mut cuts = cuts.iter().cycle();
            while !decoder.is_done() {
                let end = (at + cuts.next().expect("a cycle has no end")).min(coded.len());
                let mut window = coded[at..end].to_vec();
                let (len, used) = unchunk(&mut decoder, &mut window).unwrap();
                content.extend_from_slice(&window[..len]);
                at += used;
            }
            prop_assert_eq!(content, pieces.concat());
            prop_assert_eq!(&coded[at..], b"next");
            prop_assert_eq!(decoder.trailers().get("X-Sum"), Some(&b"1"[..]));
        }
    }
}
