//! What puts codings on bodies and takes them off.

mod brotli;
pub mod gzip;
mod zstd;

use crate::chain::{CodingError, Step};
use freshet_http::coding::Coding;
use gzip::{Gunzip, Gzip};

/// Puts a coding on, or takes one off, a piece at a time.
pub trait Recode: Send {
    /// Whether more may come out without more going in.
    fn is_full(&self) -> bool {
        false
    }

    /// Takes some of `input` and appends what comes of it, some [`crate::chain::PIECE_BYTES`] at most.
    /// `is_last` says that nothing follows behind `input`.
    ///
    /// # Errors
    /// [`CodingError`]: what came is not what it should be.
    fn step(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>)
    -> Result<Step, CodingError>;

    /// How much content was seen where that is not what comes out.
    fn seen_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether it puts a coding on, so that what goes in is the content.
    fn packs(&self) -> bool {
        false
    }

    /// Lets out what is held back for the sake of density.
    ///
    /// # Errors
    /// [`CodingError`].
    fn flush(&mut self, _out: &mut Vec<u8>) -> Result<(), CodingError> {
        Ok(())
    }
}

/// Puts this coding on, as hard as pays where it is done once.
pub(crate) fn packer(coding: Coding) -> Box<dyn Recode> {
    match coding {
        Coding::Gzip => Box::new(Gzip::default()),
        Coding::Brotli => Box::new(brotli::Pack::default()),
        Coding::Zstd => Box::new(zstd::Pack::default()),
    }
}

/// Takes this coding off.
pub(crate) fn unpacker(coding: Coding) -> Box<dyn Recode> {
    match coding {
        Coding::Gzip => Box::new(Gunzip::default()),
        Coding::Brotli => Box::new(brotli::Unpack::default()),
        Coding::Zstd => Box::new(zstd::Unpack::default()),
    }
}

/// What a step took that takes a coding off: where the body is over, what is under the coding has to be whole.
fn unpacked(
    coding: Coding,
    consumed: usize,
    is_over: bool,
    is_whole: bool,
) -> Result<Step, CodingError> {
    if is_over && !is_whole {
        return Err(CodingError::Cut(coding));
    }
    Ok(Step { consumed, ended: is_over, ..Step::default() })
}

/// Leaves a coding on, once it has seen that it can be taken off.
pub(crate) struct Checker {
    unpacker: Box<dyn Recode>,
    thrown_away: Vec<u8>,
    seen_bytes: u64,
}

impl Checker {
    /// Checks this coding.
    pub(crate) fn new(coding: Coding) -> Self {
        Self { unpacker: unpacker(coding), thrown_away: Vec::new(), seen_bytes: 0 }
    }
}

impl Recode for Checker {
    fn is_full(&self) -> bool {
        self.unpacker.is_full()
    }

    fn seen_bytes(&self) -> Option<u64> {
        Some(self.seen_bytes)
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        self.thrown_away.clear();
        let step = self.unpacker.step(input, is_last, &mut self.thrown_away)?;
        self.seen_bytes += self.thrown_away.len() as u64;
        out.extend_from_slice(input.get(..step.consumed).unwrap_or(&[]));
        let is_busy = step.consumed == 0 && !step.ended && !self.thrown_away.is_empty();
        Ok(Step { is_busy, ..step })
    }
}
