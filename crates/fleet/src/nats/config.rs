//! Where the configuration of a fleet's groups is kept.

use super::asked::Which;
use super::link::{FleetError, Link, failed};
use super::publish::Retention;
use crate::config::Release;
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_KEPT_MIN};
use crate::signature::Saying;
use async_nats::jetstream::kv::{self, CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::object_store::{self, ObjectInfo, ObjectMetadata};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use futures_util::{StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes that a sealed bundle is longer than its files, names included.
const OVERHEAD_BYTES_MAX: usize = 16 << 20;

/// A group's document as it was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// What it says; nothing where there is none yet.
    pub release: Release,
    /// Which one it is; 0 is none.
    pub revision: u64,
}

/// How long ago it was put, by this machine's clock and that of who put it.
fn age(info: &ObjectInfo) -> Duration {
    let put_s = info.modified.map_or(0, |at| at.unix_timestamp());
    since_1970().saturating_sub(Duration::from_secs(u64::try_from(put_s).unwrap_or_default()))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Link {
    fn releases_name(&self) -> String {
        format!("FRESHET_{}_config", self.fleet())
    }

    fn bundles_name(&self) -> String {
        format!("FRESHET_{}_bundles", self.fleet())
    }

    /// Makes the places for documents and bundles, where they are not there yet.
    pub(super) async fn init_config(&self, retention: Retention) -> Result<(), FleetError> {
        self.make_bucket(&self.releases_name(), retention.replicas).await?;
        self.make_files(&self.bundles_name(), retention.replicas).await
    }

    async fn releases(&self) -> Result<kv::Store, FleetError> {
        self.context.get_key_value(self.releases_name()).await.map_err(|_| self.no_config())
    }

    async fn bundles(&self) -> Result<object_store::ObjectStore, FleetError> {
        self.context.get_object_store(self.bundles_name()).await.map_err(|_| self.no_config())
    }

    fn no_config(&self) -> FleetError {
        FleetError::NoConfig(self.fleet().to_owned())
    }

    /// A group's document.
    ///
    /// # Errors
    /// No answer, one that this version cannot read, or one that nobody signed who is believed.
    pub async fn release(&self, group: &str) -> Result<Read, FleetError> {
        let name = self.releases_name();
        let (stream, subject) = (format!("KV_{name}"), format!("$KV.{name}.{group}"));
        let stored = self.stored(&stream, Which::Last(&subject)).await;
        let stored = stored.map_err(|trouble| trouble.or(self.no_config()))?;
        // What was deleted has no bytes.
        match stored.filter(|stored| !stored.payload.is_empty()) {
            None => Ok(Read { release: Release::default(), revision: 0 }),
            Some(stored) => {
                let said = self.believed(Saying::Release { group }, &stored.payload);
                let said =
                    said.map_err(|error| FleetError::Signature { group: group.to_owned(), error })?;
                let release = Release::decode(said).map_err(FleetError::Config)?;
                Ok(Read { release, revision: stored.number })
            }
        }
    }

    /// Puts a group's document in place of the one that was read, and tells the nodes; its revision.
    ///
    /// # Errors
    /// Somebody else has changed it since ([`FleetError::Contended`]), or no answer.
    pub async fn set_release(
        &self,
        group: &str,
        Read { release, revision }: &Read,
    ) -> Result<u64, FleetError> {
        let stamped = release.stamped(super::millis(since_1970()));
        let bytes = self.signed(Saying::Release { group }, stamped.encode()).into();
        let store = self.releases().await?;
        let revision = if *revision == 0 {
            store.create(group, bytes).await.map_err(|error| match error.kind() {
                CreateErrorKind::AlreadyExists => FleetError::Contended,
                _ => failed(error),
            })?
        } else {
            store.update(group, bytes, *revision).await.map_err(|error| match error.kind() {
                UpdateErrorKind::WrongLastRevision => FleetError::Contended,
                _ => failed(error),
            })?
        };
        let subject = self.subject(&format!("config.{group}"));
        self.client.publish(subject, bytes::Bytes::new()).await.map_err(failed)?;
        self.client.flush().await.map_err(failed)?;
        Ok(revision)
    }

    /// Keeps the bytes of a bundle under its name, unless they are there and it is not long ago that they
    /// came: what nobody refers to yet may be removed once it is old.
    ///
    /// # Errors
    /// The servers do not take them.
    pub async fn put_bundle(&self, name: &str, kept: &[u8]) -> Result<(), FleetError> {
        // Who puts one has read the group's document, which is made with the place for bundles: that is closed to it.
        let closed = |_| FleetError::Denied("no place for bundles".to_owned());
        let store = self.bundles().await.map_err(closed)?;
        let is_there = |info: ObjectInfo| {
            info.size == kept.len() && !info.deleted && age(&info) < BUNDLE_KEPT_MIN / 2
        };
        if store.info(name).await.is_ok_and(is_there) {
            return Ok(());
        }
        let metadata = ObjectMetadata { name: name.to_owned(), ..ObjectMetadata::default() };
        store.put(metadata, &mut &*kept).await.map_err(failed)?;
        Ok(())
    }

    /// Removes the bundles that are older than this and that no version of any group refers to any more;
    /// how many.
    ///
    /// # Errors
    /// No answer, or a group's document that this version cannot read: then all of them stay.
    pub async fn remove_bundles(&self, older_than: Duration) -> Result<usize, FleetError> {
        let store = self.bundles().await?;
        // In this order: what is put now is younger, and what is referred to now was there before.
        let old = store.list().await.map_err(failed)?.try_collect::<Vec<_>>().await;
        let old: Vec<_> = old
            .map_err(failed)?
            .into_iter()
            .filter(|info| !info.deleted && age(info) >= older_than)
            .collect();
        if old.is_empty() {
            return Ok(0);
        }
        let mut used = BTreeSet::new();
        let mut groups = self.releases().await?.keys().await.map_err(failed)?;
        while let Some(group) = groups.next().await {
            let read = self.release(&group.map_err(failed)?).await?;
            used.extend(read.release.bundles().map(str::to_owned));
        }
        let mut removed = 0;
        for info in old.iter().filter(|info| !used.contains(&info.name)) {
            // Somebody may have put it again.
            if store.info(&info.name).await.is_ok_and(|now| now.nuid == info.nuid) {
                store.delete(&info.name).await.map_err(failed)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The bytes of the bundle of this name; nothing where there is none.
    ///
    /// # Errors
    /// No answer, or more than a bundle has.
    pub async fn bundle(&self, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let (store, most) = (self.bundles_name(), BUNDLE_BYTES_MAX + OVERHEAD_BYTES_MAX);
        let (stream, key) = (format!("OBJ_{store}"), URL_SAFE.encode(name));
        let stored = self.stored(&stream, Which::Last(&format!("$O.{store}.M.{key}"))).await;
        let Some(stored) = stored.map_err(|trouble| trouble.or(self.no_config()))? else {
            return Ok(None);
        };
        let info: ObjectInfo = serde_json::from_slice(&stored.payload).map_err(failed)?;
        if info.deleted {
            return Ok(None);
        }
        if info.size > most {
            return Err(FleetError::Config(format!("the bundle {name} has {} bytes", info.size)));
        }
        let subject = format!("$O.{store}.C.{}", info.nuid);
        let (mut bytes, mut from) = (Vec::new(), 1);
        while bytes.len() < info.size {
            let chunk = self.stored(&stream, Which::Next { from, subject: &subject }).await?;
            let Some(chunk) = chunk.filter(|chunk| !chunk.payload.is_empty()) else { break };
            bytes.extend(chunk.payload);
            from = chunk.number + 1;
        }
        if bytes.len() != info.size {
            return Err(FleetError::Server(format!("the bundle {name} came in part only")));
        }
        Ok(Some(bytes))
    }
}
