//! A block device or a file, without the page cache.

use super::block::Buffer;
use super::device::{Completion, Device, Finish, Io, IoError, Op, Outcome, ReadTimes, WriteLife};
use super::limits::{BLOCK_BYTES, POOL_THREADS};
use super::ring::Ring;
use freshet_base::ledger::Ledger;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatVfs};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// `_IO(0x12, 119)` of `linux/fs.h`.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// `F_LINUX_SPECIFIC_BASE + 12` of `linux/fcntl.h`.
const F_SET_RW_HINT: libc::c_int = 1036;

/// What `st_blocks` counts in (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

/// A device or file that is open. One process has it at a time.
#[derive(Debug)]
pub struct FileDevice {
    shared: Arc<Shared>,
    path: PathBuf,
    bytes: u64,
    /// For threads that have no ring.
    pool: OnceLock<Sender<Task>>,
    /// A thread for what the kernel has no queue for.
    discards: OnceLock<Sender<Discard>>,
    is_closed: AtomicBool,
}

/// What operations under way hold.
#[derive(Debug)]
pub(super) struct Shared {
    fd: OwnedFd,
    is_block_device: bool,
    reads: AtomicUsize,
    all: AtomicUsize,
    began: Instant,
    /// When something ended last, or work began after none, in µs since `began`.
    progress_us: AtomicU64,
    reads_ended: AtomicU64,
    reads_us: AtomicU64,
}

/// What the device is to be told that it need not keep.
struct Discard {
    range: Range<u64>,
    finish: Finish,
}

struct Task {
    op: Op,
    offset: u64,
    len: usize,
    buffer: Buffer,
    finish: Finish,
    began_us: u64,
}

impl FileDevice {
    /// Opens what is there.
    ///
    /// # Errors
    /// It is not there, another process has it (`EWOULDBLOCK`), or it is neither a file nor a block
    /// device (`ENOTBLK`).
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty())
            // Memory file systems have no direct I/O.
            .or_else(|error| match error {
                Errno::INVAL => rustix::fs::open(path, flags, Mode::empty()),
                other => Err(other),
            })
            .map_err(failed)?;
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| if error == Errno::AGAIN { IoError::Taken } else { failed(error) })?;
        Self::of(fd, path)
    }

    /// Opens what another process may have, to be read only.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn peek(path: &Path) -> Result<Self, IoError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Self::of(rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?, path)
    }

    /// Whether another process has what was only looked at.
    pub fn is_taken(&self) -> bool {
        // Held for no longer than it takes to see: who opens it tries again.
        match rustix::fs::flock(&self.shared.fd, FlockOperation::NonBlockingLockShared) {
            Err(error) => error == Errno::AGAIN,
            Ok(()) => {
                let _ = rustix::fs::flock(&self.shared.fd, FlockOperation::Unlock);
                false
            }
        }
    }

    fn of(fd: OwnedFd, path: &Path) -> Result<Self, IoError> {
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let bytes = match kind {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            FileType::BlockDevice => rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(failed)?,
            _ => return Err(failed(Errno::NOTBLK)),
        };
        let shared = Shared {
            fd,
            is_block_device: kind == FileType::BlockDevice,
            reads: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            began: Instant::now(),
            progress_us: AtomicU64::new(0),
            reads_ended: AtomicU64::new(0),
            reads_us: AtomicU64::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            path: path.to_owned(),
            bytes: bytes & !(BLOCK_BYTES - 1),
            pool: OnceLock::new(),
            discards: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Makes a file of this length, its blocks reserved, and opens it. A file that is there and
    /// empty is given the length; one with something in it is only opened.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; no space.
    pub fn create(path: &Path, bytes: u64) -> Result<Self, IoError> {
        Self::reserve(path, bytes)?;
        Self::open(path)
    }

    fn reserve(path: &Path, bytes: u64) -> Result<(), IoError> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, mode).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size > 0 {
            return Ok(());
        }
        // The kernel hands out all there is before it says that it is not enough, and others who write
        // meanwhile have no space.
        if rustix::fs::fstatvfs(&fd).is_ok_and(|space| free_bytes(&space) < bytes) {
            return Err(failed(Errno::NOSPC));
        }
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(&fd, bytes).map_err(failed),
            Err(error) => {
                let _ = rustix::fs::ftruncate(&fd, 0);
                Err(failed(error))
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn pool(&self) -> &Sender<Task> {
        self.pool.get_or_init(|| {
            let (sender, receiver) = channel::<Task>();
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..POOL_THREADS {
                let (receiver, shared) = (Arc::clone(&receiver), Arc::clone(&self.shared));
                // Where no thread can be had, the others do its work; without any, operations end
                // as closed.
                let _ = thread::Builder::new()
                    .name("disk-pool".into())
                    .spawn(move || work(&receiver, &shared));
            }
            sender
        })
    }

    fn discards(&self) -> &Sender<Discard> {
        self.discards.get_or_init(|| {
            let (sender, receiver) = channel::<Discard>();
            let shared = Arc::clone(&self.shared);
            // Without a thread, discards end as on a device that is closed.
            let _ = thread::Builder::new().name("disk-discard".into()).spawn(move || {
                for Discard { range, finish } in receiver {
                    finish.finish(shared.discard(&range), Buffer::None);
                }
            });
            sender
        })
    }
}

/// What a file system has left for programs that are not root's.
pub fn free_bytes(space: &StatVfs) -> u64 {
    space.f_bavail.saturating_mul(space.f_frsize)
}

/// Serves a device until it is dropped.
fn work(tasks: &Mutex<Receiver<Task>>, shared: &Shared) {
    loop {
        let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Task { op, offset, len, mut buffer, finish, began_us }) = next else { return };
        let result = match buffer.bytes_mut().get_mut(..len) {
            None => Err(IoError::Short),
            Some(bytes) => match op {
                Op::Read => moved(len, |at| {
                    rustix::io::pread(&shared.fd, &mut bytes[at..], offset + at as u64)
                }),
                Op::Write => moved(len, |at| {
                    rustix::io::pwrite(&shared.fd, &bytes[at..], offset + at as u64)
                }),
                Op::Flush => rustix::fs::fdatasync(&shared.fd).map_err(failed),
            },
        };
        shared.ended(op, began_us);
        finish.finish(result, buffer);
    }
}

/// Goes on until `len` bytes were moved.
fn moved(len: usize, mut step: impl FnMut(usize) -> Result<usize, Errno>) -> Result<(), IoError> {
    let mut at = 0;
    while at < len {
        match step(at) {
            Ok(0) => return Err(IoError::Short),
            Ok(count) => at += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn last_error() -> IoError {
    let error = std::io::Error::last_os_error();
    error.raw_os_error().map_or(IoError::NOT_SUPPORTED, IoError::Failed)
}

fn failed(error: Errno) -> IoError {
    IoError::Failed(error.raw_os_error())
}

impl Shared {
    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Tells the drive that it need not keep a range; of a file, gives its blocks to the file system, which
    /// may tell the drive.
    fn discard(&self, range: &Range<u64>) -> Result<(), IoError> {
        let place = [range.start, range.end - range.start];
        if !self.is_block_device {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return rustix::fs::fallocate(&self.fd, how, place[0], place[1]).map_err(failed);
        }
        // SAFETY: the kernel reads two numbers from the address, which are there until it returns.
        match unsafe { libc::ioctl(self.fd(), BLKDISCARD, place.as_ptr()) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Says how long what is written stays.
    fn hint_life(&self, life: WriteLife) -> Result<(), IoError> {
        let hint: u64 = match life {
            WriteLife::Unsaid => 0,
            WriteLife::Short => 2,
            WriteLife::Medium => 3,
            WriteLife::Long => 4,
            WriteLife::Extreme => 5,
        };
        // SAFETY: the kernel reads a number from the address, which is there until it returns.
        match unsafe { libc::fcntl(self.fd(), F_SET_RW_HINT, &raw const hint) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Takes note of an operation that begins; when, for [`Shared::ended`].
    pub(super) fn began(&self, op: Op) -> u64 {
        let now_us = self.now_us();
        if op == Op::Read {
            self.reads.fetch_add(1, Relaxed);
        }
        if self.all.fetch_add(1, Relaxed) == 0 {
            self.progress_us.store(now_us, Relaxed);
        }
        now_us
    }

    pub(super) fn ended(&self, op: Op, began_us: u64) {
        let now_us = self.now_us();
        if op == Op::Read {
            self.reads.give_back(1, Relaxed);
            self.reads_ended.fetch_add(1, Relaxed);
            self.reads_us.fetch_add(now_us.saturating_sub(began_us), Relaxed);
        }
        self.all.give_back(1, Relaxed);
        self.progress_us.store(now_us, Relaxed);
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Device for FileDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_block_device(&self) -> bool {
        self.shared.is_block_device
    }

    fn hint_life(&self, life: WriteLife) {
        if let Err(error) = self.shared.hint_life(life) {
            tracing::debug!(path = %self.path.display(), %error, "no word of how long writes live");
        }
    }

    fn discard(&self, range: Range<u64>) -> Completion {
        let (completion, finish) = Completion::new();
        if !self.is_closed.load(Relaxed) {
            // Where nobody takes it, it ends as on a device that is closed.
            let _ = self.discards().send(Discard { range, finish });
        }
        completion
    }

    fn submit(&self, io: Io) -> Completion {
        let (completion, finish) = Completion::new();
        let Io { op, offset, len, buffer } = io;
        if self.is_closed.load(Relaxed) {
            finish.finish(Err(IoError::Closed), buffer);
        } else if let Some(ring) = Ring::current() {
            ring.push(&self.shared, (op, offset, len), buffer, finish);
        } else {
            let began_us = self.shared.began(op);
            let task = Task { op, offset, len, buffer, finish, began_us };
            if let Err(refused) = self.pool().send(task) {
                self.shared.ended(op, began_us);
                drop(refused);
            }
        }
        completion
    }

    fn wait(&self, completion: Completion, limit: Duration) -> Outcome {
        match Ring::current() {
            Some(ring) => ring.wait(completion, limit),
            None => completion.wait(limit),
        }
    }

    fn reads_in_flight(&self) -> usize {
        self.shared.reads.load(Relaxed)
    }

    fn stalled(&self) -> Duration {
        if self.shared.all.load(Relaxed) == 0 {
            return Duration::ZERO;
        }
        let since = self.shared.now_us().saturating_sub(self.shared.progress_us.load(Relaxed));
        Duration::from_micros(since)
    }

    fn read_times(&self) -> ReadTimes {
        ReadTimes {
            count: self.shared.reads_ended.load(Relaxed),
            total_us: self.shared.reads_us.load(Relaxed),
        }
    }

    fn share(&self) {
        let _ = rustix::fs::flock(&self.shared.fd, FlockOperation::Unlock);
    }

    /// Has the file system keep blocks for the first `bytes`, which may be holes, so that writes there
    /// do not fail where something else takes all its space. What is there stays. A device, a file
    /// system without such a call, and one with less left than that may need are left as they are: the kernel
    /// hands out all there is before it says that it is not enough.
    fn reserve_blocks(&self, bytes: u64) {
        let fd = &self.shared.fd;
        let (Ok(stat), Ok(space)) = (rustix::fs::fstat(fd), rustix::fs::fstatvfs(fd)) else {
            return;
        };
        let there = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES);
        let holes = u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(there);
        if free_bytes(&space) >= holes.min(bytes) {
            let _ = rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, bytes);
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Relaxed);
        // Who still reads keeps the descriptor, not the right to the device.
        self.share();
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    fn round_trip(device: &dyn Device) {
        let mut block = Block::new(1 << 20);
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        let expected = Block::from_bytes(&block);
        device.write(1 << 20, block).expect("the file can be written");
        device.flush().expect("the file can be flushed");
        let read = device.read(1 << 20, 1 << 20).expect("the file can be read");
        assert!(*read == *expected);
        assert_eq!(device.read(7 << 20, 2 << 20).err(), Some(IoError::Short), "beyond the end");
        assert_eq!((device.reads_in_flight(), device.stalled()), (0, Duration::ZERO));
        device.close();
        assert_eq!(device.read(0, 4096).err(), Some(IoError::Closed));
    }

    #[test]
    fn bytes_come_back_through_threads_and_through_a_ring() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        round_trip(&FileDevice::create(&path, 8 << 20).expect("a file"));
        thread::spawn(move || {
            if Ring::install().is_ok() {
                round_trip(&FileDevice::open(&path).expect("the file"));
            }
        })
        .join()
        .expect("the ring works");
    }

    /// The kernel ends a write where the longest file ends, and says why to who goes on behind it. Where
    /// half of a write meets a bad place it does the same: that is no want of space.
    #[test]
    fn a_write_that_is_cut_short_ends_as_its_rest_does() {
        const FILE_BYTES_MAX: u64 = 1 << 40;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel reads and writes two numbers at the address, which are there until it returns.
        // Nothing else in this process has a file of that length, or waits for this signal.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit), 0);
            limit.rlim_cur = FILE_BYTES_MAX;
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_owned();
        let cut_short = |path: &Path| {
            let device = FileDevice::open(path).expect("the file");
            let device: &dyn Device = &device;
            device.write(FILE_BYTES_MAX - BLOCK_BYTES, Block::new(2 * BLOCK_BYTES as usize))
        };
        let too_long = Err(IoError::Failed(libc::EFBIG));
        assert_eq!(cut_short(&path), too_long, "through threads");
        thread::spawn(move || {
            if Ring::install().is_ok() {
                assert_eq!(cut_short(&path), too_long, "through a ring");
            }
        })
        .join()
        .expect("the ring works");
    }

    #[test]
    fn the_kernel_knows_how_long_writes_live() {
        const F_GET_RW_HINT: libc::c_int = 1035;

        let file = tempfile::NamedTempFile::new().expect("a file");
        let device = FileDevice::open(file.path()).expect("the file");
        for (life, expected) in
            [(WriteLife::Long, 4), (WriteLife::Extreme, 5), (WriteLife::Unsaid, 0)]
        {
            device.hint_life(life);
            let mut hint = u64::MAX;
            // SAFETY: the kernel writes a number to the address, which is there until it returns.
            let got = unsafe { libc::fcntl(device.shared.fd(), F_GET_RW_HINT, &raw mut hint) };
            if got == 0 {
                assert_eq!(hint, expected, "{life:?}");
            }
        }
    }

    #[test]
    fn what_is_discarded_of_a_file_is_the_file_systems_again() {
        use std::os::unix::fs::MetadataExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let device = FileDevice::create(&path, 8 << 20).expect("a file");
        let device: &dyn Device = &device;
        assert!(!device.is_block_device());
        let mut block = Block::new(8 << 20);
        block.fill(7);
        device.write(0, block).expect("the file can be written");
        let blocks = || path.metadata().expect("what it has").blocks() * 512;
        assert_eq!(blocks(), 8 << 20);
        let done = device.discard(1 << 20..5 << 20).wait(Duration::from_secs(60));
        if done.result == Err(IoError::NOT_SUPPORTED) {
            return;
        }
        assert_eq!((done.result, blocks()), (Ok(()), 4 << 20));
        let read = device.read(0, 8 << 20).expect("the file can be read");
        let is_zero = |at: usize| (1 << 20..5 << 20).contains(&at);
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == if is_zero(at) { 0 } else { 7 }));
        device.close();
        let closed = device.discard(0..4096).wait(Duration::from_secs(60));
        assert_eq!(closed.result, Err(IoError::Closed));
    }

    #[test]
    fn holes_become_blocks_where_they_are_reserved() {
        use std::os::unix::fs::MetadataExt;

        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(8 << 20).expect("a file with holes");
        let blocks = || file.as_file().metadata().expect("what it has").blocks() * 512;
        assert_eq!(blocks(), 0);
        FileDevice::open(file.path()).expect("the file").reserve_blocks(1 << 20);
        assert_eq!(blocks(), 1 << 20);
    }

    #[test]
    fn one_at_a_time_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let first = FileDevice::create(&path, 8 << 20).expect("a file");
        assert_eq!(FileDevice::open(&path).err(), Some(IoError::Taken));
        drop(first);
        assert_eq!(FileDevice::open(&path).map(|device| device.bytes()), Ok(8 << 20));
        assert!(FileDevice::open(folder.path()).is_err());
    }
}
