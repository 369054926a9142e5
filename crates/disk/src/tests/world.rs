//! A store on a simulated drive, and what it may answer.
//!
//! Contents follow from a number, so that every byte that comes back can be judged. The oracle
//! keeps, for each resource, which contents were inserted and which purges were confirmed.

use crate::error::DiskError;
use crate::geometry::FormatOptions;
use crate::intake::{chunk_bytes_max, object_id, object_of};
use crate::notes::Note;
use crate::purges::{Mark, Soft, Target};
use crate::record::key_hash;
use crate::recovery::{self, Opened, Report};
use crate::superblock::Uuid;
use crate::{Common, Description, ReadError, Stored};
use freshet_base::splitmix::mixed;
use freshet_device::Device;
use freshet_device::simulation::{Faults, SimulatedDevice};
use freshet_store::Arena;
use freshet_store::Body;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Ends a future that needs nobody else; `None` where it hangs.
pub(crate) fn finish<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Bytes that follow from a number.
pub(crate) fn content(number: u64, len: u64) -> Vec<u8> {
    let words = len.div_ceil(8);
    let mut bytes: Vec<u8> =
        (0..words).flat_map(|at| mixed(number << 20 ^ at).to_le_bytes()).collect();
    bytes.truncate(len as usize);
    bytes
}

/// The hash of a resource's key.
pub(crate) fn key(number: u64) -> u128 {
    u128::from(mixed(number ^ 0xabcd)) << 64 | u128::from(mixed(number ^ 0x1234_5678))
}

/// A complete body in memory.
pub(crate) fn body(arena: &Arc<Arena>, bytes: &[u8]) -> Arc<Body> {
    let body = Body::new(arena, Some(bytes.len() as u64));
    let mut writer = body.writer(0, None);
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = finish(writer.reserve(rest.len())).expect("memory is free").expect("room");
        let now = room.len().min(rest.len());
        room[..now].copy_from_slice(&rest[..now]);
        writer.commit(now);
        rest = &rest[now..];
    }
    writer.finish().expect("all bytes were written");
    body
}

/// What the oracle knows of one insertion.
#[derive(Clone, Debug)]
pub(crate) struct Inserted {
    pub(crate) resource: u64,
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) born: u64,
    pub(crate) tag: u64,
}

/// The store of one simulated node.
pub(crate) struct World {
    pub(crate) arena: Arc<Arena>,
    pub(crate) device: Arc<SimulatedDevice>,
    pub(crate) common: Common,
    pub(crate) opened: Option<Opened>,
    pub(crate) inserted: Vec<Inserted>,
    /// Renewals that were begun: of which number, and when.
    pub(crate) renewed: Vec<(u64, u64)>,
    /// Purges that were confirmed as durable.
    pub(crate) purged: Vec<Mark>,
    /// Notes that were confirmed as durable.
    pub(crate) noted: Vec<Note>,
    next: u64,
    /// What is inserted is selected by this; 0 where it does not vary.
    pub(crate) variant: u64,
    /// Until when what is inserted says that it is of use.
    pub(crate) expires_ms: u64,
}

/// Time does not pass in the simulation: numbers only rise.
fn no_time() -> u64 {
    1
}

pub(crate) fn common() -> Common {
    Common::new(no_time)
}

impl World {
    /// A formatted drive of `bytes`, opened.
    pub(crate) fn new(bytes: u64, seed: u64, options: FormatOptions) -> Self {
        let device = Arc::new(SimulatedDevice::new(bytes, seed, Faults::default()));
        recovery::format(&*device, (Uuid([1; 16]), [2; 16]), options, 1).expect("the drive works");
        let mut world = Self {
            arena: Arena::new(64 << 20).expect("64 MiB"),
            device,
            common: common(),
            opened: None,
            inserted: Vec::new(),
            renewed: Vec::new(),
            purged: Vec::new(),
            noted: Vec::new(),
            next: 1,
            variant: 0,
            expires_ms: u64::MAX,
        };
        world.open().expect("a formatted drive can be opened");
        world
    }

    /// The same oracle over another drive, which is not open.
    pub(crate) fn beside(&self, device: Arc<SimulatedDevice>) -> Self {
        Self {
            arena: Arc::clone(&self.arena),
            device,
            common: common(),
            opened: None,
            inserted: self.inserted.clone(),
            renewed: self.renewed.clone(),
            purged: self.purged.clone(),
            noted: self.noted.clone(),
            ..*self
        }
    }

    /// Opens the volume as a new process would: nothing is remembered.
    pub(crate) fn open(&mut self) -> Result<Report, DiskError> {
        self.opened = None;
        self.common = common();
        let device: Arc<dyn Device> = Arc::clone(&self.device) as Arc<dyn Device>;
        let opened = recovery::open(device, self.common.clone())?;
        let report = opened.report;
        self.opened = Some(opened);
        Ok(report)
    }

    pub(crate) fn opened(&mut self) -> &mut Opened {
        self.opened.as_mut().expect("the volume is open")
    }

    /// Inserts an object of `len` bytes for a resource.
    pub(crate) fn insert(&mut self, resource: u64, len: u64, tag: u64) -> Result<(), DiskError> {
        let (description, bytes) = self.describe(resource, len, tag);
        let body = body(&self.arena, &bytes);
        self.opened().writer.store(description, &body)?;
        Ok(())
    }

    /// Renews what a look-up finds of a resource, as a validation does that begins now; the number of
    /// the renewal where there was something.
    pub(crate) fn renew(&mut self, resource: u64) -> Option<u64> {
        let stored = self.find(resource, false)?;
        let number = self.number_of(&stored);
        let born = self.common.next_seq();
        self.renewed.push((number, born));
        let meta = [number, born].map(u64::to_le_bytes).concat().into();
        let description =
            Description { born, expires_ms: u64::MAX, meta, ..Description::default() };
        let object = object_of(stored.number(), key(resource));
        self.opened().writer.renew(object, description).ok()?;
        Some(born)
    }

    /// The newest that is found of a resource.
    pub(crate) fn find(&mut self, resource: u64, whole: bool) -> Option<Stored> {
        let volume = Arc::clone(&self.opened().volume);
        let found = finish(volume.read_heads(key(resource), whole, &self.arena))?;
        found.ok()?.into_iter().next()
    }

    /// The number of the renewal that describes it, if one does.
    pub(crate) fn renewal_of(stored: &Stored) -> Option<u64> {
        let (_, renewal) = stored.meta.split_first_chunk::<8>()?;
        renewal.try_into().ok().map(u64::from_le_bytes)
    }

    /// Which insertion its description says that it is of.
    fn number_of(&self, stored: &Stored) -> u64 {
        let (number, _) = stored.meta.split_first_chunk().expect("a description has a number");
        u64::from_le_bytes(*number)
    }

    /// As [`World::insert`], laid out as the first version of the format did with long objects.
    pub(crate) fn insert_in_chunks_alone(&mut self, resource: u64, len: u64) {
        let (description, bytes) = self.describe(resource, len, 0);
        let object = object_id(&self.common, description.key);
        let chunk = chunk_bytes_max(self.opened().volume.geometry());
        let writer = &mut self.opened().writer;
        for (number, part) in bytes.chunks(chunk as usize).enumerate() {
            let number = number as u32;
            let stored = writer.store_chunk((description.key, 0), object, number, chunk, &[part]);
            stored.expect("there is room");
        }
        let stored = writer.store_head(description, object, (len, chunk), &[]);
        stored.expect("there is room");
    }

    /// Something new of a resource, which the oracle knows of.
    fn describe(&mut self, resource: u64, len: u64, tag: u64) -> (Description, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        let born = self.common.next_seq();
        let description = Description {
            key: key(resource),
            variant: self.variant,
            born,
            expires_ms: self.expires_ms,
            tags: [tag].into(),
            share: 0,
            meta: number.to_le_bytes().into(),
        };
        self.inserted.push(Inserted { resource, number, len, born, tag });
        (description, content(number, len))
    }

    /// Purges; whether it was confirmed.
    pub(crate) fn purge(&mut self, target: Target, soft: Option<Soft>) -> bool {
        let mark = Mark { target, seq: self.common.next_seq(), soft };
        self.common.purges.note(mark);
        let durable = self.opened().volume.purge(mark);
        let done = self.opened().writer.tend().is_ok();
        let confirmed = done && finish(durable).is_some_and(|outcome| outcome.result.is_ok());
        if confirmed {
            self.purged.push(mark);
        }
        confirmed
    }

    pub(crate) fn purge_resource(&mut self, resource: u64) -> bool {
        self.purge(Target::Key(key_hash(key(resource))), None)
    }

    /// Notes that older content of a resource is not to be served; whether it was confirmed.
    pub(crate) fn note(&mut self, resource: u64) -> bool {
        let note = Note { seq: self.common.next_seq(), bytes: text_of_note(resource) };
        self.common.refuse_before(self.common.notes.add(note.clone()));
        let durable = self.opened().volume.note(note.clone());
        let done = self.opened().writer.tend().is_ok();
        let confirmed = done && finish(durable).is_some_and(|outcome| outcome.result.is_ok());
        if confirmed {
            self.noted.push(note);
        }
        confirmed
    }

    /// Forgets notes that are older than all content, as a node does; how many.
    pub(crate) fn forget_done(&mut self) -> usize {
        let oldest = self.opened().volume.oldest_born();
        let notes = self.common.notes.all();
        let done = notes.iter().take_while(|note| note.seq <= oldest).count();
        if let Some(last) = notes[..done].last() {
            self.common.forget_notes(last.seq);
        }
        done
    }

    /// Whether one of these notes is about what was inserted.
    fn is_meant(inserted: &Inserted, notes: &[Note]) -> bool {
        let text = text_of_note(inserted.resource);
        notes.iter().any(|note| note.seq > inserted.born && note.bytes == text)
    }

    /// Whether what was inserted may not be served any more.
    pub(crate) fn is_purged(&self, inserted: &Inserted) -> bool {
        let is_newer = |mark: &&Mark| mark.soft.is_none() && mark.seq > inserted.born;
        self.purged.iter().filter(is_newer).any(|mark| Self::is_target(mark, inserted))
    }

    fn is_target(mark: &Mark, inserted: &Inserted) -> bool {
        match mark.target {
            Target::Key(hash) => hash == key_hash(key(inserted.resource)),
            Target::Tag(tag) => tag == inserted.tag,
            Target::All => true,
        }
    }

    /// Looks a resource up and reads `part` of it, whole with its head where `whole`. Panics where
    /// the answer is wrong; says whether there was one.
    pub(crate) fn look(&mut self, resource: u64, whole: bool, part: (u64, u64)) -> bool {
        let arena = Arc::clone(&self.arena);
        let Some(stored) = &self.find(resource, whole) else { return false };
        let number = self.number_of(stored);
        let inserted = self.inserted.iter().find(|one| one.number == number);
        let inserted = inserted.expect("only what was inserted is found").clone();
        assert_eq!(
            (inserted.resource, inserted.len),
            (resource, stored.total),
            "of another resource"
        );
        assert!(!self.is_purged(&inserted), "purged content came back: {inserted:?}");
        let renewal = Self::renewal_of(stored);
        // A number that was given out just before a power cut may be given out again after it.
        let known = renewal.map(|born| {
            let mut same = self.renewed.iter().filter(|known| known.1 == born).peekable();
            assert!(same.peek().is_some(), "only what was renewed is found");
            *same.find(|known| known.0 == number).expect("a renewal of another object")
        });
        let validated = known.map_or(inserted.born, |(_, born)| born);
        let is_soft = |mark: &&Mark| mark.soft.is_some() && mark.seq > validated;
        if self.purged.iter().filter(is_soft).any(|mark| Self::is_target(mark, &inserted)) {
            assert!(stored.soft.is_some(), "a soft purge was lost: {inserted:?} {renewal:?}");
        }
        if Self::is_meant(&inserted, &self.common.notes.all()) {
            return false;
        }
        assert!(!Self::is_meant(&inserted, &self.noted), "a note was lost: {inserted:?}");
        let want = content(number, inserted.len);
        if let Some(payload) = &stored.payload {
            let from = stored.payload_from as usize;
            assert!(**payload == want[from..], "wrong bytes with the head");
        }
        let end = part.1.min(stored.total);
        match read(stored, part.0.min(end), end, &arena) {
            Some(Ok(bytes)) => {
                assert!(bytes == want[part.0.min(end) as usize..end as usize], "wrong bytes");
                true
            }
            _ => false,
        }
    }
}

/// What a note about a resource says: short ones and long ones.
fn text_of_note(resource: u64) -> Arc<[u8]> {
    let long = mixed(resource ^ 0x0e) % if resource.is_multiple_of(7) { 4000 - 8 } else { 100 };
    resource.to_le_bytes().into_iter().chain(content(resource, long)).collect()
}

/// Reads a part of an object.
pub(crate) fn read(
    stored: &Stored,
    start: u64,
    end: u64,
    arena: &Arc<Arena>,
) -> Option<Result<Vec<u8>, ReadError>> {
    let mut bytes = Vec::new();
    let mut position = start;
    while position < end {
        let part = match stored.begin(position, end, u64::MAX, arena) {
            Ok(part) => part,
            Err(error) => return Some(Err(error)),
        };
        let next = part.end();
        assert!(next > position, "a part has bytes");
        match finish(part.finish(arena))? {
            Ok(lease) => bytes.extend_from_slice(&lease),
            Err(error) => return Some(Err(error)),
        }
        position = next;
    }
    Some(Ok(bytes))
}
