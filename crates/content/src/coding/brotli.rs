//! Brotli (RFC 7932), a piece at a time.

use super::{Recode, unpacked};
use crate::chain::{CodingError, PIECE_BYTES, Step};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::BrotliEncoderOperation as Operation;
use brotli::enc::encode::BrotliEncoderParameter as Parameter;
use brotli::enc::encode::BrotliEncoderStateStruct;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use freshet_http::coding::Coding;

/// How hard is tried, of 11: what is packed once is worth some time, and from 6 on the time grows
/// faster than the gain.
const QUALITY: u32 = 5;
/// The window is 2^19 bytes, for memory: texts of pages are shorter as a rule, and gzip has 2^15.
const WINDOW_BITS: u32 = 19;

const INVALID: CodingError = CodingError::Invalid(Coding::Brotli);

/// Puts brotli on.
pub(super) struct Pack {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    /// Whether something went in since the last flush.
    is_dirty: bool,
}

impl Default for Pack {
    fn default() -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(Parameter::BROTLI_PARAM_QUALITY, QUALITY);
        state.set_parameter(Parameter::BROTLI_PARAM_LGWIN, WINDOW_BITS);
        Self { state, is_dirty: false }
    }
}

impl Recode for Pack {
    fn packs(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.state.has_more_output()
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        let operation = match is_last {
            true => Operation::BROTLI_OPERATION_FINISH,
            false => Operation::BROTLI_OPERATION_PROCESS,
        };
        let consumed = self.run(operation, input, out)?;
        self.is_dirty |= consumed > 0;
        Ok(Step { consumed, ended: is_last && self.state.is_finished(), ..Step::default() })
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        loop {
            self.run(Operation::BROTLI_OPERATION_FLUSH, &[], out)?;
            if !self.is_full() {
                return Ok(());
            }
        }
    }
}

impl Pack {
    fn run(
        &mut self,
        operation: Operation,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, CodingError> {
        let start = out.len();
        out.resize(start + PIECE_BYTES, 0);
        let (mut left, mut consumed) = (input.len(), 0);
        let (mut room, mut produced) = (PIECE_BYTES, 0);
        let is_good = self.state.compress_stream(
            operation,
            &mut left,
            input,
            &mut consumed,
            &mut room,
            out.get_mut(start..).unwrap_or(&mut []),
            &mut produced,
            &mut None,
            &mut |_, _, _, _| (),
        );
        out.truncate(start + produced);
        if is_good { Ok(consumed) } else { Err(INVALID) }
    }
}

/// Takes brotli off. The window a body may ask for is 16 MiB, the largest RFC 7932 has.
pub(super) struct Unpack {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    has_begun: bool,
    has_ended: bool,
    is_full: bool,
}

impl Default for Unpack {
    fn default() -> Self {
        let alloc = StandardAlloc::default;
        let state = BrotliState::new_strict(alloc(), alloc(), alloc());
        Self { state, has_begun: false, has_ended: false, is_full: false }
    }
}

impl Recode for Unpack {
    fn is_full(&self) -> bool {
        self.is_full
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        if self.has_ended && !input.is_empty() {
            return Err(INVALID);
        }
        let mut consumed = 0;
        if !input.is_empty() || self.is_full {
            self.has_begun = true;
            let start = out.len();
            out.resize(start + PIECE_BYTES, 0);
            let mut left = input.len();
            let (mut room, mut produced, mut total) = (PIECE_BYTES, 0, 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut consumed,
                input,
                &mut room,
                &mut produced,
                out.get_mut(start..).unwrap_or(&mut []),
                &mut total,
                &mut self.state,
            );
            out.truncate(start + produced);
            self.is_full = matches!(result, BrotliResult::NeedsMoreOutput);
            self.has_ended = matches!(result, BrotliResult::ResultSuccess);
            if matches!(result, BrotliResult::ResultFailure) || (self.has_ended && left > 0) {
                return Err(INVALID);
            }
        }
        let is_over = is_last && consumed == input.len() && !self.is_full;
        unpacked(Coding::Brotli, consumed, is_over, self.has_ended || !self.has_begun)
    }
}
