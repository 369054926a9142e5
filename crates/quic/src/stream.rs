//! The two halves of a stream (RFC 9000 §3).

use super::error::{Error, code};
use super::receive::ReceiveBuffer;
use super::send::SendBuffer;
use std::ops::Range;

/// What we send.
#[derive(Debug)]
pub(super) struct Sending<P> {
    pub(super) buffer: SendBuffer<P>,
    /// The offset up to which the client takes it.
    pub(super) limit: u64,
    end: End,
    /// Why it ends before its time, and how far that is told.
    reset: Option<(u64, Told)>,
}

/// What is known of a stream's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// More may be written.
    Open,
    /// All is written, and the end was not sent, or lost.
    Unsent,
    /// It is on its way.
    Sent,
    /// It arrived.
    Arrived,
}

/// How far something is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
    Unsent,
    Sent,
    Arrived,
}

impl<P: AsRef<[u8]>> Sending<P> {
    pub(super) fn new(limit: u64) -> Self {
        Self { buffer: SendBuffer::new(), limit, end: End::Open, reset: None }
    }

    /// Whether pieces may be written.
    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open && self.reset.is_none()
    }

    /// All is written.
    pub(super) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Unsent;
        }
    }

    /// Ends before its time. False when it is over anyway.
    pub(super) fn reset(&mut self, code: u64) -> bool {
        if self.is_done() || self.reset.is_some() {
            return false;
        }
        self.buffer.clear();
        self.reset = Some((code, Told::Unsent));
        true
    }

    /// The next bytes to be sent and whether they are the last; an empty range where only the end is
    /// left to be told.
    pub(super) fn next(&mut self, bytes_max: u64, new_max: u64) -> Option<(Range<u64>, bool)> {
        if self.reset.is_some() {
            return None;
        }
        let limit = self.limit.min(self.buffer.sent().saturating_add(new_max));
        let range = match self.buffer.next(bytes_max, limit) {
            Some(range) => range,
            None if self.has_bare_end() => self.buffer.end()..self.buffer.end(),
            None => return None,
        };
        let ends = range.end == self.buffer.end() && self.end != End::Open;
        if ends && self.end == End::Unsent {
            self.end = End::Sent;
        }
        Some((range, ends))
    }

    /// Bytes in one piece that may be sent in packets one behind the other, `new_max` at most, and where they
    /// begin. The end is not among them where it is known.
    pub(super) fn run(&self, new_max: u64) -> Option<(u64, &[u8])> {
        if self.reset.is_some() {
            return None;
        }
        let start = self.buffer.sent();
        let is_end_known = self.end != End::Open;
        let end = self.limit.min(self.buffer.end() - u64::from(is_end_known));
        let room = end.saturating_sub(start).min(new_max) as usize;
        let bytes = self.buffer.unsent();
        Some((start, bytes.get(..room.min(bytes.len()))?))
    }

    /// A frame arrived.
    pub(super) fn acknowledge(&mut self, range: Range<u64>, ends: bool) {
        if self.reset.is_none() {
            self.buffer.acknowledge(range);
        }
        if ends {
            self.end = End::Arrived;
        }
    }

    /// A frame was lost.
    pub(super) fn lose(&mut self, range: Range<u64>, ends: bool) {
        if self.reset.is_none() {
            self.buffer.lose(range);
        }
        if ends && self.end == End::Sent {
            self.end = End::Unsent;
        }
    }

    /// The code and the final size to be told in a RESET_STREAM frame, which is sent then.
    pub(super) fn take_reset(&mut self) -> Option<(u64, u64)> {
        match &mut self.reset {
            Some((code, told @ Told::Unsent)) => {
                *told = Told::Sent;
                Some((*code, self.buffer.sent()))
            }
            _ => None,
        }
    }

    /// What became of that frame.
    pub(super) fn reset_became(&mut self, became: Told) {
        if let Some((_, told)) = &mut self.reset
            && *told != Told::Arrived
        {
            *told = became;
        }
    }

    /// Whether something has to be sent that needs no window: what was lost, or the end alone.
    pub(super) fn is_urgent(&self) -> bool {
        self.reset.is_none() && (self.buffer.has_lost() || self.has_bare_end())
    }

    /// Whether there is something new that its own window has room for.
    pub(super) fn has_new(&self) -> bool {
        self.reset.is_none() && self.buffer.sent() < self.buffer.end().min(self.limit)
    }

    /// Whether its own window is shut.
    pub(super) fn is_shut(&self) -> bool {
        self.buffer.sent() >= self.limit
    }

    /// Whether nothing of it has to be remembered.
    pub(super) fn is_done(&self) -> bool {
        match self.reset {
            Some((_, told)) => told == Told::Arrived,
            None => self.end == End::Arrived && self.buffer.is_acknowledged(),
        }
    }

    fn has_bare_end(&self) -> bool {
        self.end == End::Unsent && self.buffer.sent() == self.buffer.end()
    }
}

/// What the client sends.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) buffer: ReceiveBuffer,
    /// The offset up to which the client may send.
    limit: u64,
    /// Bytes that were taken for good, so that as many more may come.
    taken: u64,
    /// Where it ends, once that is known.
    size: Option<u64>,
    /// Whether the client said that it ends before its time.
    is_reset: bool,
    /// Why we do not want it, and how far that is told.
    stop: Option<(u64, Told)>,
    /// Whether the end was seen by who reads it.
    is_read: bool,
}

impl Receiving {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            buffer: ReceiveBuffer::default(),
            limit,
            taken: 0,
            size: None,
            is_reset: false,
            stop: None,
            is_read: false,
        }
    }

    /// Bytes came. Returns by how many the highest offset grew.
    ///
    /// # Errors
    /// FLOW_CONTROL_ERROR, FINAL_SIZE_ERROR, or too many gaps.
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8], ends: bool) -> Result<u64, Error> {
        let end = offset + bytes.len() as u64;
        self.check(end, ends)?;
        let before = self.buffer.highest();
        self.buffer
            .insert(offset, bytes)
            .map_err(|_| Error::new(code::INTERNAL_ERROR, "a stream has too many gaps"))?;
        if self.is_unwanted() {
            self.buffer.clear();
        }
        Ok(self.buffer.highest() - before)
    }

    /// It ends before its time, at `size`. Returns by how many the highest offset grew.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub(super) fn reset(&mut self, size: u64) -> Result<u64, Error> {
        self.check(size, true)?;
        let grown = size - self.buffer.highest();
        self.is_reset = true;
        // Where nothing follows, the place of the rest does not matter.
        let _ = self.buffer.insert(size, &[]);
        self.buffer.clear();
        Ok(grown)
    }

    fn check(&mut self, end: u64, ends: bool) -> Result<(), Error> {
        let is_other = self.size.is_some_and(|size| end > size || (ends && end != size));
        if is_other || (ends && end < self.buffer.highest()) {
            return Err(Error::new(code::FINAL_SIZE_ERROR, "a stream changes its end"));
        }
        if end > self.limit {
            return Err(Error::new(code::FLOW_CONTROL_ERROR, "a stream is over its limit"));
        }
        if ends {
            self.size = Some(end);
        }
        Ok(())
    }

    /// It is not wanted any more. False when that is of no use.
    pub(super) fn stop(&mut self, code: u64) -> bool {
        if self.size.is_some() || self.stop.is_some() {
            self.stop.get_or_insert((code, Told::Arrived));
            self.buffer.clear();
            return false;
        }
        self.stop = Some((code, Told::Unsent));
        self.buffer.clear();
        true
    }

    /// The code to be told in a STOP_SENDING frame, which is sent then.
    pub(super) fn take_stop(&mut self) -> Option<u64> {
        match &mut self.stop {
            Some((code, told @ Told::Unsent)) => {
                *told = Told::Sent;
                Some(*code)
            }
            _ => None,
        }
    }

    /// That frame was lost.
    pub(super) fn stop_lost(&mut self) -> bool {
        match &mut self.stop {
            Some((_, told @ Told::Sent)) if self.size.is_none() => {
                *told = Told::Unsent;
                true
            }
            _ => false,
        }
    }

    /// The bytes that are next, and whether they are the last.
    pub(super) fn readable(&self) -> (&[u8], bool) {
        let bytes = self.buffer.readable();
        let ends = self.size == Some(self.buffer.start() + bytes.len() as u64) && !self.is_reset;
        (bytes, ends)
    }

    /// `count` of them are done.
    pub(super) fn consume(&mut self, count: usize) {
        self.buffer.consume(count);
    }

    /// The end was seen, and all before it.
    pub(super) fn end_seen(&mut self) {
        self.is_read |= self.size == Some(self.buffer.start());
    }

    /// `count` bytes were taken for good.
    pub(super) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// A higher limit to be told, once the window of `window` bytes is half used.
    pub(super) fn next_limit(&self, window: u64) -> Option<u64> {
        let next = self.taken + window;
        let is_wanted = self.size.is_none() && !self.is_unwanted();
        (is_wanted && next >= self.limit + window / 2).then_some(next)
    }

    /// The limit that is told from now on.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// The limit as it was told.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether nobody reads it.
    pub(super) fn is_unwanted(&self) -> bool {
        self.stop.is_some() || self.is_reset
    }

    /// Whether nothing of it has to be remembered.
    pub(super) fn is_done(&self) -> bool {
        self.size.is_some() && (self.is_reset || self.is_read || self.stop.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_until_it_arrived() {
        let mut sending = Sending::new(100);
        sending.buffer.write(vec![0; 10]);
        assert_eq!(sending.next(50, 50), Some((0..10, false)));
        sending.finish();
        assert!(sending.is_urgent());
        assert_eq!(sending.next(50, 50), Some((10..10, true)));
        assert_eq!(sending.next(50, 50), None);
        sending.lose(10..10, true);
        sending.lose(5..10, false);
        assert_eq!(sending.next(50, 50), Some((5..10, true)));
        sending.acknowledge(0..5, false);
        sending.acknowledge(5..10, true);
        assert!(sending.is_done());
    }

    #[test]
    fn an_end_stays_where_it_is() {
        let wrong = |error: Error| error.code;
        let mut receiving = Receiving::new(100);
        assert_eq!(receiving.insert(0, &[0; 10], false), Ok(10));
        assert_eq!(receiving.insert(3, &[], true).map_err(wrong), Err(code::FINAL_SIZE_ERROR));
        assert_eq!(receiving.insert(10, &[0; 10], true), Ok(10));
        assert_eq!(receiving.insert(10, &[0; 9], true).map_err(wrong), Err(code::FINAL_SIZE_ERROR));
        assert_eq!(receiving.insert(20, &[0], false).map_err(wrong), Err(code::FINAL_SIZE_ERROR));
        assert_eq!(receiving.reset(19).map_err(wrong), Err(code::FINAL_SIZE_ERROR));
        let mut receiving = Receiving::new(100);
        assert_eq!(
            receiving.insert(91, &[0; 10], false).map_err(wrong),
            Err(code::FLOW_CONTROL_ERROR)
        );
        assert_eq!(receiving.reset(101).map_err(wrong), Err(code::FLOW_CONTROL_ERROR));
        assert_eq!(receiving.reset(100), Ok(100));
        assert!(receiving.is_done());
    }
}
