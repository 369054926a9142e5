//! The access log: workers write records into a buffer of their own, a thread formats and writes
//! them. When that thread falls behind, records are dropped and counted, never waited for.

pub(crate) mod fields;
mod format;
mod record;

pub use format::Format;
pub use record::{Record, decode};

use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_config::settings::LogTarget;
use freshet_geo::Geo;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A worker hands its buffer over when it holds this much, or at the next tick.
const BUFFER_BYTES: usize = 32 << 10;
/// Buffers that may wait for the writer; beyond, records are lost: 256 × 32 KiB is 8 MiB.
const QUEUE_BUFFERS_MAX: usize = 256;
/// Lines kept in memory for `freshet log` and the admin interface.
const RECENT_RECORDS_MAX: usize = 2_000;
/// Their bytes, so that long targets and fields leave fewer lines: 2 KiB each, where a usual one has
/// some 300 bytes.
const RECENT_BYTES_MAX: usize = 4 << 20;

/// Lines about failed writes are this far apart.
const FAILURE_PERIOD: Duration = Duration::from_secs(10);

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
        let sink = open(target)?;
        let kept = Arc::clone(&recent);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(&messages, sink, (format, geo), &kept))?;
        Ok(Arc::new(Self { queue, recent, thread: Mutex::new(Some(thread)) }))
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
    /// and how many there were by now: what to give as `seen` the next time.
    pub fn since(&self, seen: u64) -> (Vec<Box<[u8]>>, u64) {
        let recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

    /// Adds a record. Returns false when records had to be dropped.
    pub fn add(&self, record: &Record<'_>) -> bool {
        let mut buffer = self.buffer.borrow_mut();
        record.encode(&mut buffer);
        let full = buffer.len() >= BUFFER_BYTES;
        drop(buffer);
        !full || self.flush()
    }

    /// Hands over what there is. Returns false when it had to be dropped.
    pub fn flush(&self) -> bool {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            return true;
        }
        let full = std::mem::replace(&mut *buffer, Vec::with_capacity(BUFFER_BYTES));
        !matches!(self.log.queue.try_send(Message::Records(full)), Err(TrySendError::Full(_)))
    }
}

/// A target that could be opened.
pub struct Opened(Sink);

impl Opened {
    /// Opens `target`.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(target: &LogTarget) -> io::Result<Self> {
        open(target).map(Self)
    }
}

enum Sink {
    None,
    Stdout,
    Stderr,
    File(File),
}

fn open(target: &LogTarget) -> io::Result<Sink> {
    Ok(match target {
        LogTarget::Off => Sink::None,
        LogTarget::Stdout => Sink::Stdout,
        LogTarget::Stderr => Sink::Stderr,
        LogTarget::File(path) => {
            Sink::File(OpenOptions::new().create(true).append(true).open(path)?)
        }
    })
}

fn run(
    messages: &Receiver<Message>,
    mut sink: Sink,
    (mut format, mut geo): (Format, Arc<Geo>),
    recent: &Mutex<Recent>,
) {
    let mut lines = String::new();
    for message in messages {
        match message {
            Message::Records(bytes) => {
                keep(&bytes, recent);
                if !matches!(sink, Sink::None) {
                    lines.clear();
                    let mut input = &bytes[..];
                    while let Some(record) = decode(&mut input) {
                        format.write(&record, &geo, &mut lines);
                    }
                    write(&mut sink, lines.as_bytes());
                }
            }
            Message::Reopen(opened, new_format, new_geo) => {
                (format, geo) = (new_format, new_geo);
                sink = opened.0;
            }
            Message::Rotate(opened) => sink = opened.0,
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

fn write(sink: &mut Sink, bytes: &[u8]) {
    let result = match sink {
        Sink::None => Ok(()),
        Sink::Stdout => io::stdout().lock().write_all(bytes),
        Sink::Stderr => io::stderr().lock().write_all(bytes),
        Sink::File(file) => file.write_all(bytes),
    };
    // A disk stays full for a while, and takes no line of many.
    static LIMIT: LogLimit = LogLimit::new();
    if let Err(error) = result
        && let Some(held_back) = LIMIT.admit(UnixMillis::now(), FAILURE_PERIOD)
    {
        tracing::error!(%error, held_back, "the access log could not be written");
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
            assert!(buffer.add(&Record { id, method: "GET", target: "/x", ..Record::default() }));
        }
        assert!(buffer.flush());
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
