//! What a host is to run and what is left there to end, on its disk: it goes on by that while no server answers.
//! What there is to do follows from it.

use super::{Act, Order, Orders, Outcome, Report, Standing};
use crate::disk::said;
use crate::{Health, Spec};
use freshet_base::private;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What is on the disk.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Disk {
    orders: Orders,
    /// App instances that the platform does not tell of any more.
    leaving: BTreeMap<String, Spec>,
}

/// What the host knows of its apps.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    disk: Disk,
    standings: BTreeMap<String, Standing>,
    /// Ended as the lease was over.
    fenced: BTreeSet<String>,
    /// What was said last could not be written down.
    is_deaf: bool,
}

/// Something to do for an app instance.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Act(Order),
    /// See how one is that is to run.
    Look(Spec),
    /// End it and remove what there is of it.
    Leave(Spec),
    /// End it, as the lease is over.
    Fence(Spec),
}

impl Work {
    pub(super) fn spec(&self) -> &Spec {
        match self {
            Self::Act(order) => &order.spec,
            Self::Look(spec) | Self::Leave(spec) | Self::Fence(spec) => spec,
        }
    }
}

impl Kept {
    /// # Errors
    /// What is kept cannot be read.
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let path = folder.join("orders.json");
        let say = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let disk = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| say(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Disk::default(),
            Err(error) => return Err(say(&error)),
        };
        Ok(Self { path, disk, standings: BTreeMap::new(), fenced: BTreeSet::new(), is_deaf: false })
    }

    /// For how long apps run here without a word from the servers.
    pub(super) fn lease_ms(&self) -> Option<u64> {
        self.disk.orders.lease_ms
    }

    /// Takes what the platform says. What it does not tell of any more, or gave again, is to leave first.
    ///
    /// # Errors
    /// It cannot be written down; then nothing has changed, and this is [deaf](Self::is_deaf).
    pub(super) fn adopt(&mut self, orders: Orders) -> Result<(), String> {
        if orders.last < self.disk.orders.last || orders == self.disk.orders {
            self.is_deaf = false;
            return Ok(());
        }
        let mut disk = self.disk.clone();
        for (instance, old) in &self.disk.orders.apps {
            let stays =
                orders.apps.get(instance).is_some_and(|new| new.spec.grant == old.spec.grant);
            if !stays {
                disk.leaving.insert(instance.clone(), old.spec.clone());
            }
        }
        disk.orders = orders;
        let written = self.write(disk);
        self.is_deaf = written.is_err();
        written.map_err(|error| said(&self.path, &error))?;
        let known = &self.disk.orders.apps;
        self.standings.retain(|instance, _| known.contains_key(instance));
        self.fenced.retain(|instance| known.contains_key(instance));
        Ok(())
    }

    /// Whether what was said last could not be written down. Who says how its apps are, and cannot do what it is told,
    /// keeps them from coming to a host that can.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    fn write(&mut self, disk: Disk) -> io::Result<()> {
        let text = serde_json::to_vec(&disk).expect("orders are plain data");
        // It has secrets of apps.
        private::replace(&self.path, &text)?;
        self.disk = disk;
        Ok(())
    }

    /// What there is to do. While the lease is over, nothing runs here.
    pub(super) fn works(&self, is_over: bool) -> Vec<Work> {
        let leaving = self.disk.leaving.values();
        let mut works: Vec<Work> = leaving.clone().cloned().map(Work::Leave).collect();
        // Their files and interfaces are those of whoever comes.
        let is_free = |spec: &Spec| {
            let mut leaving = leaving.clone();
            leaving
                .all(|one| one.instance != spec.instance && one.network.slot != spec.network.slot)
        };
        works.extend(self.disk.orders.apps.values().filter_map(|order| {
            let instance = &order.spec.instance;
            let standing = self.standings.get(instance).filter(|one| one.number == order.number);
            if is_over {
                let is_ended = self.fenced.contains(instance);
                return (!is_ended).then(|| Work::Fence(order.spec.clone()));
            }
            // What was ended as the lease was over is done again.
            let standing = standing.filter(|_| !self.fenced.contains(instance));
            match standing.and_then(|one| one.outcome.as_ref()) {
                Some(Outcome::Done(_)) if order.act == Act::Start => {
                    Some(Work::Look(order.spec.clone()))
                }
                Some(_) => None,
                None => is_free(&order.spec).then(|| Work::Act(order.clone())),
            }
        }));
        works
    }

    /// Something was ended as the lease was over.
    pub(super) fn was_fenced(&mut self, instance: &str) {
        self.fenced.insert(instance.to_owned());
        if let Some(standing) = self.standings.get_mut(instance) {
            standing.health = Health::Gone;
        }
    }

    /// What came of an order, or is in its way.
    pub(super) fn was_done(&mut self, order: &Order, outcome: Option<Outcome>, words: String) {
        let health = match (&outcome, order.act) {
            (Some(Outcome::Done(_)), Act::Start) | (None, Act::Start) => Health::Coming,
            _ => Health::Gone,
        };
        let standing = Standing { number: order.number, outcome, health, words };
        let instance = &order.spec.instance;
        self.fenced.remove(instance);
        // It may have been taken away meanwhile.
        if self.disk.orders.apps.contains_key(instance) {
            self.standings.insert(instance.clone(), standing);
        }
    }

    /// How an app is that is to run.
    pub(super) fn was_seen(&mut self, instance: &str, health: Health, words: String) {
        if let Some(standing) = self.standings.get_mut(instance) {
            (standing.health, standing.words) = (health, words);
        }
    }

    /// Nothing is left of one.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(super) fn has_left(&mut self, instance: &str) -> io::Result<()> {
        let mut disk = self.disk.clone();
        disk.leaving.remove(instance);
        self.write(disk)
    }

    /// The packages that apps here are of, by their SHA-256.
    pub(super) fn packages(&self) -> BTreeSet<String> {
        let all = self.disk.orders.apps.values().map(|order| &order.spec);
        all.chain(self.disk.leaving.values()).map(|spec| spec.package.sha256.clone()).collect()
    }

    /// What is said to the platform.
    pub(super) fn report(&self) -> Report {
        let mut apps = self.standings.clone();
        // What is leaving is there until it is gone.
        for instance in self.disk.leaving.keys() {
            apps.entry(instance.clone()).or_insert_with(|| Standing {
                number: 0,
                outcome: None,
                health: Health::Gone,
                words: "it is being removed".to_owned(),
            });
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Report { version, lease_ms: self.lease_ms(), apps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Network, Package};

    fn order(number: u64, act: Act, instance: &str, grant: &str, slot: u32) -> Order {
        let network = Network {
            slot,
            host: [10, 0, 0, 1].into(),
            app: [10, 0, 0, 2].into(),
            answers_for: Vec::new(),
            sends_bps_max: None,
            receives_bps_max: None,
            sends_apart: Vec::new(),
            wire: None,
        };
        let package =
            Package { sha256: "0".repeat(64), image: "image".into(), folder: PathBuf::new() };
        let spec = Spec {
            instance: instance.to_owned(),
            name: format!("mec-{instance}"),
            grant: grant.to_owned(),
            package,
            folder: PathBuf::new(),
            cpu_milli_max: 1,
            memory_mib_max: 1,
            disk_mib_max: 1,
            host: "north".to_owned(),
            accelerators: BTreeMap::new(),
            network,
            environment: Vec::new(),
        };
        Order { number, act, spec }
    }

    fn orders(last: u64, apps: impl IntoIterator<Item = Order>) -> Orders {
        let apps = apps.into_iter().map(|order| (order.spec.instance.clone(), order)).collect();
        Orders { last, lease_ms: Some(10_000), apps }
    }

    fn shown(works: &[Work]) -> Vec<String> {
        let one = |work: &Work| match work {
            Work::Act(order) => format!("{:?} {}", order.act, order.spec.instance),
            Work::Look(spec) => format!("look {}", spec.instance),
            Work::Leave(spec) => format!("leave {}", spec.instance),
            Work::Fence(spec) => format!("fence {}", spec.instance),
        };
        works.iter().map(one).collect()
    }

    #[test]
    fn who_cannot_write_down_what_is_said_is_deaf_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        fs::create_dir(&place).unwrap();
        let mut kept = Kept::open(&place).unwrap();
        let first = orders(2, [order(2, Act::Start, "a", "g1", 0)]);
        kept.adopt(first.clone()).unwrap();
        assert!(!kept.is_deaf());
        fs::rename(&place, folder.path().join("away")).unwrap();
        let error = kept.adopt(orders(3, [])).unwrap_err();
        assert!(kept.is_deaf() && error.contains("state/orders.json: "), "{error}");
        assert_eq!(shown(&kept.works(false)), ["Start a"]);
        // What it knows need not be written down.
        kept.adopt(first).unwrap();
        assert!(!kept.is_deaf());
        kept.adopt(orders(3, [])).unwrap_err();
        fs::rename(folder.path().join("away"), &place).unwrap();
        kept.adopt(orders(3, [])).unwrap();
        assert!(!kept.is_deaf());
        assert_eq!(shown(&kept.works(false)), ["leave a"]);
    }

    #[test]
    fn what_is_told_is_done_once_and_what_is_not_told_any_more_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path()).unwrap();
        let start = order(2, Act::Start, "a", "g1", 0);
        kept.adopt(orders(2, [start.clone()])).unwrap();
        assert_eq!(shown(&kept.works(false)), ["Start a"]);
        kept.was_done(&start, Some(Outcome::Done(Vec::new())), String::new());
        assert_eq!(shown(&kept.works(false)), ["look a"]);
        // Older words change nothing; a process after this one starts it again, which does no harm.
        kept.adopt(orders(1, [])).unwrap();
        let mut kept = Kept::open(folder.path()).unwrap();
        assert_eq!(shown(&kept.works(false)), ["Start a"]);
        // Another app at its place waits until it has left.
        let other = order(3, Act::Unpack, "b", "g2", 0);
        kept.adopt(orders(3, [other.clone()])).unwrap();
        assert_eq!(shown(&kept.works(false)), ["leave a"]);
        assert!(kept.report().apps.contains_key("a"));
        let mut kept = Kept::open(folder.path()).unwrap();
        kept.has_left("a").unwrap();
        assert_eq!(shown(&kept.works(false)), ["Unpack b"]);
        // So does the same one, if it was given away and came back.
        kept.was_done(&other, Some(Outcome::Done(Vec::new())), String::new());
        kept.adopt(orders(4, [order(4, Act::Unpack, "b", "g3", 1)])).unwrap();
        assert_eq!(shown(&kept.works(false)), ["leave b"]);
        kept.has_left("b").unwrap();
        assert_eq!(shown(&kept.works(false)), ["Unpack b"]);
    }

    #[test]
    fn nothing_runs_while_the_lease_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path()).unwrap();
        let start = order(2, Act::Start, "a", "g1", 0);
        kept.adopt(orders(2, [start.clone()])).unwrap();
        kept.was_done(&start, Some(Outcome::Done(Vec::new())), String::new());
        for _ in 0..2 {
            assert_eq!(shown(&kept.works(true)), ["fence a"]);
            kept.was_fenced("a");
            assert_eq!(shown(&kept.works(true)), Vec::<String>::new());
            assert_eq!(kept.report().apps["a"].health, Health::Gone);
            assert_eq!(shown(&kept.works(false)), ["Start a"], "it is started again");
            kept.was_done(&start, Some(Outcome::Done(Vec::new())), String::new());
            assert_eq!(shown(&kept.works(false)), ["look a"]);
        }
    }

    #[test]
    fn orders_that_name_what_is_not_theirs_are_refused() {
        let good = || order(1, Act::Start, "a", "g", 0);
        assert_eq!(good().check(), Ok(()));
        let refused = |spoil: fn(&mut Spec)| {
            let mut order = good();
            spoil(&mut order.spec);
            assert!(order.check().is_err(), "{order:?}");
        };
        refused(|spec| spec.instance = "../a".to_owned());
        refused(|spec| spec.name = "mec a".to_owned());
        refused(|spec| spec.package.sha256 = "../0".to_owned());
        refused(|spec| spec.package.image = "../image".to_owned());
        refused(|spec| spec.package.image = "/etc".to_owned());
    }
}
