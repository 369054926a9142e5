//! A drive that keeps nothing of zeroes: one of gigabytes fits into memory where bodies are zeroes, and
//! what describes them is all that is there.

use crate::limits::BLOCK_BYTES;
use freshet_device::ReadTimes;
use freshet_device::block::Buffer;
use freshet_device::{Completion, Device, Io, IoError, Op, Outcome};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Trailing zeroes are looked for in steps of this.
const STEP: usize = 64;

/// What an operation of a drive takes, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub(crate) read: Duration,
    pub(crate) read_bytes_per_second: f64,
    pub(crate) write: Duration,
    pub(crate) write_bytes_per_second: f64,
    pub(crate) flush: Duration,
}

/// About what data sheets say of 4 TB of QLC behind four lanes of PCIe 4, with a queue of one.
pub(crate) const DENSE: Speed = Speed {
    read: Duration::from_micros(100),
    read_bytes_per_second: 7e9,
    write: Duration::from_micros(30),
    write_bytes_per_second: 2e9,
    flush: Duration::from_micros(500),
};

/// The drive.
#[derive(Debug)]
pub(crate) struct HollowDrive {
    bytes: u64,
    speed: Speed,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that are not all zeroes, each up to its last 64 bytes that are not.
    blocks: HashMap<u64, Box<[u8]>>,
    written_bytes: u64,
    /// What all operations so far took.
    busy: Duration,
    watch: Watch,
}

/// What is waited for: that something is written to a range, and flushed.
#[derive(Debug, Default)]
enum Watch {
    #[default]
    Nothing,
    Write(Range<u64>),
    Flush,
    /// How long the drive had been busy then.
    Seen(Duration),
}

impl HollowDrive {
    pub(crate) fn new(bytes: u64, speed: Speed) -> Self {
        Self { bytes, speed, state: Mutex::default() }
    }

    /// Bytes that were written, whatever they were.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.lock().written_bytes
    }

    /// How long the drive was busy so far.
    pub(crate) fn busy(&self) -> Duration {
        self.lock().busy
    }

    /// Waits from now on until something was written to a range, and flushed.
    pub(crate) fn watch(&self, range: Range<u64>) {
        self.lock().watch = Watch::Write(range);
    }

    /// How long the drive had been busy when that had come.
    pub(crate) fn watched(&self) -> Option<Duration> {
        match self.lock().watch {
            Watch::Seen(busy) => Some(busy),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, io: &mut Io) -> Result<(), IoError> {
        let Io { op, offset, len, buffer } = io;
        let mut state = self.lock();
        let seconds = |per_second: f64| Duration::from_secs_f64(*len as f64 / per_second);
        let speed = self.speed;
        state.busy += match op {
            Op::Read => speed.read + seconds(speed.read_bytes_per_second),
            Op::Write => speed.write + seconds(speed.write_bytes_per_second),
            Op::Flush => speed.flush,
        };
        match &state.watch {
            Watch::Write(range) if *op == Op::Write && range.contains(offset) => {
                state.watch = Watch::Flush;
            }
            Watch::Flush if *op == Op::Flush => state.watch = Watch::Seen(state.busy),
            _ => {}
        }
        if *op == Op::Flush {
            return Ok(());
        }
        assert!(*offset + *len as u64 <= self.bytes && offset.is_multiple_of(BLOCK_BYTES));
        let bytes = buffer.bytes_mut().get_mut(..*len).ok_or(IoError::Short)?;
        let numbered = bytes.chunks_mut(BLOCK).zip(*offset / BLOCK_BYTES..);
        if *op == Op::Read {
            numbered.for_each(|(block, number)| state.read(number, block));
        } else {
            state.written_bytes += *len as u64;
            numbered.for_each(|(block, number)| state.write(number, block));
        }
        Ok(())
    }
}

impl State {
    fn read(&self, number: u64, block: &mut [u8]) {
        let kept = self.blocks.get(&number).map_or(&[][..], |kept| kept);
        let (filled, rest) = block.split_at_mut(kept.len());
        filled.copy_from_slice(kept);
        rest.fill(0);
    }

    fn write(&mut self, number: u64, block: &[u8]) {
        let zeroes = block.rchunks(STEP).take_while(|step| **step == [0; STEP]).count();
        match &block[..block.len() - zeroes * STEP] {
            [] => drop(self.blocks.remove(&number)),
            kept => drop(self.blocks.insert(number, kept.into())),
        }
    }
}

impl Device for HollowDrive {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends at once: what it takes is counted.
    fn submit(&self, mut io: Io) -> Completion {
        let (completion, finish) = Completion::new();
        let result = self.carry_out(&mut io);
        finish.finish(result, io.buffer);
        completion
    }

    fn wait(&self, completion: Completion, _limit: Duration) -> Outcome {
        completion
            .take()
            .unwrap_or(Outcome { result: Err(IoError::TimedOut), buffer: Buffer::None })
    }

    fn reads_in_flight(&self) -> usize {
        0
    }

    fn stalled(&self) -> Duration {
        Duration::ZERO
    }

    fn read_times(&self) -> ReadTimes {
        ReadTimes::default()
    }

    fn close(&self) {}
}
