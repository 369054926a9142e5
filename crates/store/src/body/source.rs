//! Where a body's bytes are besides in memory.

use super::BodyWriter;
use crate::error::BodyError;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

/// Something that has the bytes of a body: a disk, or another node's memory. What it brings is
/// checked: those who read it cannot tell where it was.
pub trait Source: fmt::Debug + Send + Sync {
    /// Length of the representation.
    fn total(&self) -> u64;

    /// Brings bytes `range` in order; how far it came the writer says. Where it `is_alone`, nobody
    /// else can be asked, and it may take the longer for it.
    fn bring<'a>(
        &'a self,
        writer: &'a mut BodyWriter,
        range: Range<u64>,
        is_alone: bool,
    ) -> Bringing<'a>;

    /// It was of no use: nobody is to be sent here again.
    fn forget(&self);
}

/// Bytes on their way.
pub type Bringing<'a> = Pin<Box<dyn Future<Output = Result<(), SourceError>> + 'a>>;

/// Why a source did not bring all it was asked for.
#[derive(Debug)]
pub enum SourceError {
    /// The body takes no more.
    Body(BodyError),
    /// It did not answer in time.
    Late,
    /// No memory came free in time.
    NoMemory,
    /// It does not have them any more, or not as they were.
    Lost(Box<str>),
}
