//! What puts codings on bodies and takes them off.

mod brotli;
pub mod gzip;
mod zstd;

use crate::chain::{CodingError, Step};
use freshet_http::coding::Coding;
use gzip::{Gunzip, Gzip};

/// Puts a coding on.
#[allow(clippy::large_enum_variant, reason = "each is in a box of its stage")]
pub enum Packer {
    /// gzip.
    Gzip(Gzip),
    /// br.
    Brotli(brotli::Pack),
    /// zstd.
    Zstd(zstd::Pack),
}

impl Packer {
    /// Puts this coding on, as hard as pays where it is done once.
    pub fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(Gzip::default()),
            Coding::Brotli => Self::Brotli(brotli::Pack::default()),
            Coding::Zstd => Self::Zstd(zstd::Pack::default()),
        }
    }

    /// Whether more may come out without more going in.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Gzip(_) => false,
            Self::Brotli(pack) => pack.is_full(),
            Self::Zstd(pack) => pack.is_full(),
        }
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        match self {
            Self::Gzip(pack) => pack.step(input, is_last, out),
            Self::Brotli(pack) => pack.step(input, is_last, out),
            Self::Zstd(pack) => pack.step(input, is_last, out),
        }
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        match self {
            Self::Gzip(pack) => pack.flush(out),
            Self::Brotli(pack) => pack.flush(out),
            Self::Zstd(pack) => pack.flush(out),
        }
    }
}

/// Takes a coding off.
#[allow(clippy::large_enum_variant, reason = "each is in a box of its stage")]
pub enum Unpacker {
    /// gzip.
    Gzip(Gunzip),
    /// br.
    Brotli(brotli::Unpack),
    /// zstd.
    Zstd(zstd::Unpack),
}

impl Unpacker {
    /// Takes this coding off.
    pub fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(Gunzip::default()),
            Coding::Brotli => Self::Brotli(brotli::Unpack::default()),
            Coding::Zstd => Self::Zstd(zstd::Unpack::default()),
        }
    }

    /// Whether more may come out without more going in.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Gzip(unpack) => unpack.is_full(),
            Self::Brotli(unpack) => unpack.is_full(),
            Self::Zstd(unpack) => unpack.is_full(),
        }
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        match self {
            Self::Gzip(unpack) => unpack.step(input, is_last, out),
            Self::Brotli(unpack) => unpack.step(input, is_last, out),
            Self::Zstd(unpack) => unpack.step(input, is_last, out),
        }
    }
}

/// Leaves a coding on, once it has seen that it can be taken off.
pub struct Checker {
    unpacker: Unpacker,
    thrown_away: Vec<u8>,
}

impl Checker {
    /// Checks this coding.
    pub fn new(coding: Coding) -> Self {
        Self { unpacker: Unpacker::new(coding), thrown_away: Vec::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.unpacker.is_full()
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        self.thrown_away.clear();
        let step = self.unpacker.step(input, is_last, &mut self.thrown_away)?;
        out.extend_from_slice(input.get(..step.consumed).unwrap_or(&[]));
        let is_busy = step.consumed == 0 && !step.ended && !self.thrown_away.is_empty();
        Ok(Step { is_busy, ..step })
    }
}
