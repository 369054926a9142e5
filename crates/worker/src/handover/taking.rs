//! The new process' side of a hand-over.

use super::frame::{self, AS_BEFORE, BANS, GIVEN, Kind, MAGIC, VERSION};
use super::object::{self, Described};
use crate::bans::Handed;
use crate::keepers::objective_of;
use crate::worker::Shared;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Groups, Key, KeyBuilder, Object, ObjectSpec, Purge};
use freshet_http::freshness::Lifetimes;
use freshet_site::durability::Durability;
use freshet_site::sites::Sites;
use freshet_store::{Body, BodyWriter};
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, spawn};
use std::time::{Duration, Instant};

/// How long the old process may say nothing while it describes what it has.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies that are asked for ahead: enough to keep the line busy, little enough that one that
/// somebody waits for is not far behind.
const AHEAD_BYTES: u64 = 4 << 20;
const AHEAD_BODIES: usize = 256;
/// What is read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What is coming from the old process, and how to ask for it.
pub struct Taking {
    is_active: AtomicBool,
    /// By the numbers of objects here.
    coming: Mutex<HashMap<u64, Coming>>,
    /// Until the end.
    out: Mutex<Option<UnixStream>>,
}

/// An object whose body is still in the old process.
struct Coming {
    /// What it is called there.
    id: u64,
    object: Arc<Object>,
    writer: BodyWriter,
    is_wanted: bool,
}

/// Puts what comes where it belongs.
pub(super) struct Receiver {
    taking: Arc<Taking>,
    sites: Arc<Sites>,
    from: BufReader<UnixStream>,
    /// Numbers here of what is not asked for yet, best last.
    order: Vec<u64>,
    current: Option<(u64, Coming)>,
    born_seq: u64,
    /// The bans of the old process: their numbers there and here, oldest first.
    bans: Vec<(u64, u64)>,
    /// What of them is on its way to the disks.
    bans_durability: Durability,
    /// What the old process speaks.
    version: u64,
    ahead_bytes: u64,
    ahead: HashMap<u64, u64>,
    is_settled: bool,
    objects: u64,
    bytes: u64,
    lost: u64,
    began: Instant,
}

impl Taking {
    /// Takes over the index: all objects are there afterwards, and their bodies are on their way.
    ///
    /// # Errors
    /// The old process says what this one does not understand, or ends.
    pub(super) fn begin(
        line: UnixStream,
        shared: &Arc<Shared>,
        sites: &Arc<Sites>,
    ) -> io::Result<(Arc<Self>, Receiver)> {
        line.set_read_timeout(Some(LIST_TIMEOUT))?;
        let mut from = BufReader::with_capacity(BUFFER_BYTES, line.try_clone()?);
        let (kind, hello) = frame::read(&mut from)?;
        let (magic, version) = hello.split_at_checked(MAGIC.len()).ok_or_else(frame::malformed)?;
        let ([version], _) = frame::numbers(version)?;
        if kind != Kind::Hello || *magic != MAGIC || !(1..=u64::from(VERSION)).contains(&version) {
            return Err(io::Error::other(format!(
                "the process before hands over in format {version}, and this one reads 1 to {VERSION}"
            )));
        }
        let taking = Arc::new(Self {
            is_active: AtomicBool::new(true),
            coming: Mutex::default(),
            out: Mutex::new(Some(line)),
        });
        taking.say(Kind::Accept, &[version])?;
        let mut receiver = Receiver {
            taking: Arc::clone(&taking),
            sites: Arc::clone(sites),
            from,
            order: Vec::new(),
            current: None,
            born_seq: shared.cache.purge_seq(),
            bans: Vec::new(),
            bans_durability: Durability::default(),
            version,
            ahead_bytes: 0,
            ahead: HashMap::new(),
            is_settled: false,
            objects: 0,
            bytes: 0,
            lost: 0,
            began: Instant::now(),
        };
        while receiver.step(shared)? != Kind::Listed {}
        receiver.from.get_ref().set_read_timeout(None)?;
        tracing::info!(
            objects = receiver.objects,
            ms = receiver.began.elapsed().as_secs_f64() * 1000.0,
            "the index was taken over; bodies follow"
        );
        Ok((taking, receiver))
    }

    /// Has the body of an object brought now, where it is still in the old process.
    pub fn want(&self, object: &Object) {
        if !self.is_active.load(Relaxed) {
            return;
        }
        let id = match self.coming().get_mut(&object.id()) {
            Some(coming) if !coming.is_wanted => {
                coming.is_wanted = true;
                coming.id
            }
            _ => return,
        };
        // Where that fails, the receiver learns of it and ends all that is coming.
        let _ = self.say(Kind::Want, &[id, object.id()]);
    }

    fn say(&self, kind: Kind, numbers: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut whole = Vec::with_capacity(bytes.len() + 5);
        frame::write(&mut whole, kind, &[&bytes])?;
        match &mut *self.out() {
            Some(out) => io::Write::write_all(out, &whole),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn out(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn coming(&self) -> MutexGuard<'_, HashMap<u64, Coming>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receiver {
    /// Receives on a thread of its own until all is here or the other process is gone.
    pub(super) fn spawn(mut self, shared: Arc<Shared>) {
        let run = move || {
            let result = self.run(&shared);
            self.taking.is_active.store(false, Relaxed);
            *self.taking.out() = None;
            let left = std::mem::take(&mut *self.taking.coming());
            self.lost += left.len() as u64 + u64::from(self.current.is_some());
            let current = self.current.take().map(|(_, coming)| coming);
            left.into_values().chain(current).for_each(|coming| coming.give_up(&shared.cache));
            let seconds = self.began.elapsed().as_secs_f64();
            let Self { objects, bytes, lost, .. } = self;
            match result {
                Ok(()) => tracing::info!(objects, bytes, lost, seconds, "memory was taken over"),
                Err(error) => tracing::warn!(
                    %error, objects, bytes, lost, seconds, "memory was taken over in part only"
                ),
            }
        };
        if let Err(error) = Builder::new().name("predecessor".into()).spawn(run) {
            tracing::warn!(%error, "memory is not taken over");
        }
    }

    fn run(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        loop {
            if self.is_settled {
                self.ask_ahead()?;
                if self.order.is_empty()
                    && self.current.is_none()
                    && self.taking.coming().is_empty()
                {
                    return self.taking.say(Kind::Finished, &[]);
                }
            }
            self.step(shared)?;
        }
    }

    /// Asks for the best of what nobody has asked for.
    fn ask_ahead(&mut self) -> io::Result<()> {
        while self.ahead_bytes < AHEAD_BYTES && self.ahead.len() < AHEAD_BODIES {
            let Some(number) = self.order.pop() else { return Ok(()) };
            let (id, bytes) = match self.taking.coming().get_mut(&number) {
                Some(coming) if !coming.is_wanted => {
                    coming.is_wanted = true;
                    (coming.id, coming.object.body().total().unwrap_or(0))
                }
                _ => continue,
            };
            self.ahead.insert(number, bytes);
            self.ahead_bytes += bytes;
            self.taking.say(Kind::Want, &[id, number])?;
        }
        Ok(())
    }

    /// Carries out the next frame, and says what it was.
    fn step(&mut self, shared: &Arc<Shared>) -> io::Result<Kind> {
        let (kind, len) = frame::read_head(&mut self.from)?;
        if kind == Kind::Piece {
            self.piece(len)?;
            return Ok(kind);
        }
        let mut bytes = vec![0; len];
        self.from.read_exact(&mut bytes)?;
        match kind {
            Kind::Object => self.object(shared, object::read(&bytes)?),
            Kind::Listed => {}
            Kind::Settled => self.is_settled = true,
            Kind::End => {
                let ([number, is_whole], _) = frame::numbers(&bytes)?;
                self.end(shared, number, is_whole == 1);
            }
            Kind::Purge => self.purge(shared, &bytes)?,
            Kind::Ban => self.ban(shared, &bytes)?,
            _ => return Err(frame::malformed()),
        }
        Ok(kind)
    }

    /// Puts an object into the index, with a body that is being filled.
    fn object(&mut self, shared: &Arc<Shared>, described: Described) {
        let Described { id, total, key, head, variation, tags, mut past, bans_seen, standing } =
            described;
        past.born_seq = self.born_seq;
        let key = key_of(&shared.cache, &key);
        let body = Body::new(shared.cache.arena_of(&key), Some(total));
        body.set_standing(standing);
        let mut writer = body.writer(0, None);
        // A body in transit would be no object any more.
        writer.set_allow_transit(false);
        writer.set_exempt();
        let objective = self.sites.of_key(&key).and_then(|site| objective_of(&site.settings, &key));
        let spec = ObjectSpec { head, body, variation, tags, objective };
        let Some(object) = shared.cache.restore(key, spec, past) else {
            self.lost += 1;
            return;
        };
        let seen = self.bans.partition_point(|(there, _)| *there <= bans_seen);
        if let Some((_, here)) = seen.checked_sub(1).and_then(|at| self.bans.get(at)) {
            object.note_bans_seen(*here);
        }
        self.objects += 1;
        self.order.push(object.id());
        let number = object.id();
        let coming = Coming { id, object, writer, is_wanted: false };
        self.taking.coming().insert(number, coming);
    }

    /// Reads a piece of a body straight to where it belongs.
    fn piece(&mut self, len: usize) -> io::Result<()> {
        let mut number = [0; 8];
        let mut left = len.checked_sub(number.len()).ok_or_else(frame::malformed)?;
        self.from.read_exact(&mut number)?;
        let number = u64::from_le_bytes(number);
        if self.current.as_ref().is_none_or(|(current, _)| *current != number) {
            let coming = self.taking.coming().remove(&number);
            self.current = coming.map(|coming| (number, coming));
        }
        let mut cx = Context::from_waker(Waker::noop());
        while left > 0 {
            let writer = self.current.as_mut().map(|(_, coming)| &mut coming.writer);
            let taken = match writer.map(|writer| writer.poll_reserve(&mut cx, left)) {
                Some(Poll::Ready(Ok(room))) => {
                    let taken = room.len().min(left);
                    self.from.read_exact(&mut room[..taken])?;
                    taken
                }
                // Purged, or there is no room: what comes of it is passed over, and so is its end.
                _ => {
                    let wanted = left as u64;
                    io::copy(&mut (&mut self.from).take(wanted), &mut io::sink())?;
                    return Ok(());
                }
            };
            if let Some((_, coming)) = &mut self.current {
                coming.writer.commit(taken);
            }
            self.bytes += taken as u64;
            left -= taken;
        }
        Ok(())
    }

    fn end(&mut self, shared: &Shared, number: u64, is_whole: bool) {
        self.ahead_bytes -= self.ahead.remove(&number).unwrap_or(0);
        let current = self.current.take_if(|(current, _)| *current == number);
        let coming = match current {
            Some((_, coming)) => Some(coming),
            // One without bytes.
            None => self.taking.coming().remove(&number),
        };
        let Some(coming) = coming else { return };
        if !is_whole {
            self.lost += 1;
            return coming.give_up(&shared.cache);
        }
        let Coming { object, writer, .. } = coming;
        if writer.finish().is_err() {
            self.lost += 1;
            shared.cache.forget(&object);
        }
    }

    /// Takes a ban over.
    fn ban(&mut self, shared: &Shared, bytes: &[u8]) -> io::Result<()> {
        let ([seq, time, is_done], mut text) = frame::numbers(bytes)?;
        // Before it was told, the end of its millisecond: what came with it is fetched again.
        let mut number = (time + 1) * 1000;
        if self.version > 1 {
            ([number], text) = frame::numbers(text)?;
        }
        let text = String::from_utf8(text.to_vec()).map_err(|_| frame::malformed())?;
        let handed = Handed { seq, number, time: UnixMillis(time), is_done: is_done == 1, text };
        let (here, durability) =
            shared.bans.restore(&shared.cache, &handed).map_err(io::Error::other)?;
        self.bans.push((seq, here));
        self.bans_durability.add(durability);
        Ok(())
    }

    /// Carries out what was purged in the other process.
    fn purge(&mut self, shared: &Arc<Shared>, bytes: &[u8]) -> io::Result<()> {
        let ([number, kind, tag, soft_ms], text) = frame::numbers(bytes)?;
        let how = match soft_ms {
            u64::MAX => Purge::Hard,
            at => Purge::Soft(UnixMillis(at)),
        };
        let durability = match kind {
            GIVEN => {
                let ([grace, keep], text) = frame::numbers(text)?;
                let span = |ms| (ms != AS_BEFORE).then_some(Duration::from_millis(ms));
                let lifetimes = Lifetimes {
                    from: UnixMillis(soft_ms),
                    ttl: Duration::from_millis(tag),
                    grace: span(grace),
                    keep: span(keep),
                };
                shared.purge(&key_of(&shared.cache, text), Purge::Given(lifetimes)).durability
            }
            0 => shared.purge(&key_of(&shared.cache, text), how).durability,
            1 => shared.purge_tag(tag, how).durability,
            2 => shared.purge_all(how).durability,
            BANS => std::mem::take(&mut self.bans_durability),
            _ => return Err(frame::malformed()),
        };
        let taking = Arc::clone(&self.taking);
        spawn(move || {
            let is_durable = durability.wait();
            let _ = taking.say(Kind::Purged, &[number, is_durable.into()]);
        });
        Ok(())
    }
}

impl Coming {
    /// It does not come: nobody finds it any more, and who has begun with it goes on at its origin, where that can be.
    fn give_up(self, cache: &Groups) {
        cache.forget(&self.object);
        self.writer.leave();
    }
}

/// The key of a text under the secret of this node's keys.
fn key_of(cache: &Groups, text: &[u8]) -> Key {
    let parts = text.split(|byte| *byte == 0);
    parts.fold(KeyBuilder::new(cache.secret()), KeyBuilder::part).build()
}
