//! Zstandard (RFC 8878), a piece at a time.

use super::{Recode, unpacked};
use crate::chain::{CodingError, PIECE_BYTES, Step};
use freshet_http::coding::Coding;
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// How hard is tried, of 22: denser than gzip, in less time.
const LEVEL: i32 = 6;
/// The window is 2^19 bytes, for memory.
const WINDOW_BITS: u32 = 19;
/// A body may ask for a window of 8 MiB and no more (RFC 9659 §3).
const WINDOW_BITS_MAX: u32 = 23;

const INVALID: CodingError = CodingError::Invalid(Coding::Zstd);

/// Puts zstd on.
pub(super) struct Pack {
    context: CCtx<'static>,
    is_full: bool,
    /// Whether something went in since the last flush.
    is_dirty: bool,
}

impl Default for Pack {
    fn default() -> Self {
        let mut context = CCtx::create();
        for parameter in [CParameter::CompressionLevel(LEVEL), CParameter::WindowLog(WINDOW_BITS)] {
            context.set_parameter(parameter).expect("it is within the library's bounds");
        }
        Self { context, is_full: false, is_dirty: false }
    }
}

impl Recode for Pack {
    fn packs(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        let directive = match is_last {
            true => Directive::ZSTD_e_end,
            false => Directive::ZSTD_e_continue,
        };
        let (consumed, left) = self.run(directive, input, out)?;
        self.is_dirty |= consumed > 0;
        Ok(Step {
            consumed,
            ended: is_last && consumed == input.len() && left == 0,
            ..Step::default()
        })
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        while self.run(Directive::ZSTD_e_flush, &[], out)?.1 > 0 {}
        Ok(())
    }
}

impl Pack {
    /// How much was taken, and how much is still to come out at least.
    fn run(
        &mut self,
        directive: Directive,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, usize), CodingError> {
        let start = out.len();
        out.resize(start + PIECE_BYTES, 0);
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(out.get_mut(start..).unwrap_or(&mut []));
        let left = self.context.compress_stream2(&mut to, &mut from, directive);
        let produced = to.pos();
        out.truncate(start + produced);
        self.is_full = produced == PIECE_BYTES;
        left.map(|left| (from.pos(), left)).map_err(|_| INVALID)
    }
}

/// Takes zstd off. A body may be several frames.
pub(super) struct Unpack {
    context: DCtx<'static>,
    /// Whether the last frame is whole, or there was none.
    is_between: bool,
    is_full: bool,
}

impl Default for Unpack {
    fn default() -> Self {
        let mut context = DCtx::create();
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_BITS_MAX))
            .expect("it is within the library's bounds");
        Self { context, is_between: true, is_full: false }
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
        let mut consumed = 0;
        if !input.is_empty() || self.is_full {
            let start = out.len();
            out.resize(start + PIECE_BYTES, 0);
            let mut from = InBuffer::around(input);
            let mut to = OutBuffer::around(out.get_mut(start..).unwrap_or(&mut []));
            let wanted = self.context.decompress_stream(&mut to, &mut from);
            let produced = to.pos();
            out.truncate(start + produced);
            consumed = from.pos();
            self.is_between = wanted.map_err(|_| INVALID)? == 0;
            self.is_full = produced == PIECE_BYTES && !self.is_between;
        }
        let is_over = is_last && consumed == input.len() && !self.is_full;
        unpacked(Coding::Zstd, consumed, is_over, self.is_between)
    }
}
