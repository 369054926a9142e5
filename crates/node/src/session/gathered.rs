//! A connection whose writes leave together at the end of a turn.
//!
//! The `h2` crate writes and flushes one frame at a time: of 16 KiB as a rule, which would be a
//! system call and a record and a bit for each. Here what it writes while the connection is polled
//! is put into one buffer of the thread and leaves by large writes when the buffer is full and when
//! the poll is over. The copy is from memory the record layer would have to read into memory that
//! stays in the processor's cache.

use freshet_net::stream::Stream;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes gathered before they are sent although the turn goes on: two batches of TLS.
const GATHER_BYTES_MAX: usize = 128 << 10;

/// Bytes gathered for a socket that did not take all the last time, for what it leaves is copied
/// and kept. Each time it takes all doubles the next.
const GATHER_BYTES_MIN: usize = 32 << 10;

thread_local! {
    /// The buffer of whichever connection has its turn.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The side of the connection that `h2` reads and writes.
pub(super) struct Gathered(Rc<RefCell<Connection>>);

/// The side that ends the turns.
pub(super) struct Sender(Rc<RefCell<Connection>>);

struct Connection {
    stream: Stream,
    /// Bytes that were read before.
    first: Vec<u8>,
    first_given: usize,
    /// Written and not sent; the buffer of the thread during a turn, one of its own size after one
    /// in which the socket did not take all.
    out: Vec<u8>,
    sent: usize,
    gather_bytes: usize,
    failed: Option<io::ErrorKind>,
}

/// A stream of which `first` was read already, and the side that sends what is written to it.
pub(super) fn gather(stream: Stream, first: Vec<u8>) -> (Gathered, Sender) {
    let connection = Rc::new(RefCell::new(Connection {
        stream,
        first,
        first_given: 0,
        out: Vec::new(),
        sent: 0,
        gather_bytes: GATHER_BYTES_MAX,
        failed: None,
    }));
    (Gathered(Rc::clone(&connection)), Sender(connection))
}

impl Sender {
    /// Whether the connection should end soon; see [`Stream::is_worn`].
    pub(super) fn is_worn(&self) -> bool {
        self.0.borrow().stream.is_worn()
    }

    /// Runs `work`, which polls the other side, and sends after each of its polls what it wrote.
    pub(super) async fn after<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let polled = work.as_mut().poll(cx);
            let connection = &mut *self.0.borrow_mut();
            if let Poll::Ready(Err(_)) = connection.poll_send(cx) {
                // The next read or write says so.
                cx.waker().wake_by_ref();
            }
            connection.end_turn();
            polled
        })
        .await
    }
}

impl Connection {
    /// Sends everything that was written.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(kind) = self.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let Poll::Ready(result) = self.poll_send_out(cx) else {
            self.gather_bytes = GATHER_BYTES_MIN;
            return Poll::Pending;
        };
        self.gather_bytes = (2 * self.gather_bytes).min(GATHER_BYTES_MAX);
        if let Err(error) = &result {
            self.failed = Some(error.kind());
            self.out = Vec::new();
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(result)
    }

    fn poll_send_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            match ready!(self.stream.poll_write(cx, &self.out[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.stream.poll_flush(cx)
    }

    /// Gives the thread its buffer back, and keeps a copy of what is left in it.
    fn end_turn(&mut self) {
        if self.out.capacity() >= GATHER_BYTES_MAX {
            let left = self.out[self.sent..].to_vec();
            self.out.clear();
            SPARE.set(mem::replace(&mut self.out, left));
            self.sent = 0;
        }
    }

    fn poll_put(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let is_left_over = !self.out.is_empty() && self.out.capacity() < GATHER_BYTES_MAX;
        if is_left_over || self.sent > 0 || self.out.len() >= self.gather_bytes {
            ready!(self.poll_send(cx))?;
        }
        if let Some(kind) = self.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if self.out.capacity() < GATHER_BYTES_MAX {
            let mut buffer = SPARE.take();
            buffer.reserve(GATHER_BYTES_MAX);
            self.out = buffer;
        }
        let before = self.out.len();
        for slice in slices {
            let room = self.gather_bytes - self.out.len();
            self.out.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Poll::Ready(Ok(self.out.len() - before))
    }
}

impl AsyncRead for Gathered {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self.0.borrow_mut();
        if this.first_given == this.first.len() {
            return AsyncRead::poll_read(Pin::new(&mut this.stream), cx, out);
        }
        let rest = &this.first[this.first_given..];
        let count = rest.len().min(out.remaining());
        out.put_slice(&rest[..count]);
        this.first_given += count;
        if this.first_given == this.first.len() {
            this.first = Vec::new();
            this.first_given = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gathered {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_put(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_put(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the end of the turn flushes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self.0.borrow_mut();
        ready!(this.poll_send(cx))?;
        this.stream.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_net::socket::Socket;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    fn pair(first: &[u8]) -> (Gathered, Sender, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("descriptors are free");
        let (gathered, sender) = gather(Stream::from(Socket::from(ours)), first.to_vec());
        (gathered, sender, theirs)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(test);
    }

    #[test]
    fn what_was_read_before_comes_first() {
        run(async {
            let (mut gathered, _sender, mut peer) = pair(b"before");
            peer.write_all(b" and after").await.expect("the peer is there");
            let mut read = [0; 16];
            gathered.read_exact(&mut read).await.expect("both parts are there");
            assert_eq!(&read, b"before and after");
        });
    }

    #[test]
    fn what_one_poll_writes_leaves_after_it() {
        run(async {
            let (mut gathered, sender, peer) = pair(b"");
            sender
                .after(async {
                    for part in [&b"a frame"[..], b", another", b" and a third"] {
                        gathered.write_all(part).await.expect("there is room");
                        gathered.flush().await.expect("flushing is for later");
                    }
                    let early = peer.try_read(&mut [0; 64]).map_err(|error| error.kind());
                    assert_eq!(early, Err(io::ErrorKind::WouldBlock));
                })
                .await;
            let mut read = [0; 64];
            peer.readable().await.expect("the peer is there");
            let count = peer.try_read(&mut read).expect("all was sent");
            assert_eq!(&read[..count], b"a frame, another and a third");
        });
    }

    #[test]
    fn what_a_full_socket_leaves_is_kept_small_and_in_order() {
        run(async {
            let (mut gathered, sender, mut peer) = pair(b"");
            let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
            let writing = async {
                sender
                    .after(async {
                        for part in sent.chunks(16_393) {
                            gathered.write_all(part).await.expect("the peer reads");
                        }
                        gathered.shutdown().await.expect("the peer reads");
                    })
                    .await;
            };
            let reading = async {
                let mut read = Vec::new();
                while peer.read_buf(&mut read).await.expect("the peer is there") > 0 {
                    // Between turns the connection holds no more than is unsent.
                    let held = sender.0.borrow().out.capacity();
                    assert!(held <= GATHER_BYTES_MAX, "{held}");
                }
                read
            };
            let ((), read) = tokio::join!(writing, reading);
            assert!(read == sent);
        });
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_of_the_next_write() {
        run(async {
            let (mut gathered, sender, peer) = pair(b"");
            drop(peer);
            sender.after(async { gathered.write_all(b"lost").await }).await.expect("not sent yet");
            let next =
                sender.after(poll_fn(|cx| Pin::new(&mut gathered).poll_write(cx, b"x"))).await;
            assert_eq!(next.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
        });
    }
}
