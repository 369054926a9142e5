//! The disks as a keeper of responses.

use super::intake::{Comes, Intake, offer_used, renew};
use super::meta::millis;
use super::promote;
use crate::keepers::{Admission, Candidate, Keeper, Purgeable, Renewed, Restoring, Used, Wanted};
use crate::worker::Worker;
use freshet_cache::{Key, Object, Purge};
use freshet_disk::Disks;
use freshet_disk::purges::{Soft, Target};
use freshet_site::durability::Durability;
use freshet_store::Standing;
use std::rc::Rc;
use std::sync::Arc;

/// All disks of a node.
pub struct DiskKeeper(pub Arc<Disks>);

impl Keeper for DiskKeeper {
    fn admit(&self, candidate: &Candidate<'_>) -> Option<Box<dyn Admission>> {
        let intake = Intake::new(&self.0, candidate, Comes::Fetched);
        intake.map(|intake| Box::new(intake) as Box<dyn Admission>)
    }

    fn used(&self, used: &Used<'_>) {
        offer_used(&self.0, used);
    }

    fn renewed(&self, renewed: &Renewed<'_>) {
        renew(&self.0, renewed);
    }

    fn ended(&self, object: &Object, born: u64) {
        let key = object.key().hash();
        // What one has taken it finds only once it is written, and not while it is away.
        let is_taken = matches!(object.body().standing(), Standing::Waits | Standing::Kept { .. });
        if is_taken || self.0.may_have(key) {
            // Whoever has the answer need not wait until a disk has noted it.
            drop(self.0.supersede(key, born));
        }
    }

    fn may_have(&self, key: &Key) -> bool {
        self.0.may_have(key.hash())
    }

    fn restore<'a>(&'a self, worker: &'a Rc<Worker>, wanted: Wanted<'a>) -> Restoring<'a> {
        Box::pin(promote::restore(&self.0, worker, wanted))
    }

    fn evict(&self, what: &Purgeable<'_>, how: Purge) -> Option<Durability> {
        let soft = left_by(how);
        let pending = match *what {
            Purgeable::Key(key) => self.0.purge_key(key.hash(), soft),
            Purgeable::Tag(tag) => self.0.purge(Target::Tag(tag), soft),
            Purgeable::All => self.0.purge(Target::All, soft),
        };
        Some(pending.into())
    }
}

/// What a purge leaves of what is on disks.
fn left_by(how: Purge) -> Option<Soft> {
    match how {
        Purge::Hard => None,
        Purge::Soft(at) => Some(Soft { from_ms: at.0, grace_ms: None }),
        Purge::Given(lifetimes) => Some(Soft {
            from_ms: lifetimes.from.plus(lifetimes.ttl).0,
            grace_ms: lifetimes.grace.map(millis),
        }),
    }
}
