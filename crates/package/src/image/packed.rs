//! What layers are read through: unpacking by zstd, and the rest of a last block that is not there.

use crate::limits::ZSTD_WINDOW_BITS_MAX;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Bytes of packed text that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of a block of a tar archive.
const BLOCK_BYTES: u64 = 512;

/// What frames of zstd unpack to (RFC 8878).
pub(super) struct Unzstd<R> {
    from: R,
    context: DCtx<'static>,
    /// What was read, of which what is `left` is not unpacked yet.
    read: Vec<u8>,
    left: std::ops::Range<usize>,
    /// Whether a frame has ended where unpacking is.
    is_between: bool,
}

impl<R: Read> Unzstd<R> {
    pub(super) fn new(from: R) -> io::Result<Self> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX)).map_err(said)?;
        Ok(Self { from, context, read: vec![0; CHUNK_BYTES], left: 0..0, is_between: false })
    }
}

fn said(code: usize) -> io::Error {
    let what = format!("zstd: {}", zstd_safe::get_error_name(code));
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Read for Unzstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.left.is_empty() {
                self.left = 0..self.from.read(&mut self.read)?;
            }
            let is_end = self.left.is_empty();
            let mut from = InBuffer::around(&self.read[self.left.clone()]);
            let mut to = OutBuffer::around(&mut *buffer);
            let wanted = self.context.decompress_stream(&mut to, &mut from).map_err(said)?;
            let (taken, given) = (from.pos, to.pos());
            self.left.start += taken;
            // A call that does nothing says what the next frame would need.
            if taken > 0 || given > 0 {
                self.is_between = wanted == 0;
            }
            if given > 0 {
                return Ok(given);
            }
            if is_end && self.is_between {
                return Ok(0);
            }
            if is_end {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "zstd: ends too early"));
            }
        }
    }
}

/// An archive whose last block is filled where it is not whole: some programs leave out what is of no file any more,
/// and others take that.
pub(super) struct Filled<R> {
    from: R,
    /// Bytes that there were.
    real: Rc<Cell<u64>>,
    /// Bytes of the last block that are still to be given, once the end is known.
    missing: Option<u64>,
}

impl<R: Read> Filled<R> {
    /// Also gives the number of bytes that there were, as it grows.
    pub(super) fn new(from: R) -> (Self, Rc<Cell<u64>>) {
        let real = Rc::new(Cell::new(0));
        (Self { from, real: Rc::clone(&real), missing: None }, real)
    }
}

impl<R: Read> Read for Filled<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.missing.is_none() {
            let bytes = self.from.read(buffer)?;
            self.real.set(self.real.get() + bytes as u64);
            if bytes > 0 {
                return Ok(bytes);
            }
        }
        let missing = self
            .missing
            .unwrap_or_else(|| self.real.get().next_multiple_of(BLOCK_BYTES) - self.real.get());
        // It is less than a block.
        let given = buffer.len().min(missing as usize);
        buffer[..given].fill(0);
        self.missing = Some(missing - given as u64);
        Ok(given)
    }
}
