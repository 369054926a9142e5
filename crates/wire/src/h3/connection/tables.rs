//! The tables of fields, and the two streams on each side that speak of them (RFC 9204 §4.2).

use super::super::limits::{
    TABLE_BYTES_MAX, TABLE_CHANGES_MAX, TABLE_CHANGES_PER_REQUEST, TABLE_CHANGES_PER_SECOND,
    TABLE_STREAM_BYTES_MAX,
};
use super::super::one_way::Purpose;
use super::super::{Code, qpack};
use super::{Connection, Step};
use crate::h1;
use crate::head::HeadBuilder;
use freshet_base::debt::Debt;
use freshet_http::priority::Priority;
use std::collections::BTreeSet;
use std::time::Duration;

/// The table that the client fills, ours at the client, and what there is about them.
#[derive(Debug)]
pub(super) struct Tables {
    decoder: qpack::Decoder,
    /// Streams whose head waits for the client's table, and how many may.
    waiting: BTreeSet<u64>,
    waiting_max: u64,
    changes: Debt,
    /// There where the client takes a table.
    pub(super) encoder: Option<Box<qpack::Encoder>>,
    /// Our streams.
    decoder_stream: Option<u64>,
    encoder_stream: Option<u64>,
}

impl Tables {
    pub(super) fn new(waiting_max: u64) -> Self {
        Self {
            decoder: qpack::Decoder::new(TABLE_BYTES_MAX),
            waiting: BTreeSet::new(),
            waiting_max,
            changes: Debt::new(TABLE_CHANGES_MAX, TABLE_CHANGES_PER_SECOND),
            encoder: None,
            decoder_stream: None,
            encoder_stream: None,
        }
    }

    /// Whether a stream is one of ours for the tables.
    pub(super) fn is_ours(&self, number: u64) -> bool {
        [self.decoder_stream, self.encoder_stream].contains(&Some(number))
    }

    /// The client lets us fill a table of so many bytes.
    pub(super) fn set_peer_max(&mut self, bytes: u64) {
        if bytes > 0 {
            self.encoder = Some(Box::new(qpack::Encoder::new(bytes, TABLE_BYTES_MAX)));
        }
    }

    /// Reads a head, and says how many entries it needs; `None` where it waits for them.
    pub(super) fn decode<'a>(
        &mut self,
        number: u64,
        block: &[u8],
        (limits, is_trailers): (&'a h1::Limits, bool),
    ) -> Result<Option<(HeadBuilder<'a>, u64)>, Code> {
        let mut builder = HeadBuilder::new(limits, is_trailers);
        match self.decoder.decode(block, |name, value| builder.field(name, value)) {
            Ok(required) => Ok(Some((builder, required))),
            Err(qpack::Unread::Wrong(_)) => Err(Code::DecompressionFailed),
            Err(qpack::Unread::Waits) => {
                self.waiting.insert(number);
                let is_allowed = self.waiting.len() as u64 <= self.waiting_max;
                if is_allowed { Ok(None) } else { Err(Code::DecompressionFailed) }
            }
        }
    }

    /// A head is read.
    pub(super) fn decoded(&mut self, number: u64, required: u64) {
        self.decoder.acknowledge(number, required);
        self.changes.forgive(TABLE_CHANGES_PER_REQUEST);
    }

    /// A stream is over before all of it was read.
    pub(super) fn cancel(&mut self, number: u64) {
        self.waiting.remove(&number);
        // A head that was not read may refer to what is there, or to what would come if it may wait.
        if self.waiting_max > 0 || self.decoder.is_filled() {
            self.decoder.cancel(number);
        }
    }

    /// Takes what the client says of a table, and how much of it is done.
    fn take(&mut self, purpose: Purpose, bytes: &[u8], now: Duration) -> Result<usize, Code> {
        if purpose == Purpose::Decoder {
            // A stream that is given up is told although there is no table.
            let encoder = self.encoder.get_or_insert_with(|| Box::new(qpack::Encoder::new(0, 0)));
            return encoder.instructions(bytes).map_err(|_| Code::DecoderStreamError);
        }
        let (done, count) =
            self.decoder.instructions(bytes).map_err(|_| Code::EncoderStreamError)?;
        // A table that changes without end and is of no use is work for nothing.
        let is_calm = (0..count).all(|_| self.changes.owe(now));
        if is_calm { Ok(done) } else { Err(Code::ExcessiveLoad) }
    }
}

impl<P: AsRef<[u8]> + From<Vec<u8>>> Connection<P> {
    /// Something came on a stream of the client's about a table. Says how much of it is done.
    pub(super) fn table_stream(&mut self, number: u64, purpose: Purpose) -> Result<usize, Code> {
        let Some((bytes, _)) = self.quic.readable(number) else { return Ok(0) };
        self.tables.take(purpose, bytes, self.now)
    }

    /// Reads what waited for the client's table.
    pub(super) fn read_waiting(&mut self) -> Result<(), Code> {
        for number in std::mem::take(&mut self.tables.waiting) {
            while let Step::Again = self.read(number)? {}
        }
        Ok(())
    }

    /// Says what there is to say of the tables.
    pub(super) fn say_of_tables(&mut self) -> Result<(), Code> {
        if self.tables.decoder.has_said() {
            let said = self.tables.decoder.take_said();
            self.say_on(said, 3)?;
        }
        if let Some(encoder) = self.tables.encoder.as_mut().filter(|encoder| encoder.has_said()) {
            let said = encoder.take_said();
            self.say_on(said, 2)?;
        }
        Ok(())
    }

    /// Says something on one of our streams, which is opened with its first words.
    fn say_on(&mut self, said: Vec<u8>, kind: u8) -> Result<(), Code> {
        let place = match kind {
            3 => &mut self.tables.decoder_stream,
            _ => &mut self.tables.encoder_stream,
        };
        let (stream, words) = match *place {
            Some(stream) => (stream, said),
            None => {
                // A client that leaves no room for it has no use for tables.
                let Some(stream) = self.quic.open() else { return self.without_tables(kind) };
                *place = Some(stream);
                self.quic.prioritize(stream, Priority { urgency: 0, incremental: false });
                (stream, [&[kind], &said[..]].concat())
            }
        };
        if self.quic.unsent(stream) > TABLE_STREAM_BYTES_MAX {
            return Err(Code::ExcessiveLoad);
        }
        self.quic.write(stream, words.into());
        Ok(())
    }

    fn without_tables(&mut self, kind: u8) -> Result<(), Code> {
        if kind == 2 {
            self.tables.encoder = None;
        }
        Ok(())
    }
}
