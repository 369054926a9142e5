//! The disks of nodes: of memory, with the faults of drives, and what a crash leaves of them.

use crate::random::Random;
use crate::world::World;
use freshet_device::attached::{Drives, Runtime};
use freshet_device::simulation::{Faults, SimulatedDevice};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// So small that a log goes round now and then.
const DISK_BYTES: u64 = 4 << 20;
/// Of a thousand worlds so many have disks.
const WORLDS_PERMILLE: u64 = 400;

/// All disks of a world, by the names of their nodes.
#[derive(Debug)]
pub(crate) struct Disks {
    drives: Drives,
    random: RefCell<Random>,
    /// Disks of each node; none in a world without.
    each: u64,
    read_us: u64,
    of: RefCell<BTreeMap<String, Vec<Arc<SimulatedDevice>>>>,
    /// Drives that lie at present about what they have: of which node, and which of its.
    lying: RefCell<BTreeSet<(String, usize)>>,
    /// Nodes of which a drive has done so since they started.
    lied_to: RefCell<BTreeSet<String>>,
}

impl Disks {
    /// Decides about the disks of the world of a seed. What is drawn for them is drawn apart: a world
    /// without disks is the same as if there never were any.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x6469_736b);
        let each = if random.chance(WORLDS_PERMILLE) { random.within(1..3) } else { 0 };
        let read_us = random.of(&[1, 5_000, 400_000, 3_000_000]);
        let drives = Drives::begin(Runtime {
            spawn: |task| drop(spawn_local(task)),
            sleep: |span| Box::pin(sleep(span)),
        });
        Self {
            drives,
            random: RefCell::new(random),
            each,
            read_us,
            of: RefCell::default(),
            lying: RefCell::default(),
            lied_to: RefCell::default(),
        }
    }

    pub(crate) fn are_there(&self) -> bool {
        self.each > 0
    }

    pub(crate) fn described(&self) -> String {
        format!("{} disks each, reads of up to {} us", self.each, self.read_us)
    }

    /// What a node's configuration says of its disks, which are there from now on.
    pub(crate) fn configured(&self, node: &str) -> String {
        let mut text = String::new();
        if self.each > 0 {
            text.push_str("[stores]\nttl_min = \"0s\"\n");
        }
        let mut of = self.of.borrow_mut();
        let own = of.entry(node.into()).or_default();
        for number in 0..self.each as usize {
            let path = PathBuf::from(format!("/world/{node}-{number}"));
            let _ = write!(text, "[[store]]\npath = \"{}\"\n", path.display());
            if own.len() == number {
                let mut random = self.random.borrow_mut();
                let (faults, seed) = (random.next(), random.next());
                let device = Arc::new(SimulatedDevice::new(DISK_BYTES, faults, Faults::default()));
                self.drives.attach(&path, Arc::clone(&device), 0..self.read_us, seed);
                own.push(device);
            }
        }
        text
    }

    /// Leaves of a node's disks what a crash leaves: what was flushed, and of the rest what had come so
    /// far where the power went, or all where only the process did.
    pub(crate) fn crash(&self, node: &str) {
        for device in self.of.borrow().get(node).into_iter().flatten() {
            if self.random.borrow_mut().chance(500) {
                device.power_cut();
            } else {
                device.process_end();
            }
        }
    }

    /// A node has started; whether since it did so before one of its drives confirmed writes that it lost or
    /// put elsewhere, or gave what was there before. Nobody can know then what had been written last.
    pub(crate) fn have_lied(&self, node: &str) -> bool {
        let lies_on = self.lying.borrow().iter().any(|(name, _)| name == node);
        let mut lied_to = self.lied_to.borrow_mut();
        let has_lied = lied_to.remove(node);
        if lies_on {
            lied_to.insert(node.to_owned());
        }
        has_lied
    }

    /// Lets one drive fail in one way, or none.
    fn ail(&self) -> Option<String> {
        let mut random = self.random.borrow_mut();
        let of = self.of.borrow();
        let all: Vec<_> = of
            .iter()
            .flat_map(|(name, own)| own.iter().zip(0..).map(move |one| (name, one)))
            .collect();
        let (name, (device, number)) =
            all.get(random.within(0..all.len().max(1) as u64) as usize)?;
        let often = random.of(&[600, 6_000, 60_000]);
        device.repair();
        device.set_no_space(None);
        let well = Faults::default();
        let (what, faults) = match random.within(0..14) {
            0 => ("reads fail", Faults { read_errors: often, ..well }),
            1 => ("writes fail", Faults { write_errors: often, ..well }),
            2 => ("too little is moved", Faults { short: often, ..well }),
            3 => ("it hangs", Faults { hangs: often / 10, ..well }),
            4 => ("bits flip", Faults { flips: often, ..well }),
            5 => {
                device.set_no_space(Some(0..DISK_BYTES));
                ("it is full", well)
            }
            6 => {
                let begin = random.within(0..DISK_BYTES);
                device.set_bad(begin..begin + (64 << 10));
                ("a part is bad", well)
            }
            7 => {
                device.flip_bit(0..DISK_BYTES);
                ("a bit has flipped", well)
            }
            8 => ("writes are lost", Faults { lost_writes: often, ..well }),
            9 => ("writes land elsewhere", Faults { misdirected_writes: often, ..well }),
            10 => ("reads are of before", Faults { stale_reads: often, ..well }),
            11 => ("reads are of elsewhere", Faults { misdirected_reads: often, ..well }),
            12 => ("sectors change places", Faults { swapped_sectors: often, ..well }),
            _ => ("it is well", well),
        };
        device.set_faults(faults);
        let (mut lying, drive) = (self.lying.borrow_mut(), ((*name).clone(), *number));
        lying.remove(&drive);
        if faults.lost_writes + faults.misdirected_writes + faults.stale_reads > 0 {
            lying.insert(drive);
            self.lied_to.borrow_mut().insert((*name).clone());
        }
        Some(format!("a disk of {name}: {what} ({often})"))
    }
}

/// Lets drives fail and work again.
pub(crate) async fn fail_now_and_then(world: Rc<World>) {
    if world.disks.each == 0 || !world.has_faults {
        return;
    }
    loop {
        let pause = world.disks.random.borrow_mut().within(1..15_000);
        sleep(Duration::from_millis(pause)).await;
        if let Some(line) = world.disks.ail() {
            world.say(line);
        }
    }
}
