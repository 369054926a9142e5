//! The body of an HTTP/1 request, read from its connection when somebody wants it.

use super::h1_io::SharedIo;
use super::patience::{Patience, Terms};
use crate::body::{Arriving, ClientBodyError};
use bytes::Bytes;
use freshet_wire::h1::chunked::Decoder;
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes handed on at a time.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Reads a body and leaves the connection at its end.
pub(super) struct H1Body {
    io: SharedIo,
    left: Left,
    length: Option<u64>,
    bytes: u64,
    bytes_max: u64,
    /// Bytes of `100 Continue` still to be sent before the client sends its body.
    expects: bool,
    progress: Rc<Progress>,
    patience: Patience,
}

/// How far a body has come, shared with its session.
pub(super) struct Progress {
    pub(super) state: Cell<BodyState>,
    /// Bytes of content so far.
    pub(super) bytes: Cell<u64>,
}

/// What a session needs to know of a body once the response is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyState {
    /// The client waits for `100 Continue` and has sent nothing.
    Expected,
    /// Some may still come.
    Open,
    /// Nobody reads it any more and this many bytes of it are left on the connection.
    Left(u64),
    /// Read to its end.
    Done,
    /// The connection cannot be used further.
    Broken,
}

enum Left {
    Length(u64),
    Chunked(Box<Decoder>),
}

impl H1Body {
    /// A body of known length, or chunked where `length` is `None`, to be sent within `terms`.
    pub(super) fn new(
        io: SharedIo,
        length: Option<u64>,
        bytes_max: u64,
        expects: bool,
        terms: Terms,
    ) -> (Self, Rc<Progress>) {
        let first = if expects { BodyState::Expected } else { BodyState::Open };
        let progress = Rc::new(Progress { state: Cell::new(first), bytes: Cell::new(0) });
        let left = length.map_or_else(|| Left::Chunked(Box::default()), Left::Length);
        let body = Self {
            io,
            left,
            length,
            bytes: 0,
            bytes_max,
            expects,
            progress: Rc::clone(&progress),
            patience: Patience::new(terms),
        };
        (body, progress)
    }

    /// Takes what can be taken of the bytes read; `None` when more are needed.
    fn take(&mut self) -> Result<Option<Bytes>, ClientBodyError> {
        let (bytes, consumed) = match &mut self.left {
            Left::Length(left) => self.io.with_input(|input| {
                let most = usize::try_from(*left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
                let piece = &input[..input.len().min(most)];
                *left -= piece.len() as u64;
                (Bytes::copy_from_slice(piece), piece.len())
            }),
            Left::Chunked(decoder) => self.io.with_input(|input| {
                let mut out = Vec::new();
                let mut consumed = 0;
                while consumed < input.len() && out.len() < PIECE_BYTES_MAX {
                    let rest = &input[consumed..];
                    let progress = decoder.decode(rest).map_err(|_| ClientBodyError::Malformed)?;
                    out.extend_from_slice(&rest[progress.data.clone()]);
                    consumed += progress.consumed;
                    if progress.done {
                        self.progress.state.set(BodyState::Done);
                        break;
                    }
                    if progress.consumed == 0 {
                        break;
                    }
                }
                Ok((Bytes::from(out), consumed))
            })?,
        };
        self.io.consume(consumed);
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    fn fail(&self, error: ClientBodyError) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        self.progress.state.set(BodyState::Broken);
        Poll::Ready(Some(Err(error)))
    }
}

impl Arriving for H1Body {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        loop {
            match self.progress.state.get() {
                BodyState::Done => return Poll::Ready(None),
                BodyState::Broken | BodyState::Left(_) => return self.fail(ClientBodyError::Gone),
                BodyState::Expected | BodyState::Open => {}
            }
            if matches!(self.left, Left::Length(0)) {
                self.progress.state.set(BodyState::Done);
                return Poll::Ready(None);
            }
            if !self.io.input_is_empty() {
                match self.take() {
                    Ok(Some(bytes)) => {
                        self.bytes += bytes.len() as u64;
                        self.progress.bytes.set(self.bytes);
                        self.patience.came(bytes.len());
                        if self.bytes > self.bytes_max {
                            return self.fail(ClientBodyError::TooLarge);
                        }
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    Ok(None) if self.progress.state.get() == BodyState::Done => {
                        return Poll::Ready(None);
                    }
                    Ok(None) => {}
                    Err(error) => return self.fail(error),
                }
            }
            if self.expects {
                ready!(self.io.poll_send_continue(cx));
                self.expects = false;
                self.progress.state.set(BodyState::Open);
            }
            match self.io.poll_fill(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false) | Err(_)) => return self.fail(ClientBodyError::Gone),
                Poll::Pending => {
                    ready!(self.patience.poll_over(cx));
                    return self.fail(ClientBodyError::Silent);
                }
            }
        }
    }
}

impl Drop for H1Body {
    /// What is left of a body of known length can be skipped; a chunked one dropped part-way leaves
    /// the connection at no known place.
    fn drop(&mut self) {
        if self.progress.state.get() == BodyState::Open {
            self.progress.state.set(match self.left {
                Left::Length(left) => BodyState::Left(left),
                Left::Chunked(_) => BodyState::Broken,
            });
        }
    }
}
