//! Measuring a disk through the store: what `freshet store bench` does.

use super::geometry::FormatOptions;
use super::index::{Index, LINE_SLOTS};
use super::intake::Description;
use super::read::{ReadError, Stored};
use super::recovery::{self, Opened};
use super::slot::head_kind;
use super::superblock::Uuid;
use super::volume::{Common, Volume};
use super::writer::Writer;
use crate::error::DiskError;
use freshet_base::splitmix::mixed;
use freshet_device::Device;
use freshet_device::block::Block;
use freshet_device::limits::READ_BATCH;
use freshet_device::ring::Ring;
use freshet_store::Arena;
use freshet_store::Body;
use freshet_store::StoreError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BenchOptions {
    /// Length of the objects.
    pub object_bytes: usize,
    /// Bytes to write before reading.
    pub fill_bytes: u64,
    /// Reads under way at once.
    pub depth: usize,
    /// How long to read.
    pub span: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct BenchReport {
    /// Objects written, and read.
    pub objects: u64,
    /// Bytes of objects written a second.
    pub write_bytes_per_second: f64,
    /// Bytes the device was given for each byte of an object.
    pub write_amplification: f64,
    /// Time to open the store after the writing process ended without order.
    pub reopen: Duration,
    /// Bytes of memory of the index for each record.
    pub index_bytes_per_record: f64,
    /// Reads of whole objects.
    pub reads: u64,
    /// Look-ups of objects whose place in the index one that looks the same to it has.
    pub lost: u64,
    /// Processor time of this process for a gigabyte read, in seconds: its own, and the kernel's for it.
    pub read_processor_s_per_gb: f64,
    /// Bytes of objects read a second.
    pub read_bytes_per_second: f64,
    /// Times of reads, sorted, µs.
    pub read_us: Vec<u64>,
    /// Calls of `io_uring_enter` for each read; 0 without io_uring.
    pub enters_per_read: f64,
    /// Memory taken beyond the bytes read, as a part of them.
    pub memory_overhead: f64,
    /// Time of a checkpoint that is written at once.
    pub checkpoint: Duration,
    /// The longest a write of an object took beside a checkpoint that goes on.
    pub wait_beside_checkpoint: Duration,
    /// The longest of as many writes without one.
    pub wait: Duration,
}

/// Look-ups that may find nothing, besides one of a thousand: an object of some 20,000 looks the same to the index as
/// one that was written later.
const LOST_MAX: u64 = 20;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Stored>, ReadError>>>>;

fn now_us() -> u64 {
    freshet_base::clock::UnixMillis::now().0 * 1000
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn key(number: u64) -> u128 {
    u128::from(mixed(number)) << 64 | u128::from(mixed(!number))
}

/// An index of one disk with so many records at design load, to be looked up in.
#[derive(Debug)]
pub struct Lookups {
    index: Index,
    entries: u64,
}

impl Lookups {
    /// An index nine tenths full.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(entries: u64) -> Result<Self, StoreError> {
        let slots = entries.max(1) * 10 / 9;
        let index = Index::new(slots.div_ceil(LINE_SLOTS as u64))?;
        for number in 0..entries {
            index.insert(mixed(number), head_kind(0), number, 2000);
        }
        Ok(Self { index, entries })
    }

    /// Looks up the resource of this number, modulo what there is; how many records it may have.
    pub fn look_up(&self, number: u64) -> usize {
        let hash = mixed(number % self.entries.max(1));
        self.index.heads(hash).iter().count()
    }

    /// Says that the resource of this number is about to be looked up.
    pub fn prefetch(&self, number: u64) {
        self.index.prefetch(mixed(number % self.entries.max(1)));
    }

    /// Records in the index: a few less than were put in where it is too full.
    pub fn entries(&self) -> u64 {
        self.index.entries()
    }
}

/// Formats the device, fills it, opens it as after a crash and reads at random. What was on it is
/// gone.
///
/// # Errors
/// The device failed, or does not fit.
///
/// # Panics
/// If more objects that were written are not found, or not as they were written, than look the same as others.
pub fn run(
    device: &Arc<dyn Device>,
    options: BenchOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<BenchReport, DiskError> {
    let ring = Ring::install().ok();
    let arena = Arena::new(256 << 20)?;
    let format = FormatOptions {
        object_bytes: Some(options.object_bytes as u64),
        ..FormatOptions::default()
    };
    recovery::format(&**device, (Uuid::random(), [7; 16]), format, now_us() / 1000)?;
    let opened = recovery::open(Arc::clone(device), Common::new(now_us))?;
    let mut report = BenchReport::default();
    let mut writer = opened.writer;
    let volume = opened.volume;
    let room = volume.geometry().log_bytes() * 8 / 10;
    report.objects = options.fill_bytes.min(room) / options.object_bytes as u64;
    let mut noise = Block::new(options.object_bytes);
    let begun = Instant::now();
    for number in 0..report.objects {
        noise[..8].copy_from_slice(&number.to_le_bytes());
        let body = body_of(&arena, &noise[..options.object_bytes]);
        writer.store(describe(&volume, number), &body)?;
        if number % 256 == 0 {
            progress("filling", number as f64 / report.objects as f64);
        }
    }
    writer.drain()?;
    writer.flush()?;
    let written = volume.stats().written;
    let bytes = (report.objects * options.object_bytes as u64) as f64;
    report.write_bytes_per_second = bytes / begun.elapsed().as_secs_f64();
    report.write_amplification = written.total() as f64 / bytes;
    // As after `kill -9`: nothing is sealed, no checkpoint is written.
    drop((writer, volume));
    let begun = Instant::now();
    let Opened { volume, mut writer, .. } =
        recovery::open(Arc::clone(device), Common::new(now_us))?;
    report.reopen = begun.elapsed();
    let stats = volume.stats();
    report.index_bytes_per_record = stats.index_bytes as f64 / stats.entries.max(1) as f64;
    let mut random = 1u64;
    let mut begin = || -> (Instant, Reading) {
        random = random.wrapping_add(1);
        let number = mixed(random) % report.objects;
        let (volume, arena) = (Arc::clone(&volume), Arc::clone(&arena));
        let reading = async move { volume.read_heads(key(number), true, &arena).await };
        (Instant::now(), Box::pin(reading))
    };
    let mut under_way: Vec<(Instant, Reading)> = (0..options.depth).map(|_| begin()).collect();
    let enters = ring.as_ref().map_or(0, |ring| ring.counts().0);
    let processor_before = processor_seconds();
    let begun = Instant::now();
    let mut cx = Context::from_waker(Waker::noop());
    let mut told = begun;
    let (mut read_bytes, mut taken_bytes) = (0u64, 0u64);
    while begun.elapsed() < options.span {
        for slot in &mut under_way {
            while let Poll::Ready(found) = slot.1.as_mut().poll(&mut cx) {
                let found = found.unwrap_or_default();
                let payload = found.first().and_then(|stored| stored.payload.as_ref());
                let Some(payload) = payload else {
                    report.lost += 1;
                    let bound = LOST_MAX + report.read_us.len() as u64 / 1000;
                    assert!(report.lost <= bound, "objects that were written are found, whole");
                    *slot = begin();
                    continue;
                };
                read_bytes += payload.len() as u64;
                taken_bytes += payload.taken_bytes();
                report.read_us.push(slot.0.elapsed().as_micros() as u64);
                *slot = begin();
                // What ended together is not all checked before the disk has something to do again.
                if let Some(ring) = ring.as_ref().filter(|ring| ring.queued() >= READ_BATCH) {
                    ring.submit();
                }
            }
        }
        match &ring {
            Some(ring) => {
                ring.wait_for(READ_BATCH.min(options.depth.div_ceil(2)), Duration::from_secs(1));
                ring.reap();
            }
            None => std::thread::yield_now(),
        }
        if told.elapsed() > Duration::from_millis(500) {
            told = Instant::now();
            progress("reading", begun.elapsed().as_secs_f64() / options.span.as_secs_f64());
        }
    }
    report.reads = report.read_us.len() as u64;
    report.read_bytes_per_second = read_bytes as f64 / begun.elapsed().as_secs_f64();
    let processor_s = processor_seconds() - processor_before;
    report.read_processor_s_per_gb = processor_s / (read_bytes.max(1) as f64 / 1e9);
    let entered = ring.as_ref().map_or(0, |ring| ring.counts().0) - enters;
    report.enters_per_read = entered as f64 / report.reads.max(1) as f64;
    report.memory_overhead = taken_bytes as f64 / read_bytes.max(1) as f64 - 1.0;
    report.read_us.sort_unstable();
    // What is under way ends before its memory goes.
    for (_, mut reading) in under_way {
        while reading.as_mut().poll(&mut cx).is_pending() {
            match &ring {
                Some(ring) => {
                    ring.wait_for(1, Duration::from_secs(1));
                    ring.reap();
                }
                None => std::thread::yield_now(),
            }
        }
    }
    let mut number = report.objects;
    let mut store = |writer: &mut Writer| -> Result<Duration, DiskError> {
        noise[..8].copy_from_slice(&number.to_le_bytes());
        let body = body_of(&arena, &noise[..options.object_bytes]);
        let description = describe(&volume, number);
        number += 1;
        let begun = Instant::now();
        writer.store(description, &body)?;
        Ok(begun.elapsed())
    };
    let begun = Instant::now();
    writer.checkpoint(false)?;
    report.checkpoint = begun.elapsed();
    writer.checkpoint_in_time()?;
    let mut count = 0;
    while writer.is_checkpointing() {
        report.wait_beside_checkpoint = report.wait_beside_checkpoint.max(store(&mut writer)?);
        count += 1;
    }
    for _ in 0..count {
        report.wait = report.wait.max(store(&mut writer)?);
    }
    Ok(report)
}

fn describe(volume: &Volume, number: u64) -> Description {
    Description {
        key: key(number),
        expires_ms: u64::MAX,
        born: volume.common.next_seq(),
        meta: [0; 400].into(),
        ..Description::default()
    }
}

fn body_of(arena: &Arc<Arena>, bytes: &[u8]) -> Arc<Body> {
    let body = Body::new(arena, Some(bytes.len() as u64));
    let mut writer = body.writer(0, None);
    let mut cx = Context::from_waker(Waker::noop());
    let mut rest = bytes;
    while !rest.is_empty() {
        let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut cx, rest.len()) else { return body };
        let now = room.len().min(rest.len());
        let (taken, later) = rest.split_at(now);
        room[..now].copy_from_slice(taken);
        writer.commit(now);
        rest = later;
    }
    // A body that is not whole is refused by the writer of the disk.
    let _ = writer.finish();
    body
}
