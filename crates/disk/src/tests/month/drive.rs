//! One drive of a node with its writer, and how long that stands.

use super::hollow::{DENSE, HollowDrive};
use super::traffic::{Plan, now_ms};
use crate::budget::{Budget, Use};
use crate::limits::{CHECKPOINT_EVERY, FLUSH_EVERY, WRITE_DELAY};
use crate::purges::Mark;
use crate::recovery::{self, Opened};
use crate::superblock::Uuid;
use crate::tests::world::{finish, key};
use crate::{Common, Description};
use freshet_device::Completion;
use freshet_store::Body;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What the drives are made for.
pub(super) const DRIVE_WRITES: f64 = 0.3;

/// An object that was written while the index grew.
pub(super) const BESIDE_GROWTH: &str = "object beside a longer index";

/// One drive with its writer.
pub(super) struct Drive {
    pub(super) device: Arc<HollowDrive>,
    pub(super) opened: Opened,
    budget: Arc<Budget>,
    flushed_ms: u64,
    checkpointed_ms: u64,
    appended_ms: u64,
    /// A purge that comes just before the writer takes the next object in hand.
    pub(super) next_purge: Option<Mark>,
    /// What the drive had been written with at each hour of the last day.
    hours: VecDeque<u64>,
    /// Longest time the drive took for one call of the writer, by what it was called for.
    pub(super) longest: BTreeMap<&'static str, Duration>,
}

impl Drive {
    pub(super) fn new(plan: &Plan, common: &Common) -> Self {
        let device = Arc::new(HollowDrive::new(plan.drive_bytes, DENSE));
        recovery::format(&*device, (Uuid([1; 16]), [2; 16]), plan.options, now_ms())
            .expect("the drive works");
        let opened = recovery::open(Arc::clone(&device) as _, common.clone());
        let opened = opened.expect("a formatted drive can be opened");
        let geometry = *opened.volume.geometry();
        let account = opened.volume.books().account;
        let mut this = Self {
            device,
            budget: Arc::new(Budget::new(&geometry, DRIVE_WRITES, account)),
            opened,
            flushed_ms: now_ms(),
            checkpointed_ms: now_ms(),
            appended_ms: now_ms(),
            next_purge: None,
            hours: VecDeque::new(),
            longest: BTreeMap::new(),
        };
        this.put_in_use();
        this
    }

    fn put_in_use(&mut self) {
        let volume = Arc::clone(&self.opened.volume);
        let account = volume.books().account;
        self.budget = Arc::new(Budget::new(volume.geometry(), DRIVE_WRITES, account));
        self.opened.writer.set_keeps(true);
        self.opened.writer.set_budget(Arc::clone(&self.budget));
    }

    /// The process ends, in order or not, and another one opens what is there.
    pub(super) fn reopen(&mut self, common: &Common, in_order: bool) {
        if in_order {
            self.opened.writer.stop().expect("the drive works");
        }
        let opened = recovery::open(Arc::clone(&self.device) as _, common.clone());
        self.opened = opened.expect("what was written can be opened");
        self.put_in_use();
    }

    /// Has something done, and notes how long the drive took for it.
    fn timed<T>(&mut self, what: &'static str, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.device.busy();
        let result = run(self);
        let took = self.device.busy() - before;
        let longest = self.longest.entry(what).or_default();
        *longest = took.max(*longest);
        result
    }

    /// What the loop of a disk does beside the jobs that come, as far as its time has come.
    pub(super) fn tend(&mut self) {
        let now = now_ms();
        let passed = |since: u64, span: Duration| now >= since + span.as_millis() as u64;
        if self.opened.writer.is_checkpointing() {
            let step = |this: &mut Self| this.opened.writer.step_checkpoint();
            self.timed("part of a checkpoint", step).expect("the drive works");
        }
        if self.opened.writer.has_waiting() && passed(self.appended_ms, WRITE_DELAY) {
            self.opened.writer.drain().expect("the drive works");
        }
        if passed(self.flushed_ms, FLUSH_EVERY) {
            self.flushed_ms = now;
            self.timed("flush", |this| {
                let writer = &mut this.opened.writer;
                writer.flush().and_then(|()| writer.tend()).expect("the drive works");
            });
        }
        if passed(self.checkpointed_ms, CHECKPOINT_EVERY) {
            self.checkpointed_ms = now;
            let begin = |this: &mut Self| this.opened.writer.checkpoint_in_time();
            self.timed("begin of a checkpoint", begin).expect("the drive works");
        }
        self.opened.writer.charge(0);
    }

    /// As a disk is asked whether it takes something, and takes it.
    pub(super) fn offer(&mut self, object: u64, shown: Use, body: &Arc<Body>) {
        let volume = &self.opened.volume;
        let bytes = body.total().unwrap_or(0);
        if !volume.common.tactic().admits(shown, volume.is_filling())
            || !self.budget.admits(now_ms(), 0, bytes, shown)
        {
            return;
        }
        let description = Description {
            key: key(object),
            born: volume.common.next_seq(),
            expires_ms: u64::MAX,
            meta: [0; 400].into(),
            ..Description::default()
        };
        let (came, mark) = (self.device.busy(), self.next_purge.take());
        let purge = mark.map(|mark| self.begin_purge(mark));
        let what = if self.opened.writer.is_growing() { BESIDE_GROWTH } else { "object" };
        self.timed(what, |this| {
            this.opened.writer.store(description, body).expect("the drive works");
        });
        if let Some(durable) = purge {
            self.end_purge(durable, came);
        }
        self.opened.writer.charge(0);
        self.appended_ms = now_ms();
    }

    fn begin_purge(&mut self, mark: Mark) -> Completion {
        let geometry = self.opened.volume.geometry();
        self.device.watch(geometry.journal_at..geometry.journal_at + geometry.journal_bytes);
        self.opened.volume.purge(mark)
    }

    /// Makes a purge durable that came when the drive had been busy for so long, unless it is already, and
    /// notes how long it waited.
    fn end_purge(&mut self, durable: Completion, came: Duration) {
        self.opened.writer.tend().expect("the drive works");
        assert!(finish(durable).is_some_and(|outcome| outcome.result.is_ok()));
        let longest = self.longest.entry("purge").or_default();
        let durable_at = self.device.watched().expect("a purge is in the journal");
        *longest = (*longest).max(durable_at.saturating_sub(came));
    }

    /// What the drive was written with in the last 24 hours, in drive writes. The first filling is free.
    pub(super) fn note_hour(&mut self) -> f64 {
        let log_bytes = self.opened.volume.geometry().log_bytes();
        let written = self.device.written_bytes().max(log_bytes);
        self.hours.push_back(written);
        let first = if self.hours.len() > 24 { self.hours.pop_front() } else { None };
        let before = first.or_else(|| self.hours.front().copied()).unwrap_or(written);
        (written - before) as f64 / log_bytes as f64
    }
}
