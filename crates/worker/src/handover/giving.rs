//! The old process' side of a hand-over.

use super::frame::{self, AS_BEFORE, BANS, GIVEN, Kind, MAGIC, PIECE_BYTES_MAX, VERSION};
use super::object;
use crate::disk::meta;
use crate::keepers::Purgeable;
use crate::worker::Shared;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Object, Purge};
use freshet_device::block::Buffer;
use freshet_device::{Completion, Finish, IoError};
use freshet_http::freshness::Lifetimes;
use freshet_store::Next;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long the new process may take nothing of what it is told before it is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// When what was moved is let go here, after this process began to drain: idle connections have
/// been closed by then and busy ones told to close, so few will ask for it again.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// How often bans are looked for that came meanwhile.
const BANS_EVERY: Duration = Duration::from_millis(50);
/// What is buffered before it is sent.
const BUFFER_BYTES: usize = 256 << 10;

/// A hand-over under way. Dropping it ends it.
pub struct Giving {
    told: Sender<Told>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread is told, by this process or the other.
enum Told {
    Accepted(u32),
    Want { id: u64, number: u64 },
    Purge { bytes: Vec<u8>, finish: Finish },
    Purged { number: u64, is_durable: bool },
    Drains,
    Drained,
    Ended(&'static str),
}

impl Giving {
    /// Begins to give to the process at the other end of `line`, on threads of its own.
    ///
    /// # Errors
    /// There are no threads or descriptors left.
    pub fn begin(line: UnixStream, shared: &Arc<Shared>) -> io::Result<Arc<Self>> {
        let (told, tells) = channel();
        line.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let listened = line.try_clone()?;
        let heard = told.clone();
        Builder::new().name("successor-in".into()).spawn(move || listen(listened, &heard))?;
        let shared = Arc::clone(shared);
        let thread = Builder::new().name("successor".into()).spawn(move || {
            let mut give = Give {
                out: BufWriter::with_capacity(BUFFER_BYTES, line),
                shared,
                given: HashMap::new(),
                moved: Vec::new(),
                purges: HashMap::new(),
                purge_last: 0,
                bans_told: 0,
                newest: 0,
                unfinished: HashSet::new(),
                drains_at: None,
                is_settled: false,
                bytes: 0,
            };
            let began = Instant::now();
            match give.run(&tells) {
                Ok(why) => tracing::info!(
                    bytes = give.bytes,
                    left = give.given.len(),
                    seconds = began.elapsed().as_secs_f64(),
                    "memory was handed over: {why}"
                ),
                Err(error) => tracing::warn!(%error, "memory was not handed over"),
            }
            let _ = give.out.get_ref().shutdown(std::net::Shutdown::Both);
        })?;
        Ok(Arc::new(Self { told, thread: Mutex::new(Some(thread)) }))
    }

    /// Tells the other process of a purge; the completion ends when it holds there. `None` where
    /// there is nobody to tell any more.
    pub fn purge(&self, what: &Purgeable<'_>, how: Purge) -> Option<Completion> {
        let (kind, number, text) = match what {
            Purgeable::Key(key) => (0, 0, key.text()),
            Purgeable::Tag(tag) => (1, *tag, &[][..]),
            Purgeable::All => (2, 0, &[][..]),
        };
        let span = |span: Option<_>| span.map_or(AS_BEFORE, meta::millis);
        let numbers = match how {
            Purge::Hard => vec![kind, number, u64::MAX],
            Purge::Soft(at) => vec![kind, number, at.0.min(u64::MAX - 1)],
            // Only of keys.
            Purge::Given(Lifetimes { from, ttl, grace, keep }) => {
                vec![GIVEN, meta::millis(ttl), from.0, span(grace), span(keep)]
            }
        };
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(text);
        self.tell(bytes)
    }

    /// Has the bans that there are taken over; the completion ends when they hold in the other
    /// process. `None` where there is nobody to tell any more.
    pub fn bans(&self) -> Option<Completion> {
        self.tell([BANS, 0, 0].iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    fn tell(&self, bytes: Vec<u8>) -> Option<Completion> {
        let (completion, finish) = Completion::new();
        self.told.send(Told::Purge { bytes, finish }).ok().map(|()| completion)
    }

    /// This process answers only what is open.
    pub fn drains(&self) {
        let _ = self.told.send(Told::Drains);
    }

    /// Nothing is open here any more. Waits until the other process has all it wants.
    pub fn finish(&self) {
        let _ = self.told.send(Told::Drained);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Ends it, however far it is.
    pub fn end(&self) {
        let _ = self.told.send(Told::Ended("this process was told to end"));
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        self.end();
    }
}

/// Passes on what the other process says, until it says no more.
fn listen(line: UnixStream, told: &Sender<Told>) {
    let mut from = BufReader::new(line);
    let mut next = || -> io::Result<Told> {
        let (kind, bytes) = frame::read(&mut from)?;
        Ok(match kind {
            Kind::Accept => Told::Accepted(frame::numbers::<1>(&bytes)?.0[0] as u32),
            Kind::Want => {
                let ([id, number], _) = frame::numbers(&bytes)?;
                Told::Want { id, number }
            }
            Kind::Purged => {
                let ([number, is_durable], _) = frame::numbers(&bytes)?;
                Told::Purged { number, is_durable: is_durable == 1 }
            }
            Kind::Finished => Told::Ended("the new process has all"),
            _ => return Err(frame::malformed()),
        })
    };
    while let Ok(said) = next() {
        if told.send(said).is_err() {
            return;
        }
    }
    let _ = told.send(Told::Ended("the new process hung up"));
}

struct Give {
    out: BufWriter<UnixStream>,
    shared: Arc<Shared>,
    /// Described, and not moved yet.
    given: HashMap<u64, Arc<Object>>,
    /// Moved, and not let go yet.
    moved: Vec<Arc<Object>>,
    purges: HashMap<u64, Finish>,
    purge_last: u64,
    /// The number of the last ban that was told.
    bans_told: u64,
    /// The highest number of an object that was described.
    newest: u64,
    /// Objects that were still being filled then: they are looked at once more.
    unfinished: HashSet<u64>,
    drains_at: Option<Instant>,
    is_settled: bool,
    bytes: u64,
}

impl Give {
    fn run(&mut self, tells: &Receiver<Told>) -> io::Result<&'static str> {
        frame::write(&mut self.out, Kind::Hello, &[&MAGIC, &u64::from(VERSION).to_le_bytes()])?;
        self.out.flush()?;
        let mut early = Vec::new();
        loop {
            match tells.recv() {
                Ok(Told::Accepted(VERSION)) => break,
                Ok(purge @ Told::Purge { .. }) => early.push(purge),
                Ok(Told::Ended(why)) => return Err(io::Error::other(why)),
                // It serves without having asked: it does not know how to.
                Ok(_) => return Err(io::Error::other("the new process does not take memory over")),
                Err(_) => return Err(io::Error::other("nobody wants it any more")),
            }
        }
        self.bans()?;
        self.list()?;
        frame::write(&mut self.out, Kind::Listed, &[&(self.given.len() as u64).to_le_bytes()])?;
        self.out.flush()?;
        for told in early {
            self.act(told)?;
        }
        loop {
            let told = match tells.recv_timeout(self.patience()) {
                Ok(Told::Ended(why)) => return Ok(why),
                Ok(told) => Some(told),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok("nobody wants it any more"),
            };
            if let Some(told) = told {
                self.act(told)?;
            }
            self.bans()?;
            if !self.is_settled && self.patience().is_zero() {
                self.settle()?;
            }
            self.out.flush()?;
        }
    }

    /// How long to wait for what is to be done next.
    fn patience(&self) -> Duration {
        let wait = match self.drains_at {
            Some(at) if !self.is_settled => at.saturating_duration_since(Instant::now()),
            _ => Duration::from_secs(3600),
        };
        wait.min(BANS_EVERY)
    }

    fn act(&mut self, told: Told) -> io::Result<()> {
        match told {
            Told::Want { id, number } => self.give(id, number)?,
            Told::Purge { bytes, finish } => {
                self.bans()?;
                self.purge_last += 1;
                let number = self.purge_last.to_le_bytes();
                frame::write(&mut self.out, Kind::Purge, &[&number, &bytes])?;
                self.purges.insert(self.purge_last, finish);
            }
            Told::Purged { number, is_durable } => {
                if let Some(finish) = self.purges.remove(&number) {
                    let result = if is_durable { Ok(()) } else { Err(IoError::Closed) };
                    finish.finish(result, Buffer::None);
                }
            }
            Told::Drains => {
                self.drains_at.get_or_insert_with(|| Instant::now() + SETTLED_AFTER);
            }
            Told::Drained => self.drains_at = Some(Instant::now()),
            Told::Accepted(_) | Told::Ended(_) => {}
        }
        Ok(())
    }

    /// Tells of bans that came since the last time.
    fn bans(&mut self) -> io::Result<()> {
        for ban in self.shared.bans.after(self.bans_told) {
            let numbers = [ban.seq, ban.time.0, u64::from(ban.is_done), ban.number];
            let head: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            frame::write(&mut self.out, Kind::Ban, &[&head, ban.text.as_bytes()])?;
            self.bans_told = ban.seq;
        }
        Ok(())
    }

    /// Describes all objects that came since the last time.
    fn list(&mut self) -> io::Result<()> {
        let (after, unfinished) = (self.newest, std::mem::take(&mut self.unfinished));
        for object in self.shared.cache.objects_by_worth() {
            if object.id() <= after && !unfinished.contains(&object.id()) {
                continue;
            }
            self.newest = self.newest.max(object.id());
            if !object.body().is_complete() {
                self.unfinished.insert(object.id());
                continue;
            }
            let is_doubted = object.born_seq() < self.shared.cache.fenced_below(UnixMillis::now());
            if let Some(bytes) = object::describe(&object, is_doubted) {
                frame::write(&mut self.out, Kind::Object, &[&bytes])?;
                self.given.insert(object.id(), object);
            }
        }
        Ok(())
    }

    /// From now on what has moved is let go.
    fn settle(&mut self) -> io::Result<()> {
        self.is_settled = true;
        self.bans()?;
        self.list()?;
        frame::write(&mut self.out, Kind::Settled, &[])?;
        self.shared.cache.return_pages();
        for object in std::mem::take(&mut self.moved) {
            self.shared.cache.forget(&object);
        }
        Ok(())
    }

    /// Sends the bytes of an object.
    fn give(&mut self, id: u64, number: u64) -> io::Result<()> {
        let number = number.to_le_bytes();
        let object = self.given.remove(&id);
        let mut is_whole = false;
        if let Some(object) = object {
            let mut reader = object.body().reader(..);
            let mut cx = Context::from_waker(Waker::noop());
            loop {
                match reader.poll_next(&mut cx, PIECE_BYTES_MAX as usize) {
                    Poll::Ready(Next::Data(lease)) => {
                        frame::write(&mut self.out, Kind::Piece, &[&number, &lease])?;
                        self.bytes += lease.len() as u64;
                    }
                    Poll::Ready(Next::End) => break is_whole = true,
                    // Evicted since, or purged.
                    Poll::Ready(Next::Hole(_) | Next::Failed(_)) | Poll::Pending => break,
                }
            }
            drop(reader);
            if self.is_settled {
                self.shared.cache.forget(&object);
            } else {
                self.moved.push(object);
            }
        }
        frame::write(&mut self.out, Kind::End, &[&number, &u64::from(is_whole).to_le_bytes()])
    }
}
