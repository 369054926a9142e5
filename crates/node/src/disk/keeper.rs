//! The disks as a keeper of responses.

use super::intake::{Intake, offer_used, renew};
use super::promote;
use crate::keepers::{Admission, Candidate, Keeper, Purgeable, Renewed, Restoring, Used, Wanted};
use crate::worker::Worker;
use freshet_cache::Key;
use freshet_store::disk::purges::Target;
use freshet_store::disk::{Disks, Pending};
use std::rc::Rc;
use std::sync::Arc;

/// All disks of a node.
pub(crate) struct DiskKeeper(pub(crate) Arc<Disks>);

impl Keeper for DiskKeeper {
    fn admit(&self, candidate: &Candidate<'_>) -> Option<Box<dyn Admission>> {
        Intake::new(&self.0, candidate, true).map(|intake| Box::new(intake) as Box<dyn Admission>)
    }

    fn used(&self, used: &Used<'_>) {
        offer_used(&self.0, used);
    }

    fn renewed(&self, renewed: &Renewed<'_>) {
        renew(&self.0, renewed);
    }

    fn may_have(&self, key: &Key) -> bool {
        self.0.may_have(key.hash())
    }

    fn restore<'a>(&'a self, worker: &'a Rc<Worker>, wanted: Wanted<'a>) -> Restoring<'a> {
        Box::pin(promote::restore(&self.0, worker, wanted))
    }

    fn evict(&self, what: &Purgeable<'_>, soft_ms: Option<u64>) -> Option<Pending> {
        Some(match *what {
            Purgeable::Key(key) => self.0.purge_key(key.hash(), soft_ms),
            Purgeable::Tag(tag) => self.0.purge(Target::Tag(tag), soft_ms),
            Purgeable::All => self.0.purge(Target::All, soft_ms),
        })
    }
}
