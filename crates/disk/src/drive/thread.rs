//! A disk's thread: it opens the disk, writes what waits, and comes back when the disk has failed.

use super::Disk;
use super::queue::Job;
use super::waiting::pass;
use crate::erase::Order;
use crate::error::DiskError;
use crate::health::{Health, Space, Watch, is_fatal, try_out};
use crate::intake::object_of;
use crate::limits::{CHECKPOINT_EVERY, FLUSH_EVERY, QUEUE_BYTES_MAX, WRITE_DELAY};
use crate::pace::Pace;
use crate::recovery::{self, Opened};
use crate::renewal::{Renewal, Renewals};
use crate::set::unopened;
use crate::superblock::Superblock;
use crate::volume::Volume;
use crate::writer::Writer;
use freshet_base::clock::monotonic;
use freshet_device::IoError;
use freshet_device::block::Buffer;
use freshet_device::place;
use freshet_store::Standing;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long the thread waits before it looks after a disk it could not open, at first and at most:
/// a disk that works again is back within twice the latter.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// How often a disk is tried that another process has: it is about to let go of it.
const RETRY_TAKEN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// How long a disk has to be used before it is looked after as often as at first when it fails
/// again: one that fails once it is used does not come and go all the time.
const RETRY_FORGOTTEN: Duration = Duration::from_secs(60);
/// Why a disk is not opened yet when a node is upgraded.
const TAKEN: &str = "another process has it";
/// How often the thread looks around while nothing comes.
const TICK: Duration = Duration::from_millis(100);

/// Why the thread stopped writing.
enum Left {
    Stopped,
    /// Another process takes it over.
    Released,
    Failed(String),
}

impl Disk {
    /// Serves the disk until the node stops. On a thread of its own, where it is never pending.
    pub(crate) async fn run(self: Arc<Self>, first: Option<Opened>) {
        let mut opened = first;
        let mut retry = RETRY_FIRST;
        let mut pace = Pace::new();
        loop {
            let now = match opened.take() {
                Some(opened) => Ok(opened),
                None => self.open().and_then(|opened| self.trust(opened)),
            };
            match now {
                Ok(Opened { volume, mut writer, report, last_mark }) => {
                    let begun = monotonic();
                    tracing::info!(disk = %self.spec.path.display(), ?report, "opened");
                    if report.lost_purges {
                        tracing::warn!(
                            disk = %self.spec.path.display(),
                            "its journal of purges is not whole: what was on it is not served"
                        );
                    }
                    let left = self.serve(&volume, &mut writer, last_mark, &mut pace).await;
                    if matches!(left, Left::Released) {
                        tracing::info!(disk = %self.spec.path.display(), "left to the new process");
                        volume.device().share();
                        self.await_stop().await;
                    }
                    *self.volume.write().unwrap_or_else(PoisonError::into_inner) = None;
                    self.common.begin_generation();
                    volume.device().close();
                    if since(begun) > RETRY_FORGOTTEN {
                        retry = RETRY_FIRST;
                    }
                    match left {
                        Left::Stopped | Left::Released => {
                            return self.set_health(Health::Stopped);
                        }
                        Left::Failed(why) => {
                            self.counts.left.add(1);
                            self.set_health(Health::Offline(why));
                        }
                    }
                }
                Err(error) => self.set_health(Health::Offline(explain(&error))),
            }
            if self.is_released() {
                // It was not open here, so there is nothing to wait for.
                self.await_stop().await;
                return self.set_health(Health::Stopped);
            }
            // Another process is about to let go of it: it is waited for without a pause that grows.
            let is_taken = self.health() == Health::Offline(TAKEN.into());
            if self.rest(if is_taken { RETRY_TAKEN } else { retry }).await {
                return self.set_health(Health::Stopped);
            }
            if !is_taken {
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }

    /// Opens the device as it was left.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn open(&self) -> Result<Opened, DiskError> {
        let device = place::open(&self.spec.path).map_err(|error| unopened(&self.spec, error))?;
        let found = Superblock::read(&*device)?;
        let wanted = self.set.ok_or(DiskError::DeviceLate)?;
        if found.set != wanted {
            return Err(DiskError::DeviceOfOtherSet { found: found.set, wanted });
        }
        // Content may wait for space; a journal that cannot be written costs the disk.
        device.reserve_blocks(found.geometry.segment_at(0));
        let begun = monotonic();
        let opened = recovery::open(device.into(), self.common.clone())?;
        let took = u64::try_from(since(begun).as_millis()).unwrap_or(u64::MAX);
        self.counts.opened_ms.store(took, Relaxed);
        Ok(opened)
    }

    /// Makes sure that a disk which was left can be read, and not only opened.
    fn trust(&self, opened: Opened) -> Result<Opened, DiskError> {
        let left = self.counts.left.value();
        if left > 0 {
            try_out(&opened.volume, left)?;
        }
        Ok(opened)
    }

    /// Writes what comes, until told to stop or the disk fails.
    async fn serve(
        &self,
        volume: &Arc<Volume>,
        writer: &mut Writer,
        last_mark: u64,
        pace: &mut Pace,
    ) -> Left {
        writer.set_keeps(self.spec.keeps);
        volume.device().hint_life(self.spec.write_life);
        volume.set_discards(self.spec.discard.is_for(volume.device().is_block_device()));
        writer.set_budget(self.put_in_use(volume));
        self.counts.opened.add(1);
        // Purges that came between its opening and now.
        volume.catch_up(last_mark);
        let mut watch = Watch::new(volume, (self.levels.clone(), self.number), pace, monotonic());
        let mut space = Space::new();
        let mut renewals = Renewals::default();
        let (mut flushed, mut checkpointed, mut waiting_since) = (monotonic(), monotonic(), None);
        let mut erasing = Order::resume(writer);
        loop {
            let limit = if waiting_since.is_some() { WRITE_DELAY } else { TICK };
            let pause = erasing.as_ref().map_or(limit, |order| order.pause(monotonic()));
            let pause = if writer.goes_on() { Duration::ZERO } else { pause };
            let (job, has_purges) = self.next_job(limit.min(pause)).await;
            let is_idle = job.is_none();
            let result = match job {
                Some(job @ (Job::Stop | Job::Release)) => {
                    self.is_writable.store(false, Relaxed);
                    let written = write_all(writer, renewals.take());
                    if let Err(error) = written.and_then(|()| writer.stop()) {
                        tracing::warn!(disk = %self.spec.path.display(), %error, "not closed in order");
                    }
                    return match job {
                        Job::Stop => Left::Stopped,
                        _ => Left::Released,
                    };
                }
                Some(Job::Erase(asked, finish)) => Order::begin(writer, &asked).map(|order| {
                    finish.finish(Ok(()), Buffer::None);
                    erasing = Some(order);
                }),
                Some(job) => {
                    let bytes = job.new_bytes();
                    let result = if bytes.is_some() && space.is_short(monotonic()) {
                        self.counts.refused_busy.add(1);
                        Ok(())
                    } else {
                        self.carry_out(writer, &mut renewals, job).await
                    };
                    // It is charged before it is no longer what waits.
                    writer.charge(0);
                    self.leave(bytes.unwrap_or(0));
                    result
                }
                None => Ok(()),
            };
            let mut result = result.and_then(|()| if has_purges { writer.tend() } else { Ok(()) });
            if result.is_ok()
                && let Some(Renewal { object, description }) = renewals.next_due(monotonic())
            {
                result = writer.renew(object, description);
            }
            if result.is_ok()
                && let Some(order) = &mut erasing
            {
                match order.step(writer) {
                    Ok(true) => {}
                    Ok(false) => erasing = None,
                    Err(error) => result = Err(error),
                }
                writer.charge(0);
            }
            if result.is_ok() && is_idle {
                result = writer.go_on();
            }
            if writer.has_waiting() {
                let begun = *waiting_since.get_or_insert_with(monotonic);
                if result.is_ok()
                    && since(begun) >= WRITE_DELAY
                    && self.queued_bytes.load(Relaxed) == 0
                {
                    result = writer.drain();
                    waiting_since = None;
                }
            } else {
                waiting_since = None;
            }
            if result.is_ok() && since(flushed) >= FLUSH_EVERY {
                flushed = monotonic();
                result = writer.flush().and_then(|()| writer.tend());
            }
            if result.is_ok() && since(checkpointed) >= CHECKPOINT_EVERY {
                checkpointed = monotonic();
                result = writer.checkpoint_in_time();
            }
            space.note(&result, writer, monotonic());
            if let Err(error) = &result
                && is_fatal(error)
            {
                return Left::Failed(error.to_string());
            }
            match watch.look(monotonic()) {
                Health::Offline(why) => return Left::Failed(why),
                Health::Healthy if space.is_short(monotonic()) => self.set_health(Health::Full),
                health => {
                    let is_suspect = matches!(health, Health::Suspect(_));
                    volume.set_suspect(is_suspect.then(|| watch.hedge_after()));
                    self.set_health(health);
                }
            }
        }
    }

    /// Drops what comes until the node stops.
    async fn await_stop(&self) {
        loop {
            match self.next_job(TICK).await.0 {
                Some(Job::Stop) => return,
                Some(Job::Drain(finish)) => {
                    finish.finish(Err(IoError::Closed), Buffer::None);
                }
                _ => {}
            }
        }
    }

    async fn carry_out(
        &self,
        writer: &mut Writer,
        renewals: &mut Renewals,
        job: Job,
    ) -> Result<(), DiskError> {
        self.step_back(writer).await;
        match job {
            Job::Object { description, offered } => {
                let bytes = offered.body().total().unwrap_or(0);
                // Of many that were let in at once some may have been too many.
                if writer.is_purged(&description) || !self.has_share(description.share, bytes) {
                    return Ok(());
                }
                let generation = self.common.generation.load(Relaxed);
                let (number, kind) = writer.store(description, offered.body())?;
                offered.body().set_stored_number(number);
                offered.body().set_standing(Standing::Kept { generation, kind });
                Ok(())
            }
            Job::Chunk { of, object, number, chunk_bytes, len, block } => {
                let bytes = block.get(..len).unwrap_or(&[]);
                writer.store_chunk(of, object, number, chunk_bytes, &[bytes])
            }
            Job::Head { description, object, total, chunk_bytes, last: (block, len) } => {
                let bytes = block.get(..len).unwrap_or(&[]);
                writer.store_head(description, object, (total, chunk_bytes), &[bytes]).map(drop)
            }
            Job::Renewal { description, body } => {
                let object = object_of(body.stored_number(), description.key);
                let renewal = Renewal { object, description };
                let known = Some(renewal).filter(|_| body.stored_number() > 0);
                let now = known.and_then(|renewal| renewals.add(renewal, monotonic()));
                write_all(writer, now)
            }
            Job::Drain(finish) => {
                let result = write_all(writer, renewals.take())
                    .and_then(|()| writer.drain())
                    .and_then(|()| writer.flush());
                let result = result.map_err(|_| IoError::Closed);
                finish.finish(result, Buffer::None);
                Ok(())
            }
            Job::Erase(..) | Job::Release | Job::Stop => Ok(()),
        }
    }

    /// Lets reads pass while there is time.
    async fn step_back(&self, writer: &Writer) {
        let device = writer.volume().device();
        let mut left = 8;
        while left > 0
            && device.reads_in_flight() > 4
            && self.queued_bytes.load(Relaxed) < QUEUE_BYTES_MAX / 2
        {
            pass(Duration::from_millis(1)).await;
            left -= 1;
        }
    }

    /// Waits and drops what is offered meanwhile; true when told to stop.
    async fn rest(&self, span: Duration) -> bool {
        let until = monotonic() + span;
        loop {
            if self.drop_all() {
                return true;
            }
            let left = until.saturating_duration_since(monotonic());
            if left.is_zero() {
                return false;
            }
            self.wait_for_job(left).await;
        }
    }
}

/// How long ago that was.
fn since(begun: Instant) -> Duration {
    monotonic().saturating_duration_since(begun)
}

fn write_all(
    writer: &mut Writer,
    renewals: impl IntoIterator<Item = Renewal>,
) -> Result<(), DiskError> {
    let mut all = renewals.into_iter();
    all.try_for_each(|Renewal { object, description }| writer.renew(object, description))
}

fn explain(error: &DiskError) -> String {
    match error {
        DiskError::DeviceOpen(IoError::Taken) => TAKEN.into(),
        other => other.to_string(),
    }
}
