//! The ring of a shard director: who is on it, how that changes, and whom a key meets.

use super::super::{Director, MEMBERS_MAX, Member, hash32};
use crate::policy::lock;
use crate::program::BackendRef;
use std::sync::Arc;

/// Points of a member of weight 1 where a policy does not say.
const REPLICAS: i64 = 67;
/// Points on one ring.
const POINTS_MAX: usize = 1_000_000;

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) backend: BackendRef,
    /// The backend's name.
    pub(super) name: Box<str>,
    /// What it is called on the ring, if not by its backend's name.
    pub(super) ident: Option<Box<str>>,
    pub(super) weight: f64,
    /// Seconds over which it takes its full load again after it came back.
    pub(super) rampup: Option<f64>,
    /// Its points, before they are bounded; known once it is on a ring.
    pub(super) replicas: usize,
}

impl Host {
    fn label(&self) -> &str {
        self.ident.as_deref().unwrap_or(&self.name)
    }

    /// Its name as messages have it.
    fn shown(&self) -> String {
        match &self.ident {
            Some(ident) => format!("{}/{ident}", self.name),
            None => self.name.to_string(),
        }
    }
}

/// What a policy asks of a ring.
#[derive(Debug)]
pub(super) enum Change {
    Clear,
    Add(Host),
    /// All of this name, or, where none is given, of this backend.
    Remove {
        backend: BackendRef,
        ident: Option<Box<str>>,
    },
}

/// Changes of one director that a task asked for. They take effect when it says so, the latest when
/// it ends.
#[derive(Debug)]
pub(crate) struct Gathered {
    director: Arc<Director>,
    pub(super) changes: Vec<Change>,
}

impl Gathered {
    pub(super) fn new(director: Arc<Director>) -> Self {
        Self { director, changes: Vec::new() }
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if !self.changes.is_empty() {
            reconfigure(&self.director, std::mem::take(&mut self.changes), REPLICAS, &mut |_| ());
        }
    }
}

/// Points in order, each with the number of the member it belongs to.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) points: Vec<(u32, u32)>,
    pub(super) hosts: Vec<Host>,
}

/// Makes a director's ring anew; `skipped` is told of members that are on it already.
pub(super) fn reconfigure(
    director: &Director,
    changes: Vec<Change>,
    replicas: i64,
    skipped: &mut dyn FnMut(&str),
) -> Arc<Ring> {
    let shard = &director.shard;
    // Rings are made one after the other, while the one there is goes on to be read.
    let _turn = lock(&shard.turn);
    let before = Arc::clone(&lock(&shard.ring));
    let ring = Arc::new(Ring::new(changed(&before.hosts, changes, replicas, skipped)));
    let members = ring.hosts.iter();
    let members = members.map(|host| Member { backend: host.backend, weight: host.weight });
    director.change(|known| *known = members.collect());
    *lock(&shard.ring) = Arc::clone(&ring);
    ring
}

/// The members after these changes. Who comes takes the first place that became free; at the end
/// the last ones move to those that still are.
fn changed(
    before: &[Host],
    mut changes: Vec<Change>,
    replicas: i64,
    skipped: &mut dyn FnMut(&str),
) -> Vec<Host> {
    let mut places: Vec<Option<Host>> = before.iter().cloned().map(Some).collect();
    if let Some(at) = changes.iter().rposition(|change| matches!(change, Change::Clear)) {
        changes.drain(..=at);
        places.clear();
    }
    for change in changes {
        match change {
            Change::Clear => {}
            Change::Add(host) => {
                let mut known = places.iter().flatten();
                if let Some(known) = known.find(|known| known.label() == host.label()) {
                    skipped(&known.shown());
                    continue;
                }
                let replicas = (replicas as f64 * host.weight) as usize;
                let host = Some(Host { replicas, ..host });
                let free = places.iter_mut().find(|place| place.is_none());
                if let Some(free) = free {
                    *free = host;
                } else if places.len() < MEMBERS_MAX {
                    places.push(host);
                }
            }
            Change::Remove { backend, ident } => {
                let goes = |host: &Host| match &ident {
                    Some(ident) => host.label() == &**ident,
                    None => host.backend == backend,
                };
                for place in &mut places {
                    place.take_if(|host| goes(host));
                }
                while places.last().is_some_and(Option::is_none) {
                    places.pop();
                }
            }
        }
    }
    while let Some(hole) = places.iter().position(Option::is_none) {
        places.swap_remove(hole);
    }
    places.into_iter().flatten().collect()
}

impl Ring {
    fn new(hosts: Vec<Host>) -> Self {
        let most = POINTS_MAX / hosts.len().max(1);
        let mut points = Vec::new();
        for (host, at) in hosts.iter().zip(0..) {
            let point = |replica| hash32(format!("{}{replica}", host.label()).as_bytes());
            points.extend((0..host.replicas.min(most)).map(|replica| (point(replica), at)));
        }
        points.sort_unstable();
        Self { points, hosts }
    }

    pub(super) fn backend(&self, host: u32) -> Option<BackendRef> {
        self.hosts.get(host as usize).map(|host| host.backend)
    }
}

/// A member that was met, and when its health changed.
#[derive(Clone, Copy)]
pub(super) struct Met {
    pub(super) host: u32,
    pub(super) changed: f64,
}

/// A way round a ring on which each member is met once.
pub(super) struct Walk<'a> {
    ring: &'a Ring,
    pub(super) at: usize,
    seen: Vec<bool>,
    met: usize,
    /// Who was taken or passed by before the last one.
    pub(super) previous: Option<Met>,
    pub(super) last: Option<Met>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(ring: &'a Ring, key: u32) -> Self {
        let last = ring.points.len().max(1) - 1;
        // A key behind the last point belongs to the last point, as Varnish has it.
        let at = ring.points.partition_point(|(point, _)| *point < key).min(last);
        let seen = vec![false; ring.hosts.len()];
        Self { ring, at, seen, met: 0, previous: None, last: None }
    }

    /// Goes on to the next member, past `skip` of them, where `healthy` only counting those that are;
    /// whether there was one, who is `last` then.
    pub(super) fn next(
        &mut self,
        mut skip: usize,
        healthy: bool,
        health: &mut dyn FnMut(BackendRef) -> (bool, f64),
    ) -> bool {
        while self.met < self.seen.len() {
            let Some((_, host)) = self.ring.points.get(self.at).copied() else { return false };
            let seen = self.seen.get_mut(host as usize).map(|seen| std::mem::replace(seen, true));
            if seen == Some(false)
                && let Some(backend) = self.ring.backend(host)
            {
                self.met += 1;
                let (is_up, changed) = health(backend);
                let met = Met { host, changed };
                if is_up || !healthy {
                    if skip == 0 {
                        self.previous = self.last.or(self.previous);
                        self.last = Some(met);
                        return true;
                    }
                    skip -= 1;
                    if is_up {
                        self.previous = Some(met);
                    }
                }
            }
            self.at = (self.at + 1) % self.ring.points.len();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(backend: u32, ident: Option<&str>) -> Host {
        Host {
            backend: BackendRef::Backend(backend),
            name: format!("s{backend}").into(),
            ident: ident.map(Into::into),
            weight: 1.0,
            rampup: None,
            replicas: 1,
        }
    }

    fn labels(before: &[Host], changes: Vec<Change>) -> (Vec<String>, Vec<String>) {
        let mut skipped = Vec::new();
        let after = changed(before, changes, 1, &mut |host| skipped.push(host.to_owned()));
        (after.iter().map(|host| host.label().to_owned()).collect(), skipped)
    }

    #[test]
    fn only_what_follows_the_last_clear_is_done() {
        let changes = vec![
            Change::Add(host(1, None)),
            Change::Add(host(1, None)),
            Change::Clear,
            Change::Add(host(2, None)),
        ];
        assert_eq!(labels(&[host(3, None)], changes), (vec!["s2".to_owned()], vec![]));
    }

    #[test]
    fn a_name_is_on_a_ring_once() {
        let changes = vec![
            Change::Add(host(1, None)),
            Change::Add(host(1, Some("a"))),
            Change::Add(host(2, Some("s1"))),
            Change::Add(host(2, Some("a"))),
        ];
        let (after, skipped) = labels(&[], changes);
        assert_eq!(after, ["s1", "a"]);
        assert_eq!(skipped, ["s1", "s1/a"]);
    }

    #[test]
    fn the_last_take_the_places_of_those_that_went() {
        let before = [host(1, None), host(2, None), host(3, None), host(4, None)];
        let gone = |backend| Change::Remove { backend: BackendRef::Backend(backend), ident: None };
        assert_eq!(labels(&before, vec![gone(1)]).0, ["s4", "s2", "s3"]);
        assert_eq!(labels(&before, vec![gone(4), gone(3)]).0, ["s1", "s2"]);
        let changes = vec![gone(2), Change::Add(host(5, None))];
        assert_eq!(labels(&before, changes).0, ["s1", "s5", "s3", "s4"]);
    }

    #[test]
    fn who_was_there_before_keeps_his_points() {
        let before = changed(&[], vec![Change::Add(host(1, None))], 3, &mut |_| ());
        let after = changed(&before, vec![Change::Add(host(2, None))], 5, &mut |_| ());
        assert_eq!(after.iter().map(|host| host.replicas).collect::<Vec<_>>(), [3, 5]);
    }
}
