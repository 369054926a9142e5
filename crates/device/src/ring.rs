//! One io_uring for a thread: reads and writes of all disks, told to the kernel together.
//!
//! A thread that has one ([`Ring::install`]) uses it for every [`super::file::FileDevice`]; who
//! has none is served by threads. What the kernel may still write to belongs to the ring until the
//! kernel is done with it.

use super::block::Buffer;
use super::device::{Completion, Finish, IoError, Op, Outcome};
use super::file::Shared;
use super::limits::{READ_BATCH, RING_ENTRIES};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

thread_local! {
    static RING: RefCell<Option<Rc<Ring>>> = const { RefCell::new(None) };
}

/// The ring of a thread.
pub struct Ring {
    uring: RefCell<IoUring>,
    /// What the kernel works on, by number.
    work: RefCell<Vec<Option<Work>>>,
    free: RefCell<Vec<usize>>,
    /// In the submission queue, not known to the kernel.
    queued: Cell<usize>,
    /// With the kernel.
    in_kernel: Cell<usize>,
    /// Told when something is queued.
    waker: RefCell<Option<Waker>>,
    enters: Cell<u64>,
    ended: Cell<u64>,
}

struct Work {
    finish: Finish,
    buffer: Buffer,
    op: Op,
    offset: u64,
    len: usize,
    /// Bytes of it that were moved: the kernel may do some at a time.
    moved: usize,
    device: Arc<Shared>,
    began_us: u64,
}

impl Ring {
    /// Gives this thread a ring, or returns the one it has.
    ///
    /// # Errors
    /// The kernel has none to give: disks are served by threads then.
    pub fn install() -> std::io::Result<Rc<Self>> {
        if let Some(ring) = Self::current() {
            return Ok(ring);
        }
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_clamp()
            .build(RING_ENTRIES)
            .or_else(|_| IoUring::new(RING_ENTRIES))?;
        let ring = Rc::new(Self {
            uring: RefCell::new(uring),
            work: RefCell::default(),
            free: RefCell::default(),
            queued: Cell::new(0),
            in_kernel: Cell::new(0),
            waker: RefCell::default(),
            enters: Cell::new(0),
            ended: Cell::new(0),
        });
        RING.with(|slot| *slot.borrow_mut() = Some(Rc::clone(&ring)));
        Ok(ring)
    }

    /// The ring of this thread.
    pub fn current() -> Option<Rc<Self>> {
        RING.with(|slot| slot.borrow().clone())
    }

    /// A descriptor that becomes readable when something has ended.
    ///
    /// # Errors
    /// The process has too many.
    pub fn readable(&self) -> std::io::Result<OwnedFd> {
        let uring = self.uring.borrow();
        // SAFETY: the ring's descriptor is open as long as the ring is, which outlives this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(uring.as_raw_fd()) };
        Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
    }

    /// Whom to wake when something is queued.
    pub fn set_waker(&self, waker: &Waker) {
        let mut slot = self.waker.borrow_mut();
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    /// System calls made, and operations that have ended.
    pub fn counts(&self) -> (u64, u64) {
        (self.enters.get(), self.ended.get())
    }

    /// Operations not known to the kernel yet.
    pub fn queued(&self) -> usize {
        self.queued.get()
    }

    /// Tells the kernel what is queued, where that is due: at once while little is under way, and
    /// several at a time while much is.
    pub fn submit_due(&self) {
        let (queued, in_kernel) = (self.queued.get(), self.in_kernel.get());
        if queued > 0 && (in_kernel < READ_BATCH || queued >= READ_BATCH.min(in_kernel * 3 / 4)) {
            self.submit();
        }
    }

    /// Tells the kernel all that is queued.
    pub fn submit(&self) {
        if self.queued.get() == 0 {
            return;
        }
        self.enters.set(self.enters.get() + 1);
        // Where the kernel is too busy to take more, it is asked again at the next turn.
        if let Ok(taken) = self.uring.borrow().submit() {
            self.took(taken);
        }
    }

    /// Takes note of what has ended; how many did.
    pub fn reap(&self) -> usize {
        let mut count = 0;
        loop {
            let next = self.uring.borrow_mut().completion().next();
            let Some(entry) = next else { break };
            let number = entry.user_data() as usize;
            let work = self.work.borrow_mut().get_mut(number).and_then(Option::take);
            let Some(mut work) = work else { continue };
            self.in_kernel.set(self.in_kernel.get().saturating_sub(1));
            let result = match usize::try_from(entry.result()) {
                Ok(0) if work.moved < work.len => Err(IoError::Short),
                Ok(moved) => {
                    work.moved += moved;
                    if work.moved < work.len {
                        // What cut it short is told of the rest (write(2)).
                        self.queue(number, work);
                        continue;
                    }
                    Ok(())
                }
                Err(_) => Err(IoError::Failed(-entry.result())),
            };
            self.free.borrow_mut().push(number);
            self.ended.set(self.ended.get() + 1);
            count += 1;
            work.device.ended(work.op, work.began_us);
            work.finish.finish(result, work.buffer);
        }
        count
    }

    /// Waits until `completion` has its outcome, and takes note of all else that ends meanwhile.
    pub fn wait(&self, completion: Completion, limit: Duration) -> Outcome {
        let until = Instant::now() + limit;
        loop {
            self.reap();
            if let Some(outcome) = completion.take() {
                return outcome;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Outcome { result: Err(IoError::TimedOut), buffer: Buffer::None };
            }
            self.wait_for(1, left);
        }
    }

    /// Tells the kernel what is queued and waits until `count` operations have ended, at most
    /// `limit`.
    pub fn wait_for(&self, count: usize, limit: Duration) {
        let limit = Timespec::from(limit);
        self.enters.set(self.enters.get() + 1);
        let arguments = SubmitArgs::new().timespec(&limit);
        let submitted = self.uring.borrow().submitter().submit_with_args(count, &arguments);
        match submitted {
            Ok(count) => self.took(count),
            // Out of time; what was queued may have been taken all the same.
            Err(_) => {
                let left = self.uring.borrow_mut().submission().len();
                self.took(self.queued.get().saturating_sub(left));
            }
        }
    }

    fn took(&self, count: usize) {
        self.queued.set(self.queued.get().saturating_sub(count));
        self.in_kernel.set(self.in_kernel.get() + count);
    }

    /// Queues an operation of a file.
    pub(super) fn push(
        &self,
        device: &Arc<Shared>,
        (op, offset, len): (Op, u64, usize),
        mut buffer: Buffer,
        finish: Finish,
    ) {
        if buffer.bytes_mut().len() < len || u32::try_from(len).is_err() {
            finish.finish(Err(IoError::Short), buffer);
            return;
        }
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut work = self.work.borrow_mut();
            work.push(None);
            work.len() - 1
        });
        let (device, began_us) = (Arc::clone(device), device.began(op));
        self.queue(number, Work { finish, buffer, op, offset, len, moved: 0, device, began_us });
    }

    /// Queues what of an operation was not moved yet.
    fn queue(&self, number: usize, mut work: Work) {
        let fd = Fd(work.device.fd());
        let offset = work.offset + work.moved as u64;
        let rest = work.buffer.bytes_mut().get_mut(work.moved..work.len).unwrap_or_default();
        let (pointer, bytes) = (rest.as_mut_ptr(), rest.len() as u32);
        let entry = match work.op {
            Op::Read => opcode::Read::new(fd, pointer, bytes).offset(offset).build(),
            Op::Write => opcode::Write::new(fd, pointer, bytes).offset(offset).build(),
            Op::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        };
        if let Some(slot) = self.work.borrow_mut().get_mut(number) {
            *slot = Some(work);
        }
        let entry: squeue::Entry = entry.user_data(number as u64);
        // SAFETY: the buffer belongs to `work` until the kernel has reported the end of this
        // operation, and is neither moved nor touched before; moving the `Buffer` does not move
        // what it points to. The file stays open as `work.device` lives.
        while unsafe { self.uring.borrow_mut().submission().push(&entry) }.is_err() {
            self.submit();
        }
        self.queued.set(self.queued.get() + 1);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Ring {
    /// The kernel may still write to buffers: it is waited for, and what never ends is leaked.
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.in_kernel.get() + self.queued.get() > 0 && Instant::now() < until {
            self.wait_for(1, Duration::from_millis(50));
            self.reap();
        }
        for work in self.work.get_mut().drain(..).flatten() {
            let Work { buffer, finish, .. } = work;
            std::mem::forget(buffer);
            drop(finish);
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("queued", &self.queued)
            .field("in_kernel", &self.in_kernel)
            .finish_non_exhaustive()
    }
}
