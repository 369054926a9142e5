//! A connection to the servers of a fleet, and what everything there is called.

use super::asked::Which;
use crate::config::ConfigState;
use crate::entry::EntryError;
use crate::entry::{Digest, Place, place};
use crate::identity::{IdentityError, Verifier};
use crate::member::Answer;
use crate::signature::{Saying, SignatureError, Signers, SigningKey};
use crate::upgrade::{Process, Standing};
use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, ServerError, Subscriber};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;

/// How long the servers may take to answer a question.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Longest name of a fleet and of a node.
const NAME_BYTES_MAX: usize = 64;
/// How long the reason of a failure may be on its way behind that.
const DENIED_WITHIN: Duration = Duration::from_millis(250);

/// Which servers, and which fleet of theirs.
#[derive(Clone, Debug, Default)]
pub struct LinkSettings {
    /// `nats://host:4222` or `tls://host:4222`, any of which will do.
    pub servers: Vec<String>,
    /// Name of the fleet: letters, digits, `-` and `_`.
    pub fleet: String,
    /// File with a user's credentials, as `nsc` makes it.
    pub credentials: Option<PathBuf>,
    /// PEM file of the authorities to trust.
    pub ca: Option<PathBuf>,
    /// PEM files of our certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What the subjects of answers to us begin with, where it is not `_INBOX`.
    pub inbox: Option<&'static str>,
    /// What is said here is signed with this.
    pub key: Option<SigningKey>,
    /// Who is believed; everybody who may write to the servers, where there are none.
    pub signers: Signers,
    /// PEM file with the certificate of the fleet's issuing key: what nodes say of themselves is believed only where they
    /// have signed it. Without it whoever may publish it is believed.
    pub issuer: Option<PathBuf>,
}

/// What went wrong with a fleet.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A name that subjects cannot have.
    #[error(
        "`{0}` is no name of a fleet or node: 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
    )]
    ConfigName(String),
    /// A file of credentials or certificates.
    #[error("{0}")]
    ConfigFile(std::io::Error),
    /// A thread.
    #[error("a thread for the fleet could not be started: {0}")]
    LocalThread(std::io::Error),
    /// No server could be reached.
    #[error("no server of the fleet can be reached: {0}")]
    Unreachable(String),
    /// The servers do not know the fleet.
    #[error("there is no fleet `{0}` on these servers: `freshet fleet init` makes one")]
    NoFleet(String),
    /// The servers refused or did not answer.
    #[error("the servers of the fleet: {0}")]
    Server(String),
    /// The servers do not let who we are do it.
    #[error("this identity may not do that: an operator's is needed (the servers: {0})")]
    Denied(String),
    /// The servers have no room for it.
    #[error(
        "the servers of the fleet have no room ({0}): nothing was accepted; raise `max_file_store` of their \
         `jetstream` or make room on their disks"
    )]
    Full(String),
    /// Others published all the time.
    #[error("others were quicker: try again")]
    Contended,
    /// The servers have no place for configurations.
    #[error("the fleet `{0}` keeps no configurations: `freshet fleet init` has it keep them")]
    NoConfig(String),
    /// Nobody answers who has the issuing key.
    #[error(
        "nobody answers for the fleet `{0}` who gives certificates: `freshet fleet issuer run` does, on the machine \
         that has the issuing key"
    )]
    NoIssuer(String),
    /// A token, a folder of certificates, a refusal.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What is kept of a configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// Nobody who is believed has signed a group's document.
    #[error("the document of group `{group}`: {error}")]
    Signature {
        /// The group.
        group: String,
        /// Why.
        error: SignatureError,
    },
    /// The system gives no random bytes.
    #[error("there are no random bytes to be had")]
    LocalRandom,
    /// The entry is not one.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The answer to a publication did not come.
    #[error("whether it was accepted is not known ({0}): the same again does no harm")]
    Unknown(String),
}

/// What a node says of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub node: String,
    /// The last entry it has carried out, and all before it; 0 where it is in doubt.
    pub sequence: u64,
    /// Whether its fence is up.
    pub fenced: bool,
    /// Its version.
    pub version: String,
    /// How much of what its processors can do it did lately, percent; nothing where it does not say.
    #[serde(default)]
    pub load_percent: Option<u8>,
    /// How its configuration is, where it gets it from the fleet.
    #[serde(default)]
    pub config: Option<ConfigState>,
    /// Which process it is, where it can be upgraded over the fleet.
    #[serde(default)]
    pub process: Option<Process>,
    /// The version of the program that ran before its own, where it can go back to that.
    #[serde(default)]
    pub before: Option<String>,
    /// How it stands to an upgrade that it was asked for.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// Whether it was told to want no new clients.
    #[serde(default)]
    pub drained: bool,
    /// The numbers of the entries that it did not believe, the last [`REFUSED_TOLD_MAX`].
    ///
    /// [`REFUSED_TOLD_MAX`]: crate::limits::REFUSED_TOLD_MAX
    #[serde(default)]
    pub refused: Vec<u64>,
    /// The numbers of the entries that are about sites which it does not have, the last [`REFUSED_TOLD_MAX`].
    ///
    /// [`REFUSED_TOLD_MAX`]: crate::limits::REFUSED_TOLD_MAX
    #[serde(default)]
    pub not_meant: Vec<u64>,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) client: Client,
    pub(super) context: Context,
    fleet: String,
    key: Option<SigningKey>,
    pub(super) signers: Signers,
    /// Knows what it has verified for as long as the connection is there.
    pub(super) verifier: Option<Arc<Verifier>>,
    /// What the servers have refused last of what was sent, in their words.
    denied: watch::Receiver<Option<String>>,
}

impl Link {
    /// Connects. With `keeps_trying` it returns at once and goes on until there is a server.
    ///
    /// # Errors
    /// Names, files, and servers that cannot be reached.
    pub async fn connect(settings: &LinkSettings, keeps_trying: bool) -> Result<Self, FleetError> {
        if !is_name(&settings.fleet) {
            return Err(FleetError::ConfigName(settings.fleet.clone()));
        }
        let verifier = settings.issuer.as_deref().map(|ca| Verifier::new(&settings.fleet, ca));
        let verifier = verifier.transpose()?.map(Arc::new);
        let mut options = ConnectOptions::new()
            .name("freshet")
            .connection_timeout(ANSWER_WITHIN)
            .request_timeout(Some(ANSWER_WITHIN));
        if let Some(file) = &settings.credentials {
            options = options.credentials_file(file).await.map_err(FleetError::ConfigFile)?;
        }
        if let Some(ca) = &settings.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &settings.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        if let Some(inbox) = settings.inbox {
            options = options.custom_inbox_prefix(inbox);
        }
        if keeps_trying {
            options = options.retry_on_initial_connect();
        }
        // Servers say it beside all answers, which then never come.
        let (denies, denied) = watch::channel(None);
        options = options.event_callback(move |event| {
            if let Event::ServerError(ServerError::Other(why)) = event
                && why.to_ascii_lowercase().starts_with("permissions violation")
            {
                denies.send_replace(Some(why));
            }
            std::future::ready(())
        });
        let client = options
            .connect(settings.servers.clone())
            .await
            .map_err(|error| FleetError::Unreachable(error.to_string()))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER_WITHIN);
        Ok(Self {
            client,
            context,
            fleet: settings.fleet.clone(),
            key: settings.key.clone(),
            signers: settings.signers.clone(),
            verifier,
            denied,
        })
    }

    /// Does what takes an operator's rights, until the servers say that we have none.
    ///
    /// # Errors
    /// [`FleetError::Denied`], or what went wrong with it.
    pub async fn permitted<T, E: From<FleetError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut denied = self.denied.clone();
        let is_denied = async {
            match denied.wait_for(Option::is_some).await {
                Ok(why) => FleetError::Denied(why.clone().unwrap_or_default()),
                // The connection has ended; the work hears of it.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::pin!(is_denied);
        let outcome = tokio::select! {
            outcome = work => outcome,
            error = &mut is_denied => return Err(error.into()),
        };
        // What follows from that may be known before the reason.
        match outcome {
            Ok(done) => Ok(done),
            Err(error) => match tokio::time::timeout(DENIED_WITHIN, is_denied).await {
                Ok(denied) => Err(denied.into()),
                Err(_) => Err(error),
            },
        }
    }

    /// Why there is no connection that keeps trying, as one that does not is told; nothing where there is one.
    pub(super) async fn trouble(&self, settings: &LinkSettings) -> Option<String> {
        if self.client.connection_state() == State::Connected {
            return None;
        }
        Self::connect(settings, false).await.err().map(|error| error.to_string())
    }

    pub(super) fn stream_name(&self) -> String {
        format!("FRESHET_{}", self.fleet)
    }

    pub(super) fn list_name(&self) -> String {
        format!("FRESHET_{}_nodes", self.fleet)
    }

    /// A subject of the fleet.
    pub(super) fn subject(&self, what: &str) -> String {
        format!("freshet.{}.{what}", self.fleet)
    }

    /// What comes under a subject of the fleet. Where that cannot be had it is tried again each `pause`, and
    /// the log says what is `lacking`.
    pub(super) async fn subscribed(
        &self,
        what: &str,
        pause: Duration,
        lacking: &'static str,
    ) -> Subscriber {
        loop {
            match self.client.subscribe(self.subject(what)).await {
                Ok(subscriber) => return subscriber,
                Err(error) => {
                    tracing::warn!(%error, "{lacking}");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// The fleet's name.
    pub(super) fn fleet(&self) -> &str {
        &self.fleet
    }

    /// What is said, signed where there is a key.
    pub(super) fn signed(&self, saying: Saying<'_>, said: Vec<u8>) -> Vec<u8> {
        match &self.key {
            Some(key) => key.sign(&self.fleet, saying, &said),
            None => said,
        }
    }

    /// What is said, where it is believed.
    pub(super) fn believed<'a>(
        &self,
        saying: Saying<'_>,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], SignatureError> {
        self.signers.believe(&self.fleet, saying, bytes)
    }

    /// Where the log begins and ends, by its leader.
    ///
    /// # Errors
    /// There is no such log, or no answer.
    pub async fn ask(&self) -> Result<Answer, FleetError> {
        let name = self.stream_name();
        // In this order: what the log forgets in between is older than its end.
        let info = self.info(&name).await.map_err(|trouble| trouble.or(self.no_fleet()))?;
        let heard_ms =
            info.heard_ms().ok_or_else(|| failed("its leader has heard of no majority"))?;
        let state = info.state;
        // By its number, whatever its subject: what is published comes behind all that the log has.
        let end = Which::Next { from: state.last.max(1), subject: ">" };
        let last = self.stored(&name, end).await?;
        let last = match last {
            Some(stored) => place(stored.number, &stored.payload),
            None => Place { sequence: state.last, digest: Digest::default() },
        };
        Ok(Answer { first: state.first.max(1), last, heard_ms })
    }

    /// The names of all nodes that belong to the fleet.
    ///
    /// # Errors
    /// There is no such fleet, or no answer.
    pub async fn nodes(&self) -> Result<Vec<String>, FleetError> {
        let subjects = self.subjects(&self.list_name(), &self.subject("node.*")).await;
        let subjects = subjects.map_err(|trouble| trouble.or(self.no_fleet()))?;
        let name = |subject: String| subject.rsplit('.').next().map(str::to_owned);
        let mut names: Vec<_> = subjects.into_iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Has a node belong to the fleet, or no more.
    ///
    /// # Errors
    /// There is no such fleet, or no answer.
    pub async fn set_member(&self, node: &str, belongs: bool) -> Result<(), FleetError> {
        if !is_name(node) {
            return Err(FleetError::ConfigName(node.to_owned()));
        }
        let subject = self.subject(&format!("node.{node}"));
        if belongs {
            let sent = self.context.publish(subject, bytes::Bytes::new()).await;
            sent.map_err(failed)?.await.map_err(failed)?;
        } else {
            let stream = self.context.get_stream_no_info(self.list_name()).await.map_err(failed)?;
            stream.purge().filter(subject).await.map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn no_fleet(&self) -> FleetError {
        FleetError::NoFleet(self.fleet.clone())
    }
}

/// The servers refused, or did not answer.
pub(super) fn failed(error: impl Display) -> FleetError {
    FleetError::Server(error.to_string())
}

/// Whether a fleet or a node may be called so.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
