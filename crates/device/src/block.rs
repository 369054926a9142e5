//! Memory for disk I/O that is not the arena's: aligned, and cleared when it is made.

use super::limits::BLOCK_BYTES;
use freshet_store::PieceMut;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes that begin at a page, as direct I/O wants them.
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    /// `len` zeroes, at least one block of [`BLOCK_BYTES`].
    ///
    /// # Panics
    /// If `len` does not fit an allocation; callers have bounds far below.
    pub fn new(len: usize) -> Self {
        let align = BLOCK_BYTES as usize;
        let layout = Layout::from_size_align(len.max(align).next_multiple_of(align), align)
            .expect("blocks are bounded far below the address space");
        // SAFETY: the size of the layout is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    /// A copy of `bytes`, filled up with zeroes to whole blocks.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut block = Self::new(bytes.len());
        block[..bytes.len()].copy_from_slice(bytes);
        block
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation has this many bytes, all initialised, and is owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is not used any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

/// Memory that takes part in an I/O. It belongs to the I/O until that has ended, whoever stopped
/// waiting for it.
#[derive(Default)]
pub enum Buffer {
    /// None is needed.
    #[default]
    None,
    /// Unpublished memory of the arena.
    Piece(PieceMut),
    /// Other memory.
    Block(Block),
}

impl Buffer {
    /// The bytes to write, or to read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::None => &mut [],
            Self::Piece(piece) => piece.spare(),
            Self::Block(block) => block,
        }
    }

    /// The block, where it is one; an empty one otherwise.
    pub fn into_block(self) -> Block {
        match self {
            Self::Block(block) => block,
            Self::None | Self::Piece(_) => Block::new(0),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no buffer",
            Self::Piece(_) => "memory of the arena",
            Self::Block(_) => "a block",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_whole_pages_of_zeroes_and_then_what_is_written() {
        let mut block = Block::from_bytes(b"some bytes");
        assert_eq!(block.len() as u64, BLOCK_BYTES);
        assert!(block.starts_with(b"some bytes") && block[10..].iter().all(|byte| *byte == 0));
        block.fill(7);
        assert!(block.iter().all(|byte| *byte == 7));
        assert_eq!(Block::new(BLOCK_BYTES as usize + 1).len() as u64, 2 * BLOCK_BYTES);
    }
}
