//! The named maximums of this crate, each with its reason.

use std::time::Duration;

/// Plaintext sealed before the socket is asked to take the result. Four full records; larger
/// batches fall out of the second-level cache between seal and write, smaller ones cost more
/// system calls.
pub const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Plaintext sealed before a socket that did not take the batch before whole is asked again: one
/// record. What a socket leaves of it is kept by the connection, so this bounds the memory of many
/// slow clients. Each batch that is taken whole doubles the next.
pub const BATCH_BYTES_MIN: usize = 16 * 1024;

/// What may already wait in a session's send queue when a batch is sealed behind it: the session
/// tickets of a handshake, so that they leave in the same write as the first response.
pub const PIGGYBACK_BYTES_MAX: usize = 4 * 1024;

/// Bytes of ciphertext taken from a socket by one read, at most. One buffer of this size exists per
/// thread.
pub const READ_BYTES_MAX: usize = 64 * 1024;

/// Bytes of ciphertext taken from a socket by one read, at least, however small the caller's slice
/// is: a record cannot be opened in part, and a request head fits.
pub const READ_BYTES_MIN: usize = 4 * 1024;

/// Records that one AES-GCM key seals before it is replaced: half of the 2^24 that rustls allows,
/// which is well below 2^24.5 full records (RFC 8446 §5.5).
pub const RECORDS_PER_KEY_MAX: u64 = 1 << 23;

/// Bytes of a client's handshake that wait for the rest of a message. rustls takes messages of up
/// to 64 KiB, in records with headers; those of a client without certificate have some thousands.
pub const HANDSHAKE_BYTES_MAX: usize = 72 * 1024;

/// Certificates of authorities that a client may show with its own: no way to a known authority is longer. Among more of one
/// name there are so many ways that to try them takes long.
pub const CLIENT_AUTHORITIES_MAX: usize = 6;

/// Pieces given to the kernel, or to the cipher, in one call. Linux takes up to 1024; a response
/// has a head and a few pieces of body, and the array lives on the stack.
pub const PIECES_MAX: usize = 64;

/// Bytes one stream may write before it lets the other tasks of its worker run. A socket that never
/// blocks (a fast peer, loopback) would otherwise keep the worker to itself.
pub const TURN_BYTES_MAX: usize = 256 * 1024;

/// Handshake steps computed by one thread between two looks at its sockets. At about 0.3 ms each
/// this stalls transfers for less than 3 ms when a thousand clients arrive together.
pub const HANDSHAKES_PER_TURN_MAX: usize = 8;

/// Connections waiting to be accepted when no other number is configured; the kernel clips it to
/// `net.core.somaxconn`.
pub const BACKLOG: u32 = 4096;

/// Pause after the kernel refused a connection for want of descriptors or memory. Long enough not
/// to spin, short enough that recovery is not noticed.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of a PROXY protocol header. Version 1 needs 107 (a fixed maximum), version 2 with client
/// certificate details some hundreds; the format would allow 64 KiB.
pub const PROXY_HEADER_BYTES_MAX: usize = 4 * 1024;

/// Bytes thrown away while waiting for the peer to close after us. Closing with unread bytes makes
/// the kernel send a reset, which can destroy a response the peer has not read yet. More than sockets of both
/// ends hold, also where a client writes all of a body before it reads; time ends it sooner for who goes on.
pub const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of a certificate, key, authority or staple file. The bundle of all public authorities has
/// about 220 KB.
pub const PEM_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of datagrams taken from a UDP socket by one read: what the kernel joins of one sender.
pub const UDP_READ_BYTES_MAX: usize = 64 * 1024;

/// Bytes of datagrams asked to be kept by the kernel in each direction while a worker does something
/// else: some 5 ms at 10 Gbit/s.
pub const UDP_BUFFER_BYTES: usize = 8 << 20;

/// Pause before datagrams are sent again that a device had no room for.
pub const SEND_PAUSE: Duration = Duration::from_millis(1);

/// Such pauses before the datagrams are given up: by then most clients have taken them for lost.
pub const SEND_PAUSES_MAX: u32 = 200;

/// Handshakes of QUIC that are open on one worker before clients have to show where they are first:
/// more than come together by chance, and some 4 MB of memory.
pub const HANDSHAKES_UNASKED_MAX: usize = 100;

/// Tokens of clients that were here before which a process remembers as used: 32 KiB. One whose place another has
/// taken could be used once more, from the same address.
pub const VISITS_REMEMBERED: usize = 4096;

/// Handshakes of QUIC that are open on one worker before no more begin. A network, an IPv4 address or 64 bits of
/// an IPv6 one, may have as many as there is still room for: alone it has half of all at most, and others find room.
pub const HANDSHAKES_OPEN_MAX: usize = 2000;

/// Sessions of one listener that clients may continue with early data, two for each client: some 6 MB.
pub const EARLY_SESSIONS_MAX: usize = 20_000;

/// Ids of handshakes that a process has begun and one after it leaves to it: two for each.
pub const BEGUN_BEFORE_MAX: usize = 2 * HANDSHAKES_OPEN_MAX;

/// Stateless resets and refusals that one worker sends in a second. Each is shorter than what it answers, so it
/// is of little use to an attacker; this bounds the rest.
pub const RESETS_PER_SECOND_MAX: u32 = 200;
