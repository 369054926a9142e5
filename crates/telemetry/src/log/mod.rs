//! The access log: workers write records into a buffer of their own, a thread formats and writes
//! them. When that thread falls behind, records are dropped and counted, never waited for.

pub mod fields;
mod format;
mod output;
mod record;
mod values;

pub use format::Format;
pub use output::{Opened, suits};
pub use record::{Record, decode};
pub use values::markdown;

use freshet_config::settings::LogTarget;
use freshet_geo::Geo;
use output::Output;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A worker hands its buffer over when it holds this much, or at the next tick.
const BUFFER_BYTES: usize = 32 << 10;
/// Buffers that may wait for the writer; beyond, records are lost: 256 × 32 KiB is 8 MiB.
const QUEUE_BUFFERS_MAX: usize = 256;
/// Lines kept in memory for `freshet log` and the admin interface.
const RECENT_RECORDS_MAX: usize = 2_000;
/// Their bytes, so that long targets and fields leave fewer lines: 2 KiB each, where a usual one has
/// some 300 bytes.
const RECENT_BYTES_MAX: usize = 4 << 20;

enum Message {
    Records(Vec<u8>),
    Reopen(Opened, Format, Arc<Geo>),
    Rotate(Opened),
    Stop,
}

/// The newest records, each encoded.
#[derive(Default)]
struct Recent {
    records: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Records there ever were.
    seen: u64,
}

impl Recent {
    fn push(&mut self, record: &[u8]) {
        self.bytes += record.len();
        self.records.push_back(record.into());
        while (self.records.len() > RECENT_RECORDS_MAX || self.bytes > RECENT_BYTES_MAX)
            && let Some(oldest) = self.records.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

/// The writing side, shared by all workers.
pub struct AccessLog {
    queue: SyncSender<Message>,
    recent: Arc<Mutex<Recent>>,
    /// Records that could not be written since somebody last asked.
    lost: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AccessLog {
    /// Starts the writer, which looks up where clients are by itself.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not started.
    pub fn start(target: &LogTarget, format: Format, geo: Arc<Geo>) -> io::Result<Arc<Self>> {
        let (queue, messages) = sync_channel(QUEUE_BUFFERS_MAX);
        let recent = Arc::<Mutex<Recent>>::default();
        let opened = Opened::open(target)?;
        let kept = Arc::clone(&recent);
        let lost = Arc::<AtomicU64>::default();
        let lost_here = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(&messages, opened, (format, geo), &kept, &lost_here))?;
        Ok(Arc::new(Self { queue, recent, lost, thread: Mutex::new(Some(thread)) }))
    }

    /// Writes to the same target, opened anew.
    pub fn rotate(&self, target: Opened) {
        let _ = self.queue.send(Message::Rotate(target));
    }

    /// Writes to another target from now on, or to a file opened anew after a rotation.
    pub fn reopen(&self, target: Opened, format: Format, geo: Arc<Geo>) {
        let _ = self.queue.send(Message::Reopen(target, format, geo));
    }

    /// The newest records, oldest first, each encoded; at most `count`.
    pub fn recent(&self, count: usize) -> Vec<Box<[u8]>> {
        let recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let records = &recent.records;
        records.iter().skip(records.len().saturating_sub(count)).cloned().collect()
    }

    /// The records that came after the first `seen`, oldest first, as far as they are still kept,
    /// and how many there were by now: what to give as `seen` the next time. Of more than there were
    /// another process told, before this one: all are new then.
    pub fn since(&self, seen: u64) -> (Vec<Box<[u8]>>, u64) {
        let recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let seen = if seen > recent.seen { 0 } else { seen };
        let new = usize::try_from(recent.seen.saturating_sub(seen)).unwrap_or(usize::MAX);
        let records = &recent.records;
        let kept = records.iter().skip(records.len().saturating_sub(new)).cloned().collect();
        (kept, recent.seen)
    }

    /// Writes out what was handed over and ends the writer.
    pub fn stop(&self) {
        let _ = self.queue.send(Message::Stop);
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A worker's side: no lock, no formatting, one hand-over per `BUFFER_BYTES`.
pub struct LogBuffer {
    log: Arc<AccessLog>,
    buffer: RefCell<Vec<u8>>,
}

impl LogBuffer {
    /// A buffer that hands over to `log`.
    pub fn new(log: Arc<AccessLog>) -> Self {
        Self { log, buffer: RefCell::new(Vec::with_capacity(BUFFER_BYTES)) }
    }

    /// Adds a record. Returns how many records are newly known to be lost.
    #[must_use]
    #[inline]
    pub fn add(&self, record: &Record<'_>) -> u64 {
        let mut buffer = self.buffer.borrow_mut();
        record.encode(&mut buffer);
        let full = buffer.len() >= BUFFER_BYTES;
        drop(buffer);
        if full { self.flush() } else { 0 }
    }

    /// Hands over what there is. Returns how many records are newly known to be lost: these where the
    /// writer is behind, and what it could not write.
    #[must_use]
    pub fn flush(&self) -> u64 {
        let mut buffer = self.buffer.borrow_mut();
        let lost = self.log.lost.swap(0, Relaxed);
        if buffer.is_empty() {
            return lost;
        }
        let full = std::mem::replace(&mut *buffer, Vec::with_capacity(BUFFER_BYTES));
        match self.log.queue.try_send(Message::Records(full)) {
            Err(TrySendError::Full(Message::Records(bytes))) => lost + count(&bytes),
            _ => lost,
        }
    }
}

/// Records in a buffer.
fn count(mut bytes: &[u8]) -> u64 {
    std::iter::from_fn(|| decode(&mut bytes).map(drop)).count() as u64
}

fn run(
    messages: &Receiver<Message>,
    opened: Opened,
    (mut format, mut geo): (Format, Arc<Geo>),
    recent: &Mutex<Recent>,
    lost: &AtomicU64,
) {
    let mut output = Output::of(opened);
    let (mut lines, mut ends) = (String::new(), Vec::new());
    for message in messages {
        match message {
            Message::Records(bytes) => {
                keep(&bytes, recent);
                if output.is_there() {
                    lines.clear();
                    ends.clear();
                    let mut input = &bytes[..];
                    while let Some(record) = decode(&mut input) {
                        format.write(&record, &geo, &mut lines);
                        ends.push(lines.len());
                    }
                    lost.fetch_add(output.write(lines.as_bytes(), &ends), Relaxed);
                }
            }
            Message::Reopen(opened, new_format, new_geo) => {
                (format, geo) = (new_format, new_geo);
                output = Output::of(opened);
            }
            Message::Rotate(opened) => output = Output::of(opened),
            Message::Stop => return,
        }
    }
}

/// Keeps the last records of a buffer; the text of only those is copied.
fn keep(bytes: &[u8], recent: &Mutex<Recent>) {
    let mut starts = VecDeque::new();
    let mut count = 0;
    let mut input = bytes;
    loop {
        let at = bytes.len() - input.len();
        if decode(&mut input).is_none() {
            break;
        }
        starts.push_back(at..bytes.len() - input.len());
        count += 1;
        if starts.len() > RECENT_RECORDS_MAX {
            starts.pop_front();
        }
    }
    let mut recent = recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    recent.seen += count;
    for range in starts {
        recent.push(&bytes[range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_reach_the_file_and_the_recent_list() {
        let dir = tempfile::tempdir().unwrap();
        let target = LogTarget::File(dir.path().join("access.log"));
        let log =
            AccessLog::start(&target, Format::parse("%m %U").unwrap(), Arc::default()).unwrap();
        let buffer = LogBuffer::new(Arc::clone(&log));
        for id in 0..RECENT_RECORDS_MAX as u64 + 5 {
            let lost = buffer.add(&Record { id, method: "GET", target: "/x", ..Record::default() });
            assert_eq!(lost, 0);
        }
        assert_eq!(buffer.flush(), 0);
        log.stop();
        let text = std::fs::read_to_string(dir.path().join("access.log")).unwrap();
        assert_eq!(text.lines().count(), RECENT_RECORDS_MAX + 5);
        assert_eq!(text.lines().next(), Some("GET /x"));
        let recent = log.recent(usize::MAX);
        assert_eq!(recent.len(), RECENT_RECORDS_MAX);
        assert_eq!(decode(&mut &recent[0][..]).unwrap().id, 5);
        let seen = RECENT_RECORDS_MAX as u64 + 5;
        let (new, next) = log.since(seen - 2);
        assert_eq!((new.len(), next), (2, seen));
        assert_eq!(decode(&mut &new[1][..]).unwrap().id, seen - 1);
        assert_eq!(log.since(0).0.len(), RECENT_RECORDS_MAX, "what is gone is skipped");
        assert!(log.since(seen).0.is_empty());
        assert_eq!(log.since(seen + 1).0.len(), RECENT_RECORDS_MAX, "it is of a process before");
    }

    #[test]
    fn long_records_are_fewer_in_the_recent_list() {
        let mut recent = Recent::default();
        let long = vec![b'x'; 40_000];
        (0..RECENT_RECORDS_MAX).for_each(|_| recent.push(&long));
        assert_eq!(recent.records.len(), RECENT_BYTES_MAX / long.len());
        assert_eq!(recent.bytes, recent.records.len() * long.len());
    }
}
