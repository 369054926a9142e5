//! The body of a response on a stream that has others beside it, HTTP/2's or HTTP/3's: how much of it
//! waits for its turn, and what comes behind it. The bytes themselves stay with the session.

use freshet_http::fields::Fields;
use std::io::Write as _;

/// What is there of a body and was not sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: usize,
    end: End,
}

/// What is behind the bytes that are there.
#[derive(Debug)]
pub(crate) enum End {
    /// More of them.
    More,
    /// Nothing.
    Last,
    /// Trailers.
    Trailers(Fields),
    /// It was sent.
    Sent,
}

impl Outgoing {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self { bytes: 0, end: End::More }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many more are there, and in the sum `of_all` streams.
    pub(crate) fn queue(&mut self, bytes: usize, of_all: &mut usize) {
        self.bytes += bytes;
        *of_all += bytes;
    }

    /// Takes back what waits, which comes again later; says how much.
    pub(crate) fn unqueue(&mut self, of_all: &mut usize) -> usize {
        let bytes = std::mem::take(&mut self.bytes);
        *of_all -= bytes;
        if bytes > 0 {
            self.end = End::More;
        }
        bytes
    }

    /// It is the turn of so many; says how many wait behind them.
    pub(crate) fn take(&mut self, bytes: usize, of_all: &mut usize) -> usize {
        self.bytes -= bytes;
        *of_all -= bytes;
        self.bytes
    }

    /// What waits is all of it, and `trailers` are behind it.
    pub(crate) fn finish(&mut self, trailers: Option<Fields>) {
        self.end = trailers.map_or(End::Last, End::Trailers);
    }

    /// What is behind it, when it is time for that.
    pub(crate) fn end(&self) -> Option<&End> {
        (self.bytes == 0 && !matches!(self.end, End::More | End::Sent)).then_some(&self.end)
    }

    /// That was sent; says what it was.
    pub(crate) fn sent(&mut self) -> End {
        std::mem::replace(&mut self.end, End::Sent)
    }

    /// Whether all of the response was sent.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.end, End::Sent)
    }
}

/// A number in decimal, in a place for it.
pub(crate) fn decimal(number: u64, place: &mut [u8; 20]) -> &[u8] {
    let mut rest = &mut place[..];
    let _ = write!(rest, "{number}");
    let len = 20 - rest.len();
    place.get(..len).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_comes_behind_all_bytes() {
        let (mut body, mut all) = (Outgoing::new(), 7);
        body.queue(100, &mut all);
        body.finish(None);
        assert!(body.end().is_none() && (body.bytes(), all) == (100, 107));
        assert_eq!(body.take(60, &mut all), 40);
        // What is taken back comes again, so this was not the end.
        assert_eq!((body.unqueue(&mut all), all), (40, 7));
        assert!(body.end().is_none());
        assert_eq!(body.unqueue(&mut all), 0);
        body.finish(Some(Fields::default()));
        assert!(matches!(body.end(), Some(End::Trailers(_))));
        assert!(matches!(body.sent(), End::Trailers(_)) && body.is_sent() && body.end().is_none());
    }

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 7, 10, 1_048_576, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
