//! Documents that one writes and others follow, by key, and files that they speak of.

use super::asked::Which;
use super::link::{FleetError, Link, failed, is_name};
use super::publish::refused;
use crate::signature::Saying;
use async_nats::Subscriber;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{GetErrorKind, ObjectMetadata, ObjectStore};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A bucket and an object store of one name. Documents are read of the leader, never of a replica, which may
/// be behind.
#[derive(Clone, Debug)]
pub struct Shelf {
    link: Link,
    what: &'static str,
}

/// A document as it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Document {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Which one it is: a later one of the same shelf has a higher number.
    pub revision: u64,
}

/// Tells of changes of documents. What it tells may be lost.
#[derive(Debug)]
pub struct Told {
    subscriber: Subscriber,
    /// What subjects begin with, before the key.
    before: usize,
}

impl Told {
    /// The key of a document that has changed.
    pub async fn next(&mut self) -> String {
        match self.subscriber.next().await {
            Some(message) => message.subject.get(self.before..).unwrap_or_default().to_owned(),
            None => std::future::pending().await,
        }
    }
}

impl Link {
    /// A shelf of the fleet; `what` is the end of its name.
    pub fn shelf(&self, what: &'static str) -> Shelf {
        Shelf { link: self.clone(), what }
    }

    /// Makes a bucket of documents of which the last is kept, where it is not there yet.
    pub(super) async fn make_bucket(&self, name: &str, replicas: usize) -> Result<(), FleetError> {
        self.make_stream(format!("KV_{name}"), vec![format!("$KV.{name}.>")], 1, replicas).await
    }

    /// Makes an object store, where it is not there yet.
    pub(super) async fn make_files(&self, name: &str, replicas: usize) -> Result<(), FleetError> {
        let subjects = vec![format!("$O.{name}.C.>"), format!("$O.{name}.M.>")];
        self.make_stream(format!("OBJ_{name}"), subjects, 0, replicas).await
    }

    /// As buckets and object stores are everywhere (ADR-8, ADR-20). The library's own words for it ask what servers
    /// before 2.10 do not answer.
    async fn make_stream(
        &self,
        name: String,
        subjects: Vec<String>,
        each_max: i64,
        replicas: usize,
    ) -> Result<(), FleetError> {
        let config = Config {
            name,
            subjects,
            max_messages_per_subject: each_max,
            storage: StorageType::File,
            num_replicas: replicas,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            allow_direct: true,
            ..Config::default()
        };
        self.context.get_or_create_stream(config).await.map_err(failed)?;
        Ok(())
    }
}

impl Shelf {
    fn name(&self) -> String {
        format!("FRESHET_{}_{}", self.link.fleet(), self.what)
    }

    /// Makes it on so many servers, where it is not there yet.
    ///
    /// # Errors
    /// The servers refuse, or do not answer.
    pub async fn make(&self, replicas: usize) -> Result<(), FleetError> {
        self.make_documents(replicas).await?;
        self.link.make_files(&self.name(), replicas).await
    }

    /// As [`Shelf::make`], without a place for files.
    pub(super) async fn make_documents(&self, replicas: usize) -> Result<(), FleetError> {
        self.link.make_bucket(&self.name(), replicas).await
    }

    /// What is said, signed where there is a key.
    pub fn signed(&self, saying: Saying<'_>, said: Vec<u8>) -> Vec<u8> {
        self.link.signed(saying, said)
    }

    /// What is said, where it is believed.
    ///
    /// # Errors
    /// Nobody who is believed has signed it.
    pub fn believed<'a>(&self, saying: Saying<'_>, said: &'a [u8]) -> Result<&'a [u8], FleetError> {
        self.link.believed(saying, said).map_err(failed)
    }

    /// The last document of a key; nothing where there never was one.
    ///
    /// # Errors
    /// No answer, or no shelf.
    pub async fn read(&self, key: &str) -> Result<Option<Document>, FleetError> {
        let (stream, subject) = (format!("KV_{}", self.name()), self.subject(key)?);
        let stored = self.link.stored(&stream, Which::Last(&subject)).await?;
        Ok(stored.map(|stored| Document { bytes: stored.payload, revision: stored.number }))
    }

    /// Puts a document in the place of the last one, or, with `after`, of the one that has this revision, where 0 is
    /// none; and tells whoever listens. Its revision. When it returns, servers have it on disk.
    ///
    /// # Errors
    /// Another one is there ([`FleetError::Contended`]), or no answer: then it may be there or not.
    pub async fn write(
        &self,
        key: &str,
        bytes: Vec<u8>,
        after: Option<u64>,
    ) -> Result<u64, FleetError> {
        let mut message = PublishMessage::build().payload(bytes.into());
        if let Some(revision) = after {
            message = message.expected_last_subject_sequence(revision);
        }
        let sent = self.link.context.send_publish(self.subject(key)?, message).await;
        let sent = sent.map_err(|error| refused(&error))?.await;
        let revision = match sent {
            Ok(taken) => taken.sequence,
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                return Err(FleetError::Contended);
            }
            Err(error) => return Err(refused(&error)),
        };
        let told = self.link.subject(&format!("{}.{key}", self.what));
        self.link.client.publish(told, bytes::Bytes::new()).await.map_err(failed)?;
        Ok(revision)
    }

    /// Listens for changes of the documents of a key; `*` is any. Where that cannot be had it is tried again each
    /// `pause`.
    pub async fn told(&self, key: &str, pause: Duration) -> Told {
        let what = format!("{}.{key}", self.what);
        let lacking = "changes are not told of, and seen later";
        let subscriber = self.link.subscribed(&what, pause, lacking).await;
        Told { subscriber, before: self.link.subject(&format!("{}.", self.what)).len() }
    }

    /// Keeps a file of so many bytes under its name, unless it is there.
    ///
    /// # Errors
    /// It cannot be read, or the servers do not take it.
    pub async fn put_file(
        &self,
        name: &str,
        bytes: u64,
        file: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), FleetError> {
        let store = self.files().await?;
        let is_there = store.info(name).await;
        if is_there.is_ok_and(|info| !info.deleted && info.size as u64 == bytes) {
            return Ok(());
        }
        let metadata = ObjectMetadata { name: name.to_owned(), ..ObjectMetadata::default() };
        store.put(metadata, file).await.map_err(failed)?;
        Ok(())
    }

    /// The bytes of a file, at most so many; nothing where there is none.
    ///
    /// # Errors
    /// No answer, or it is longer.
    pub async fn file(
        &self,
        name: &str,
        bytes_max: u64,
    ) -> Result<Option<impl AsyncRead + Unpin + Send + use<>>, FleetError> {
        match self.files().await?.get(name).await {
            Ok(object) if object.info().size as u64 > bytes_max => {
                Err(failed(format!("{name} has {} bytes", object.info().size)))
            }
            Ok(object) => Ok(Some(object.take(bytes_max))),
            Err(error) if error.kind() == GetErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes a file, where it is there.
    ///
    /// # Errors
    /// No answer.
    pub async fn remove_file(&self, name: &str) -> Result<(), FleetError> {
        let store = self.files().await?;
        match store.info(name).await {
            Ok(info) if !info.deleted => store.delete(name).await.map_err(failed),
            _ => Ok(()),
        }
    }

    async fn files(&self) -> Result<ObjectStore, FleetError> {
        self.link.context.get_object_store(self.name()).await.map_err(failed)
    }

    /// The subject of a document.
    fn subject(&self, key: &str) -> Result<String, FleetError> {
        match key.split('.').all(is_name) {
            true => Ok(format!("$KV.{}.{key}", self.name())),
            false => Err(FleetError::ConfigName(key.to_owned())),
        }
    }
}
