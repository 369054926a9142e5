//! The frames of a hand-over: a length, a kind and as many bytes, numbers in little endian.

use std::io::{self, Read, Write};

/// Of the whole conversation. A process that is offered a newer one starts empty. Since 2, bans have
/// a number in the order of the disks.
pub(super) const VERSION: u32 = 2;
/// What a purge is of that purges nothing: the bans before it are to be durable.
pub(super) const BANS: u64 = 3;
/// What a purge is of that gives the objects of a key other lifetimes. Its time is when they begin, its
/// number how long they are fresh, and two more say grace and keep, milliseconds; [`AS_BEFORE`] is none.
pub(super) const GIVEN: u64 = 4;
/// Of a time that stays as it was.
pub(super) const AS_BEFORE: u64 = u64::MAX;
/// What a hello begins with.
pub(super) const MAGIC: [u8; 8] = *b"freshet\n";
/// The longest frame: a piece of a body is a quarter of it, a description with all its fields is
/// far below.
pub(super) const FRAME_BYTES_MAX: u32 = 4 << 20;
/// The longest piece of a body in one frame.
pub(super) const PIECE_BYTES_MAX: u64 = 1 << 20;

/// What a frame is. The first half comes from the old process, the second from the new one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// [`MAGIC`], [`VERSION`].
    Hello = 1,
    /// A description.
    Object,
    /// All objects there were when it was begun.
    Listed,
    /// The asker's number, bytes.
    Piece,
    /// The asker's number, whether the body was all there.
    End,
    /// A number, what is purged; or only that bans are to be durable.
    Purge,
    /// Nothing changes here any more: take the rest.
    Settled,
    /// A ban: its number, its time, whether it is done, since version 2 its number in the order of
    /// the disks, its text.
    Ban,
    /// Goes on with the version of the hello.
    Accept = 64,
    /// The object's number, the asker's number for it.
    Want,
    /// The number of a purge, since version 2 whether it is durable.
    Purged,
    /// Nothing more is wanted.
    Finished,
}

const KINDS: [Kind; 12] = [
    Kind::Hello,
    Kind::Object,
    Kind::Listed,
    Kind::Piece,
    Kind::End,
    Kind::Purge,
    Kind::Settled,
    Kind::Ban,
    Kind::Accept,
    Kind::Want,
    Kind::Purged,
    Kind::Finished,
];

/// Writes a frame of these parts.
pub(super) fn write(to: &mut impl Write, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = u32::try_from(len).ok().filter(|len| *len <= FRAME_BYTES_MAX);
    let len = len.ok_or_else(|| io::Error::other("a frame is too long"))?;
    let mut head = [kind as u8; 5];
    head[..4].copy_from_slice(&len.to_le_bytes());
    to.write_all(&head)?;
    parts.iter().try_for_each(|part| to.write_all(part))
}

/// Reads the head of the next frame: what it is and how many bytes follow.
pub(super) fn read_head(from: &mut impl Read) -> io::Result<(Kind, usize)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [a, b, c, d, kind] = head;
    let len = u32::from_le_bytes([a, b, c, d]);
    let known = KINDS.into_iter().find(|known| *known as u8 == kind);
    match known {
        Some(kind) if len <= FRAME_BYTES_MAX => Ok((kind, len as usize)),
        _ => Err(malformed()),
    }
}

/// Reads a frame whole.
pub(super) fn read(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let (kind, len) = read_head(from)?;
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}

pub(super) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other process said what is no frame of ours")
}

/// The numbers a frame begins with, and the rest.
pub(super) fn numbers<const N: usize>(bytes: &[u8]) -> io::Result<([u64; N], &[u8])> {
    let (head, rest) = bytes.split_at_checked(N * 8).ok_or_else(malformed)?;
    let mut out = [0; N];
    for (number, bytes) in out.iter_mut().zip(head.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().map_err(|_| malformed())?);
    }
    Ok((out, rest))
}
