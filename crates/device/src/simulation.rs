//! A device of memory with the faults of a drive, all from one seed.
//!
//! It keeps what was flushed apart from what was only written. A crash keeps an arbitrary part of
//! the unflushed writes, in an arbitrary order, some of them torn at a sector. The same seed and
//! the same calls give the same faults, so every failure found can be replayed.

use super::block::{Block, Buffer};
use super::device::{Completion, Device, Finish, Io, IoError, Op, Outcome, ReadTimes};
use freshet_base::splitmix::{mixed, next};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a drive writes at once or not at all.
const SECTOR_BYTES: usize = 512;

/// How often what goes wrong, in 65,536ths of all operations of its kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Faults {
    /// Reads that fail.
    pub read_errors: u16,
    /// Writes that fail; the sectors may have changed or not.
    pub write_errors: u16,
    /// Reads and writes that move fewer bytes than asked.
    pub short: u16,
    /// Operations that never end.
    pub hangs: u16,
    /// Reads that return a flipped bit, as a bad cable would.
    pub flips: u16,
    /// Writes that are confirmed and lost.
    pub lost_writes: u16,
    /// Writes that are confirmed and land elsewhere.
    pub misdirected_writes: u16,
    /// Reads that return what is elsewhere.
    pub misdirected_reads: u16,
    /// Reads that return what was there before it was last written.
    pub stale_reads: u16,
    /// Reads of which two sectors have changed places.
    pub swapped_sectors: u16,
}

/// A simulated drive.
#[derive(Debug)]
pub struct SimulatedDevice {
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: u64,
    faults: Faults,
    /// What reads see.
    now: Vec<u8>,
    /// What each byte was before it was last written.
    before: Vec<u8>,
    /// Old contents of what was written since the last flush, in order.
    unflushed: Vec<(usize, Vec<u8>)>,
    /// Operations until the power goes.
    until_cut: Option<u64>,
    is_closed: bool,
    bad: Vec<Range<u64>>,
    /// Where there is no space for writes.
    no_space: Option<Range<u64>>,
    hung: Vec<Finish>,
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
    knows_no_discards: bool,
    /// What was discarded, each with how many writes were not flushed then.
    discards: Vec<(Range<u64>, usize)>,
    /// How long a read takes, as far as is said of it.
    read_time: Duration,
    stalled: Duration,
    read_times: ReadTimes,
}

impl State {
    fn random(&mut self) -> u64 {
        next(&mut self.random)
    }

    fn happens(&mut self, per_65536: u16) -> bool {
        per_65536 > 0 && self.random() & 0xffff < u64::from(per_65536)
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.random() % end as u64) as usize }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if self.put(offset, bytes) {
            self.bytes_written += bytes.len() as u64;
        }
    }

    /// Changes what reads see, until a power cut maybe; whether there is such a place.
    fn put(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let range = offset..offset + bytes.len();
        let (Some(place), Some(before)) =
            (self.now.get_mut(range.clone()), self.before.get_mut(range))
        else {
            return false;
        };
        before.copy_from_slice(place);
        self.unflushed.push((offset, place.to_vec()));
        place.copy_from_slice(bytes);
        true
    }

    /// Where on the drive `len` bytes are that somebody takes for those at `offset`.
    fn elsewhere(&mut self, offset: usize, len: usize) -> usize {
        let places = self.now.len().saturating_sub(len) / SECTOR_BYTES;
        match self.below(places + 1) * SECTOR_BYTES {
            other if other == offset => 0,
            other => other,
        }
    }

    /// The bytes that a read is given, which are not those that it asked for where the drive lies.
    fn given(&mut self, offset: usize, len: usize) -> Option<Vec<u8>> {
        let at = match self.happens(self.faults.misdirected_reads) {
            true => self.elsewhere(offset, len),
            false => offset,
        };
        let is_stale = self.happens(self.faults.stale_reads);
        let from = if is_stale { &self.before } else { &self.now };
        let mut bytes = from.get(at..at + len)?.to_vec();
        if self.happens(self.faults.swapped_sectors) {
            let sectors = len / SECTOR_BYTES;
            let (one, other) = (self.below(sectors), self.below(sectors));
            for byte in 0..if sectors > 0 { SECTOR_BYTES } else { 0 } {
                bytes.swap(one * SECTOR_BYTES + byte, other * SECTOR_BYTES + byte);
            }
        }
        Some(bytes)
    }
}

impl SimulatedDevice {
    /// A drive of `bytes` zeroes that fails as `seed` says.
    pub fn new(bytes: u64, seed: u64, faults: Faults) -> Self {
        let len = usize::try_from(bytes).unwrap_or(0);
        let state = State {
            random: mixed(seed),
            faults,
            now: vec![0; len],
            before: vec![0; len],
            unflushed: Vec::new(),
            until_cut: None,
            is_closed: false,
            bad: Vec::new(),
            no_space: None,
            hung: Vec::new(),
            operations: 0,
            bytes_read: 0,
            bytes_written: 0,
            knows_no_discards: false,
            discards: Vec::new(),
            read_time: Duration::ZERO,
            stalled: Duration::ZERO,
            read_times: ReadTimes::default(),
        };
        Self { bytes, state: Mutex::new(state) }
    }

    /// Makes it usable again that was closed, as a file that is opened anew.
    pub fn connect(&self) {
        self.lock().is_closed = false;
    }

    /// Sets how often things go wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Lets the power go after so many more operations.
    pub fn cut_after(&self, operations: u64) {
        self.lock().until_cut = Some(operations);
    }

    /// Cuts the power: of the unflushed writes an arbitrary part survives, maybe torn. The device
    /// can be used again, as after a restart.
    pub fn power_cut(&self) {
        let mut state = self.lock();
        // Newest first, each undone wholly, from some sector on, or not at all.
        let writes = std::mem::take(&mut state.unflushed);
        for (offset, old) in writes.into_iter().rev() {
            let choice = state.random() % 4;
            let sectors = old.len() / SECTOR_BYTES;
            let lost = match choice {
                0 => 0..old.len(),
                1 => state.below(sectors + 1) * SECTOR_BYTES..old.len(),
                2 => 0..state.below(sectors + 1) * SECTOR_BYTES,
                _ => 0..0,
            };
            if let (Some(place), Some(old)) =
                (state.now.get_mut(offset + lost.start..offset + lost.end), old.get(lost))
            {
                place.copy_from_slice(old);
            }
        }
        state.reopen();
    }

    /// Ends the process but not the power: everything written stays.
    pub fn process_end(&self) {
        let mut state = self.lock();
        state.unflushed.clear();
        state.reopen();
    }

    /// Flips one bit on the medium, within `range` of the device; returns where.
    pub fn flip_bit(&self, range: Range<u64>) -> u64 {
        let mut state = self.lock();
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
        let at = range.start as usize + state.below(len);
        let bit = state.random() % 8;
        if let Some(byte) = state.now.get_mut(at) {
            *byte ^= 1 << bit;
        }
        at as u64
    }

    /// Sets how long reads take from now on. They end at once here, and say that they took this long.
    pub fn set_read_time(&self, time: Duration) {
        self.lock().read_time = time;
    }

    /// Sets for how long it seems to have finished nothing though it had work, from now on.
    pub fn set_stalled(&self, time: Duration) {
        self.lock().stalled = time;
    }

    /// Makes a range unreadable.
    pub fn set_bad(&self, range: Range<u64>) {
        self.lock().bad.push(range);
    }

    /// Lets writes to a range fail for want of space, or no writes.
    pub fn set_no_space(&self, range: Option<Range<u64>>) {
        self.lock().no_space = range;
    }

    /// Makes everything readable again.
    pub fn repair(&self) {
        self.lock().bad.clear();
    }

    /// Bytes read and written so far.
    pub fn moved(&self) -> (u64, u64) {
        let state = self.lock();
        (state.bytes_read, state.bytes_written)
    }

    /// The first `bytes` of the device as a device of its own, as when its end is cut off.
    pub fn prefix(&self, bytes: u64) -> Self {
        let cut = Self::new(bytes, 1, Faults::default());
        let len = usize::try_from(bytes).unwrap_or(0);
        cut.lock().now = self.lock().now.get(..len).map(<[u8]>::to_vec).unwrap_or_default();
        cut
    }

    /// Sets whether it can be told what it need not keep, as at first.
    pub fn set_knows_discards(&self, knows: bool) {
        self.lock().knows_no_discards = !knows;
    }

    /// What was discarded so far, each with how many writes were not flushed then.
    pub fn discards(&self) -> Vec<(Range<u64>, usize)> {
        self.lock().discards.clone()
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reopen(&mut self) {
        self.until_cut = None;
        self.is_closed = false;
        self.hung.clear();
    }

    /// Counts an operation, which the power may not outlast.
    fn begin(&mut self) -> Result<(), IoError> {
        self.operations += 1;
        match &mut self.until_cut {
            Some(0) => self.is_closed = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if self.is_closed { Err(IoError::Closed) } else { Ok(()) }
    }

    fn carry_out(&mut self, io: &mut Io) -> Result<(), IoError> {
        const EIO: i32 = 5;
        self.begin()?;
        let offset = usize::try_from(io.offset).map_err(|_| IoError::Failed(EIO))?;
        let range = io.offset..io.offset + io.len as u64;
        let overlaps = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        match io.op {
            Op::Flush => self.unflushed.clear(),
            Op::Read => {
                if self.bad.iter().any(overlaps) || self.happens(self.faults.read_errors) {
                    return Err(IoError::Failed(EIO));
                }
                self.bytes_read += io.len as u64;
                self.read_times.count += 1;
                self.read_times.total_us += self.read_time.as_micros() as u64;
                let is_short = self.happens(self.faults.short);
                let flips = self.happens(self.faults.flips);
                let len = if is_short { self.below(io.len) } else { io.len };
                let Some(from) = self.given(offset, len) else {
                    return Err(IoError::Short);
                };
                let Some(to) = io.buffer.bytes_mut().get_mut(..len) else {
                    return Err(IoError::Short);
                };
                to.copy_from_slice(&from);
                if flips && len > 0 {
                    let at = self.below(len);
                    let bit = self.random() % 8;
                    if let Some(byte) = io.buffer.bytes_mut().get_mut(at) {
                        *byte ^= 1 << bit;
                    }
                }
                if is_short {
                    return Err(IoError::Short);
                }
            }
            Op::Write => {
                let (fails, lost) =
                    (self.happens(self.faults.write_errors), self.happens(self.faults.lost_writes));
                let is_misdirected = self.happens(self.faults.misdirected_writes);
                let is_short = self.happens(self.faults.short);
                let whole = io.len / SECTOR_BYTES;
                let sectors = if fails || is_short { self.below(whole + 1) } else { whole };
                let len = sectors * SECTOR_BYTES;
                if offset + io.len > self.now.len() || self.no_space.as_ref().is_some_and(overlaps)
                {
                    return Err(IoError::Failed(28));
                }
                if !lost && let Some(bytes) = io.buffer.bytes_mut().get(..len) {
                    let bytes = bytes.to_vec();
                    let at = if is_misdirected { self.elsewhere(offset, len) } else { offset };
                    self.write(at, &bytes);
                }
                if fails {
                    return Err(IoError::Failed(EIO));
                }
                if is_short {
                    return Err(IoError::Short);
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// Each sector reads as zeroes from now on, or as it did.
    fn discard(&mut self, range: Range<u64>) -> Result<(), IoError> {
        self.begin()?;
        if self.knows_no_discards {
            return Err(IoError::NOT_SUPPORTED);
        }
        self.discards.push((range.clone(), self.unflushed.len()));
        // Neighbours go together, as a rule.
        let mut goes = 0;
        for sector in range.step_by(SECTOR_BYTES) {
            if sector.is_multiple_of(64 * SECTOR_BYTES as u64) {
                goes = self.random();
            }
            if goes & 3 == 0 || (goes & 3 == 1 && self.random() & 1 == 0) {
                self.put(sector as usize, &[0; SECTOR_BYTES]);
            }
        }
        Ok(())
    }
}

impl Device for SimulatedDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends at once.
    fn discard(&self, range: Range<u64>) -> Completion {
        let (completion, finish) = Completion::new();
        let result = self.lock().discard(range);
        finish.finish(result, Buffer::None);
        completion
    }

    fn submit(&self, mut io: Io) -> Completion {
        let (completion, finish) = Completion::new();
        let mut state = self.lock();
        let hangs = state.faults.hangs;
        if state.happens(hangs) {
            state.hung.push(finish);
            return completion;
        }
        let result = state.carry_out(&mut io);
        drop(state);
        finish.finish(result, std::mem::take(&mut io.buffer));
        completion
    }

    /// Time does not pass here: what has not ended has hung.
    fn wait(&self, completion: Completion, _limit: Duration) -> Outcome {
        completion
            .take()
            .unwrap_or(Outcome { result: Err(IoError::TimedOut), buffer: Buffer::None })
    }

    fn reads_in_flight(&self) -> usize {
        0
    }

    fn stalled(&self) -> Duration {
        self.lock().stalled
    }

    fn read_times(&self) -> ReadTimes {
        self.lock().read_times
    }

    fn probe(&self, offset: u64, len: usize, limit: Duration) -> Result<Duration, IoError> {
        let buffer = Buffer::Block(Block::new(len));
        let done = self.submit(Io { op: Op::Read, offset, len, buffer });
        self.wait(done, limit).result?;
        let took = self.lock().read_time;
        if took > limit { Err(IoError::TimedOut) } else { Ok(took) }
    }

    fn close(&self) {
        self.lock().is_closed = true;
    }
}
