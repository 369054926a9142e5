//! The access log: workers write records into a buffer of their own, a thread formats and writes
//! them. When that thread falls behind, records are dropped and counted, never waited for.

pub mod fields;
mod format;
mod record;
mod values;

pub use format::Format;
pub use record::{Record, decode};
pub use values::markdown;

use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_config::settings::LogTarget;
use freshet_geo::Geo;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
        let sink = open(target)?;
        let kept = Arc::clone(&recent);
        let lost = Arc::<AtomicU64>::default();
        let lost_here = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(&messages, sink, (format, geo), &kept, &lost_here))?;
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

/// Records in a buffer.
fn count(mut bytes: &[u8]) -> u64 {
    std::iter::from_fn(|| decode(&mut bytes).map(drop)).count() as u64
}

fn run(
    messages: &Receiver<Message>,
    sink: Sink,
    (mut format, mut geo): (Format, Arc<Geo>),
    recent: &Mutex<Recent>,
    lost: &AtomicU64,
) {
    let mut output = Output { sink, is_torn: false };
    let (mut lines, mut ends) = (String::new(), Vec::new());
    for message in messages {
        match message {
            Message::Records(bytes) => {
                keep(&bytes, recent);
                if !matches!(output.sink, Sink::None) {
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
                output = Output { sink: opened.0, is_torn: false };
            }
            Message::Rotate(opened) => output = Output { sink: opened.0, is_torn: false },
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

/// Where lines go, and whether the last one there lacks its end.
struct Output {
    sink: Sink,
    is_torn: bool,
}

impl Output {
    /// Writes lines, of which each ends at one of `ends`, as far as that goes; returns how many are not there.
    /// What comes behind a part of a line begins a line of its own.
    fn write(&mut self, lines: &[u8], ends: &[usize]) -> u64 {
        let (mut written, mut result) = (0, Ok(()));
        if self.is_torn {
            result = self.put(b"\n").1;
            self.is_torn = result.is_err();
        }
        if result.is_ok() {
            (written, result) = self.put(lines);
        }
        let whole = ends.partition_point(|end| *end <= written);
        self.is_torn |= ends[..whole].last().copied().unwrap_or(0) < written;
        // A disk stays full for a while, and takes no line of many.
        static LIMIT: LogLimit = LogLimit::new();
        if let Err(error) = result
            && let Some(held_back) = LIMIT.admit(UnixMillis::now(), FAILURE_PERIOD)
        {
            tracing::error!(%error, held_back, "the access log could not be written");
        }
        (ends.len() - whole) as u64
    }

    /// Writes bytes, and says how many of them.
    fn put(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            let result = match &mut self.sink {
                Sink::None => Ok(bytes.len() - written),
                Sink::Stdout => io::stdout().lock().write(&bytes[written..]),
                Sink::Stderr => io::stderr().lock().write(&bytes[written..]),
                Sink::File(file) => file.write(&bytes[written..]),
            };
            match result {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
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
    }

    #[test]
    fn what_does_not_fit_is_counted_and_spoils_no_later_line() {
        use std::io::Read;
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut output = Output { sink: Sink::File(writer), is_torn: false };
        const LINE: &str = "a line of a length that no page is a multiple of\n";
        let lines = LINE.repeat(10_000);
        let ends: Vec<_> = (1..=10_000).map(|at| at * LINE.len()).collect();
        // A pipe takes so much and no more, as a full disk does.
        let lost = output.write(lines.as_bytes(), &ends);
        assert!((1..10_000).contains(&lost), "{lost}");
        assert!(output.is_torn);
        assert_eq!(output.write(lines.as_bytes(), &ends), 10_000);
        let mut taken = vec![0; 32 << 10];
        reader.read_exact(&mut taken).unwrap();
        assert_eq!(output.write(LINE.as_bytes(), &[LINE.len()]), 0);
        drop(output);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let text = String::from_utf8(taken).unwrap() + &rest;
        let whole = text.lines().filter(|line| *line == LINE.trim_end()).count();
        assert_eq!(whole as u64, 10_000 - lost + 1);
        assert_eq!(text.lines().count(), whole + 1, "one is torn");
        assert!(text.ends_with(LINE));
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
