//! What a node does with the log of its fleet.

use super::load::Load;
use freshet_base::clock::UnixMillis;
use freshet_base::private::replace;
use freshet_cache::Cache;
use freshet_fleet::nats::Acts;
use freshet_fleet::{Change, Fence, Place, Scope};
use freshet_http::applied::Position;
use freshet_http::message::RequestHead;
use freshet_node::Purged;
use freshet_node::keys::purged_authorities;
use freshet_node::node::Node;
use freshet_node::preview::key_of;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

/// A node that acts.
pub(super) struct Acting {
    node: Arc<Node>,
    fleet: String,
    /// Keeps how far the log was carried out.
    state: Option<PathBuf>,
    trust: Mutex<Trust>,
    load: Load,
}

/// What of the stored may be used.
struct Trust {
    fence: Fence,
    /// What is from before has to be validated, also without a fence: at least what was doubted where it
    /// comes from, as on the disks or in the process before.
    from: u64,
}

/// What is kept over a restart.
#[derive(Deserialize, Serialize)]
struct Kept {
    /// How far the log was carried out on the disks.
    #[serde(flatten)]
    place: Place,
    /// What is on the disks from before has to be validated. It stays so until it is: what was doubted by
    /// the process before is not known any better by the next one.
    #[serde(default)]
    disks_doubted_below: u64,
}

impl Acting {
    /// Acts for a node in this fleet.
    pub(super) fn new(node: Arc<Node>, fleet: &str, state: Option<PathBuf>) -> Self {
        let trust = Mutex::new(Trust { fence: Fence::Raised, from: Cache::DOUBTED_BELOW });
        Self { node, fleet: fleet.to_owned(), state, trust, load: Load::default() }
    }

    fn set_trust(&self, change: impl FnOnce(&mut Trust)) {
        let mut trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut trust);
        self.node.shared.cache.fence(match trust.fence {
            Fence::Raised => u64::MAX,
            Fence::Lifted => trust.from,
        });
    }

    /// Uses nothing stored until now without validating it.
    fn distrust_all(&self) {
        let from = self.node.shared.doubt_stored();
        self.set_trust(|trust| trust.from = from);
    }

    /// Begins to carry a change out; what is to be waited for.
    fn begin(&self, change: &Change) -> Result<Vec<Purged>, String> {
        let (shared, snapshot) = (&self.node.shared, self.node.snapshot());
        let now = UnixMillis::now();
        let how = |soft: bool| match soft {
            true => freshet_cache::Purge::Soft(now),
            false => freshet_cache::Purge::Hard,
        };
        match change {
            Change::Purge { url, soft } => {
                let request = freshet_admin::request_of(url).ok_or("it is no URL")?;
                // As clients may ask this node for it, and as other nodes do, which leave out the ports of theirs.
                let mut keys = Vec::new();
                for authority in purged_authorities(&request.authority, &snapshot.own_ports) {
                    let each = RequestHead { authority, ..request.clone() };
                    // A host that no site is for here has nothing stored.
                    keys.extend(
                        key_of(shared, &snapshot, each, now).filter(|key| !keys.contains(key)),
                    );
                }
                Ok(keys.iter().map(|key| shared.purge(key, how(*soft))).collect())
            }
            Change::PurgeTag { tag, soft, scope } => {
                let sites =
                    snapshot.sites.all().iter().filter(|site| is_for(scope, site.name.as_str()));
                let tags = sites.map(|site| site.name.tag(tag.as_bytes()));
                Ok(tags.map(|tag| shared.purge_tag(tag, how(*soft))).collect())
            }
            Change::PurgeAll { soft, scope: Scope { site: None } } => {
                Ok(vec![shared.purge_all(how(*soft))])
            }
            Change::PurgeAll { soft, scope } => {
                let sites =
                    snapshot.sites.all().iter().filter(|site| is_for(scope, site.name.as_str()));
                let tags = sites.filter_map(|site| site.name.tag_of_all());
                Ok(tags.map(|tag| shared.purge_tag(tag, how(*soft))).collect())
            }
            Change::Ban { text } => {
                let durability = shared.ban(text, &snapshot.settings.bans)?;
                Ok(vec![Purged { objects: 0, durability }])
            }
            _ => Err("this version does not know it".into()),
        }
    }

    /// Carries an entry out; how many objects went. Returns when all disks know.
    fn carry_out(&self, changes: &[Change], place: Place) -> usize {
        let mut begun = Vec::new();
        for change in changes {
            match self.begin(change) {
                Ok(mut purged) => begun.append(&mut purged),
                Err(error) => {
                    let sequence = place.sequence;
                    tracing::error!(
                        error,
                        sequence,
                        ?change,
                        "a change cannot be carried out; what is stored is validated instead"
                    );
                    self.distrust_all();
                }
            }
        }
        let objects = begun.iter().map(|purged| purged.objects).sum();
        // All are waited for, also where one is not durable.
        let durable = begun.into_iter().map(|purged| purged.durability.wait());
        if durable.filter(|is_durable| !is_durable).count() == 0 {
            self.keep(place);
        }
        objects
    }

    fn keep(&self, place: Place) {
        let Some(path) = &self.state else { return };
        let disks_doubted_below = self.node.shared.disks_doubted_below.load(SeqCst);
        let kept = serde_json::to_vec(&Kept { place, disks_doubted_below });
        let written = kept.map_err(Into::into).and_then(|kept| replace(path, &kept));
        if let Err(error) = written {
            tracing::error!(%error, path = %path.display(), "the fleet's state is not kept");
        }
    }

    fn position(&self, place: Place) -> Option<Position> {
        Position::new(&self.fleet, place.sequence).map(|position| position.marked(place.digest.0))
    }
}

impl Acts for Acting {
    fn restored(&self) -> Option<Place> {
        let text = fs::read_to_string(self.state.as_ref()?).ok()?;
        let Kept { place, disks_doubted_below } = serde_json::from_str(&text).ok()?;
        self.node.shared.disks_doubted_below.fetch_max(disks_doubted_below, SeqCst);
        // Nodes around this one ask at once, and so does it.
        if let Some(position) = self.position(place) {
            self.node.shared.applied.advance(position);
        }
        Some(place)
    }

    fn apply(&self, changes: &[Change], place: Place) {
        let objects = match self.position(place) {
            Some(position) => {
                self.node.shared.applied.carry_out(position, || self.carry_out(changes, place))
            }
            None => self.carry_out(changes, place),
        };
        tracing::info!(sequence = place.sequence, objects, "purged by the fleet");
    }

    fn is_meant(&self, changes: &[Change]) -> bool {
        let snapshot = self.node.snapshot();
        changes.iter().any(|change| match change {
            Change::PurgeTag { scope, .. } | Change::PurgeAll { scope, .. } => {
                snapshot.sites.all().iter().any(|site| is_for(scope, site.name.as_str()))
            }
            _ => true,
        })
    }

    fn fence(&self, fence: Fence) {
        self.set_trust(|trust| trust.fence = fence);
        match fence {
            Fence::Raised => tracing::warn!("cut off from the fleet: what is stored is validated"),
            Fence::Lifted => tracing::info!("at the end of the fleet's log"),
        }
    }

    fn lease(&self, until: UnixMillis) {
        self.node.shared.cache.trust_until(until);
    }

    fn load_percent(&self) -> Option<u8> {
        self.load.percent()
    }

    fn distrust(&self, place: Place, has_lost: bool) {
        match self.position(place) {
            Some(position) => {
                self.node.shared.applied.restart_at(position, || self.distrust_all());
            }
            None => self.distrust_all(),
        }
        self.keep(place);
        let sequence = place.sequence;
        if has_lost {
            tracing::error!(
                sequence,
                "the fleet's log has lost entries: what is stored is validated"
            );
        } else {
            tracing::info!(sequence, "what was stored before is validated once");
        }
    }
}

fn is_for(scope: &Scope, site: &str) -> bool {
    scope.site.as_deref().is_none_or(|name| name == site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_config::Settings;
    use freshet_config::document::Document;
    use freshet_net::handover::Inherited;
    use std::time::Duration;

    #[test]
    fn what_was_doubted_before_is_validated_while_the_lease_lasts_and_all_is_when_it_ends() {
        let text = "workers = 1\nmemory = \"64MiB\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
                    [[origin]]\nurl = \"http://127.0.0.1:1\"\n";
        let document = Document::parse(text).expect("it is well formed");
        let settings = Settings::from_document(&document).expect("it is right");
        let node = Node::start(settings, &mut Inherited::default()).expect("it starts");
        let acting = Acting::new(Arc::clone(&node), "fleet", None);
        let fence = || node.shared.cache.fenced_below(UnixMillis::now());
        acting.fence(Fence::Lifted);
        acting.lease(UnixMillis::now().plus(Duration::from_secs(3600)));
        assert_eq!(fence(), Cache::DOUBTED_BELOW);
        acting.lease(UnixMillis::now());
        assert_eq!(fence(), u64::MAX);
        node.stop();
        node.join();
    }
}
