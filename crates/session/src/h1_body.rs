//! The body of an HTTP/1 request, read from its connection when somebody wants it.

use super::h1_io::SharedIo;
use super::patience::{Patience, Terms};
use bytes::Bytes;
use freshet_site::client_body::{Arriving, ClientBodyError};
use freshet_wire::h1::chunked::Decoder;
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes handed on at a time.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// An unread body up to this size is read away to keep the connection; a larger one is cheaper to
/// drop with it.
const SKIP_BYTES_MAX: u64 = 64 << 10;

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
    /// What nobody reads any more.
    unread: Cell<Option<Left>>,
    /// Bytes of the connection that were skipped for it.
    skipped: Cell<u64>,
}

/// What a session needs to know of a body once the response is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyState {
    /// The client waits for `100 Continue` and has sent nothing.
    Expected,
    /// Some may still come.
    Open,
    /// Nobody reads it any more, and the rest of it is on the connection, or will be.
    Unread,
    /// Read to its end.
    Done,
    /// The connection cannot be used further.
    Broken,
}

enum Left {
    Length(u64),
    Chunked(Box<Decoder>),
}

impl Left {
    /// Goes on over `input` and hands out its content: how much was consumed of it, and whether the
    /// body ends there.
    fn read(
        &mut self,
        input: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<(usize, bool), ClientBodyError> {
        let most = input.len().min(PIECE_BYTES_MAX);
        match self {
            Self::Length(left) => {
                let piece = &input[..most.min(usize::try_from(*left).unwrap_or(usize::MAX))];
                content(piece);
                *left -= piece.len() as u64;
                Ok((piece.len(), *left == 0))
            }
            Self::Chunked(decoder) => {
                let mut consumed = 0;
                while consumed < most {
                    let rest = &input[consumed..most];
                    let progress = decoder.decode(rest).map_err(|_| ClientBodyError::Malformed)?;
                    content(&rest[progress.data.clone()]);
                    consumed += progress.consumed;
                    if progress.done {
                        return Ok((consumed, true));
                    }
                    if progress.consumed == 0 {
                        break;
                    }
                }
                Ok((consumed, false))
            }
        }
    }
}

impl Progress {
    /// Reads away what came of a body that nobody reads any more, and says how it stands then. It is
    /// broken where it is no body, or more than is worth it.
    pub(super) fn skip(&self, io: &SharedIo) -> BodyState {
        let Some(mut left) = self.unread.take() else { return self.state.get() };
        let mut skipped = self.skipped.get();
        let mut bytes = self.bytes.get();
        let state = loop {
            let piece =
                io.with_input(|input| left.read(input, |content| bytes += content.len() as u64));
            let Ok((consumed, is_end)) = piece else { break BodyState::Broken };
            io.consume(consumed);
            skipped += consumed as u64;
            if is_end {
                break BodyState::Done;
            }
            let known = if let Left::Length(rest) = left { rest } else { 0 };
            if skipped + known > SKIP_BYTES_MAX {
                break BodyState::Broken;
            }
            if consumed == 0 {
                break BodyState::Unread;
            }
        };
        self.bytes.set(bytes);
        self.skipped.set(skipped);
        self.state.set(state);
        if state == BodyState::Unread {
            self.unread.set(Some(left));
        }
        state
    }
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
        let progress = Rc::new(Progress {
            state: Cell::new(first),
            bytes: Cell::new(0),
            unread: Cell::new(None),
            skipped: Cell::new(0),
        });
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
        let mut bytes = Vec::new();
        let piece = self
            .io
            .with_input(|input| self.left.read(input, |content| bytes.extend_from_slice(content)));
        let (consumed, is_end) = piece?;
        self.io.consume(consumed);
        if is_end {
            self.progress.state.set(BodyState::Done);
        }
        Ok(Some(Bytes::from(bytes)).filter(|bytes| !bytes.is_empty()))
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

    fn is_coming(&self) -> bool {
        !self.expects
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        loop {
            match self.progress.state.get() {
                BodyState::Done => return Poll::Ready(None),
                BodyState::Broken | BodyState::Unread => return self.fail(ClientBodyError::Gone),
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
    /// What is left is skipped by the session, once nobody else reads it.
    fn drop(&mut self) {
        if self.progress.state.get() == BodyState::Open {
            let none = Left::Length(0);
            self.progress.unread.set(Some(std::mem::replace(&mut self.left, none)));
            self.progress.state.set(BodyState::Unread);
        }
    }
}
