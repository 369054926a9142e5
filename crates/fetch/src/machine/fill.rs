//! Moving an origin's bytes into memory.

use super::coded_body::Source;
use super::failure::Cause;
use super::plan::Allowance;
use freshet_cache::Failure;
use freshet_content::chain::{CodingError, Filter};
use freshet_origin::OriginError;
use freshet_origin::response_body::OriginBody;
use freshet_site::shares::loan_of;
use freshet_store::{Body, BodyError, BodyWriter, Next};
use freshet_worker::keepers::{Admitted, Passing};
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Room asked for at a time where the length is not known; the writer starts smaller by itself.
const READ_BYTES: usize = 1 << 20;

/// How often who keeps what is too long for memory is waited for while it gets what is held, and how long each
/// time: a second in all, as readers may wait for what comes next.
const PAUSES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// How much of a body is read to its end that was fetched for nobody and is not kept: more costs an origin more than
/// a new connection does.
const UNREAD_BYTES_MAX: u64 = 1 << 20;
/// How long that may take.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a fill ended early.
#[derive(Debug)]
pub(super) enum Broken {
    /// The origin's body broke off.
    Origin(OriginError),
    /// The origin's body is not under the coding its head says.
    Coding(CodingError),
    /// Nobody reads it any more, or there is no memory for it.
    Local(BodyError),
    /// The share of the memory it comes out of is full.
    Full,
    /// It is a part of something, and this filter was to make a page of it.
    Part(Filter),
}

/// Why a part is no page.
const PART_OF_PAGE: &str = "a part of a response (206) has no parts of a page";

impl Broken {
    /// The same as readers of the body are told.
    pub(super) fn into_body_error(self) -> BodyError {
        match self {
            Self::Origin(error) => BodyError::OriginFailed(error.to_string().into()),
            Self::Coding(error) => BodyError::OriginFailed(error.to_string().into()),
            Self::Local(error) => error,
            Self::Full => BodyError::NoMemory,
            Self::Part(_) => BodyError::OriginFailed(PART_OF_PAGE.into()),
        }
    }

    /// Whether the fetch failed, and was not given up for want of somebody who reads it.
    pub(super) fn is_failure(&self) -> bool {
        !matches!(self, Self::Local(BodyError::NoReaders))
    }

    /// The same where nobody has seen anything of the answer.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Origin(error) => Cause::Origin(error.kind()).failure(error),
            Self::Coding(error) => Cause::Coding.failure(error),
            Self::Local(error) => Cause::Local.failure(error),
            Self::Full => Cause::Local.failure("its share of the memory is full"),
            Self::Part(_) => Cause::Contradiction.failure(PART_OF_PAGE),
        }
    }
}

/// Takes what is about to be committed out of the share that lends to the body, where one does.
pub(super) fn borrow(writer: &BodyWriter, count: usize) -> Result<(), Broken> {
    let body = writer.body();
    let Some(loan) = loan_of(body) else { return Ok(()) };
    let held = body.held_bytes();
    let is_open = body.total().is_none() && !body.is_transit();
    if body.is_transit() {
        loan.settle(held);
    }
    if loan.cover(held, count as u64, is_open) { Ok(()) } else { Err(Broken::Full) }
}

/// Gives back what a body was lent beyond its length.
pub(super) fn give_back(body: &Body) {
    if let Some(loan) = loan_of(body) {
        loan.settle(body.held_bytes());
    }
}

/// Bytes on their way from an origin to a body.
pub(super) struct Flow {
    worker: Rc<Worker>,
    source: Source,
    writer: BodyWriter,
    /// Where it ends, where that is known.
    end: Option<u64>,
    /// A body that grows over this streams through and is not kept.
    bytes_max: u64,
    /// What it may come to as long as nobody reads it; what grows over that is given up.
    allowance: Option<Allowance>,
    /// Where it is written while it passes.
    tee: Option<Box<dyn Passing>>,
}

impl Flow {
    /// From `source` to `writer`, which begins where the source does and ends at `end`.
    pub(super) fn new(
        worker: &Rc<Worker>,
        source: Source,
        writer: BodyWriter,
        end: Option<u64>,
    ) -> Self {
        let worker = Rc::clone(worker);
        Self { worker, source, writer, end, bytes_max: u64::MAX, allowance: None, tee: None }
    }

    /// The same of a body that is kept if it stays below a length.
    #[must_use]
    pub(super) fn kept_to(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// The same of a body that is given up where it grows over this and nobody reads it.
    #[must_use]
    pub(super) fn within(self, allowance: Option<Allowance>) -> Self {
        Self { allowance, ..self }
    }

    /// The same with somebody who gets a copy of each byte, where they come as they are.
    #[must_use]
    pub(super) fn teed(self, tee: Option<Box<dyn Passing>>) -> Self {
        let tee = tee.filter(|_| matches!(self.source, Source::Plain(_)));
        Self { tee, ..self }
    }

    /// The body it goes to.
    pub(super) fn body(&self) -> &Arc<Body> {
        self.writer.body()
    }

    /// How far it has come.
    pub(super) fn position(&self) -> u64 {
        self.writer.position()
    }

    /// Tells what was done to it on the way.
    pub(super) fn note_ended(&mut self) {
        self.source.note_ended();
    }

    /// How many bytes have come from where it is from now.
    pub(super) fn received(&self) -> u64 {
        self.source.received()
    }

    /// What is missing, where that is known.
    pub(super) fn rest(&self) -> Option<std::ops::Range<u64>> {
        self.end.map(|end| self.position()..end)
    }

    /// Goes on from where it broke off, with bytes from elsewhere.
    pub(super) fn go_on_from(&mut self, source: OriginBody) {
        self.source = Source::Plain(source);
    }

    /// The same, but no longer than somebody reads it: an origin may say nothing for long.
    ///
    /// # Errors
    /// [`BodyError::NoReaders`] then, and as [`Flow::run`].
    pub(super) async fn run_while_read(&mut self) -> Result<(), Broken> {
        let body = Arc::clone(self.body());
        tokio::select! {
            biased;
            result = self.run() => return result,
            () = poll_fn(|cx| body.poll_deserted(cx)) => {}
        }
        // Who has read all of it is gone before the framing has come to its end.
        if Some(self.position()) == self.end {
            return self.run().await;
        }
        Err(Broken::Local(BodyError::NoReaders))
    }

    /// Moves all there is. Yields now and then so that one fast origin does not starve a worker.
    pub(super) async fn run(&mut self) -> Result<(), Broken> {
        self.run_kept(&mut Admitted::by_nobody()).await
    }

    /// The same of what others are to have too: they get what grows too long for memory while it passes.
    pub(super) async fn run_kept(&mut self, admitted: &mut Admitted) -> Result<(), Broken> {
        let mut begun = self.position();
        while !self.some(true).await? {
            if self.position() > self.bytes_max {
                self.pass_on(admitted).await;
            } else if self.is_over_allowance() {
                self.body().enter_transit();
            }
            if self.position() - begun >= READ_BYTES as u64 {
                begun = self.position();
                tokio::task::yield_now().await;
            }
        }
        self.take_trailers();
        Ok(())
    }

    /// Lets go of what has grown too long for memory. Who is to have it gets what memory holds of it, and from then on
    /// what comes. The origin waits for that, as what is held is to stay until it was given: not for long.
    async fn pass_on(&mut self, admitted: &mut Admitted) {
        let body = Arc::clone(self.body());
        let is_whole_yet = !body.is_transit() && !body.is_cleared();
        // As for what is too long from the beginning: bytes as they come.
        let is_plain = matches!(self.source, Source::Plain(_));
        let tee = if is_whole_yet && is_plain { admitted.passing() } else { None };
        let Some(mut tee) = tee else { return body.enter_transit() };
        let mut held = body.reader(..self.position());
        body.enter_transit();
        let mut pauses = 0;
        loop {
            match held.next(READ_BYTES).await {
                Next::Data(lease) => {
                    while tee.is_busy() && pauses < PAUSES_MAX {
                        pauses += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                    tee.push(&lease);
                }
                Next::End => break,
                Next::Hole(_) | Next::Failed(_) => return,
            }
            tokio::task::yield_now().await;
        }
        self.tee = Some(tee);
    }

    /// Whether it has grown over what it may come to, and nobody reads it.
    fn is_over_allowance(&mut self) -> bool {
        let held = self.body().held_bytes();
        if self.allowance.take_if(|allowance| !allowance.covers(held)).is_none()
            // Who reads it by now gets it whole.
            || self.body().readers() > 0
        {
            return false;
        }
        self.worker.stats.media_ahead_refused.increment();
        true
    }

    /// Moves what nobody is to see before it is all there: up to `bytes_max`, beyond which it has to
    /// stream after all. Whether it is all there.
    pub(super) async fn ahead(&mut self, bytes_max: u64) -> Result<bool, Broken> {
        // In transit it would wait for a reader that waits for it.
        self.writer.set_allow_transit(false);
        let result = loop {
            match self.some(false).await {
                Ok(false) if self.position() <= bytes_max => {}
                Err(Broken::Local(BodyError::NoMemory)) => break Ok(false),
                other => break other,
            }
        };
        self.writer.set_allow_transit(true);
        if let Ok(true) = result {
            self.take_trailers();
        }
        result
    }

    /// All has come: whether it is as much as was said. A length that is not met is the origin's
    /// error, which its body reported already.
    pub(super) fn finish(self) -> bool {
        // What came behind it is nowhere else.
        if let Some(tee) = self.tee.filter(|_| self.source.trailers().is_none()) {
            tee.finish();
        }
        if let Some(bytes) = self.source.content_bytes() {
            self.writer.body().set_content_bytes(bytes);
        }
        self.writer.finish().is_ok()
    }

    /// Tells those who read it that no more comes.
    pub(super) fn fail(self, error: BodyError) {
        self.writer.fail(error);
    }

    /// Nobody reads it any more, and nobody waits: what is left of it is thrown away where that is not much, so
    /// that its connection can be used again. How much came in all, where it came to its end.
    pub(super) async fn throw_away(self, error: BodyError) -> Option<u64> {
        self.writer.fail(error);
        self.source.into_origin()?.discard_within(UNREAD_BYTES_MAX, UNREAD_TIME_MAX).await
    }

    /// Moves some of it; whether that was all. `is_read`: somebody reads along, so what the origin
    /// has sent is not held back when the origin pauses.
    async fn some(&mut self, is_read: bool) -> Result<bool, Broken> {
        match &mut self.source {
            Source::Plain(from) => {
                let count = read(from, &mut self.writer, self.end, self.tee.as_mut()).await?;
                self.worker.stats.origin_body_bytes.add(count as u64);
                Ok(count == 0)
            }
            Source::Coded(coded) => coded.some(&mut self.writer, is_read).await,
        }
    }

    fn take_trailers(&self) {
        if let Some(trailers) = self.source.trailers() {
            self.body().set_trailers(trailers.clone());
        }
    }
}

/// Reads once, from the socket straight into the arena where the framing allows; 0 at the end.
async fn read(
    from: &mut OriginBody,
    writer: &mut BodyWriter,
    end: Option<u64>,
    tee: Option<&mut Box<dyn Passing>>,
) -> Result<usize, Broken> {
    if Some(writer.position()) == end {
        // The framing ends here as well, or the origin sent more than it said.
        return match from.read(&mut [0]).await {
            Ok(0) => Ok(0),
            Ok(_) => Err(Broken::Local(BodyError::OriginTooLong { expected: writer.position() })),
            Err(error) => Err(Broken::Origin(error)),
        };
    }
    let room = writer.reserve(READ_BYTES).await.map_err(Broken::Local)?;
    let count = from.read(room).await.map_err(Broken::Origin)?;
    if count == 0 {
        return Ok(0);
    }
    if let Some(tee) = tee {
        tee.push(room.get(..count).unwrap_or(&[]));
    }
    borrow(writer, count)?;
    writer.commit(count);
    Ok(count)
}
