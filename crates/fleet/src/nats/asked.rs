//! Questions to the servers' JetStream, which are all that a node asks of it.
//!
//! Where nodes have an account of their own ([`Issuer`](crate::identity::Issuer)) a question is answered twice: for
//! that account, which has no streams, and for the one that has them and lets nodes ask after some. The library takes
//! the first answer; here the first that is about streams counts. Nothing is delivered, by no consumer: who may have the
//! servers deliver may have them say anything anywhere.

use super::link::{ANSWER_WITHIN, FleetError, Link, failed};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::{StatusCode, jetstream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::{Instant, timeout_at};

/// Which message of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    /// That of this number.
    Number(u64),
    /// The last of a subject.
    Last(&'a str),
    /// The first of a subject from a number on.
    Next { from: u64, subject: &'a str },
}

/// A message as a stream keeps it.
#[derive(Debug, Deserialize)]
pub(super) struct Stored {
    pub(super) subject: String,
    #[serde(rename = "seq")]
    pub(super) number: u64,
    #[serde(default, rename = "data", deserialize_with = "bytes")]
    pub(super) payload: Vec<u8>,
}

/// What a stream says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    pub(super) state: State,
    /// Subjects there are, of those that were asked after.
    #[serde(default)]
    total: usize,
    #[serde(default)]
    cluster: Cluster,
}

/// The servers that have it.
#[derive(Debug, Default, Deserialize)]
struct Cluster {
    /// Besides the leader.
    #[serde(default)]
    replicas: Vec<Replica>,
}

#[derive(Debug, Deserialize)]
struct Replica {
    /// How long ago the leader heard from it, in ns; 0 is never.
    active: u64,
}

impl Info {
    /// How long ago the leader and those that it has heard from since were a majority, in ms rounded up; nothing where
    /// they never were.
    pub(super) fn heard_ms(&self) -> Option<u64> {
        let replicas = &self.cluster.replicas;
        let mut heard_ns: Vec<_> =
            replicas.iter().map(|replica| replica.active).filter(|ago_ns| *ago_ns > 0).collect();
        heard_ns.sort_unstable();
        // Of three servers one besides the leader, of five two.
        match replicas.len().div_ceil(2) {
            0 => Some(0),
            needed => heard_ns.get(needed - 1).map(|ago_ns| ago_ns.div_ceil(1_000_000)),
        }
    }
}

/// What is in it.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    #[serde(rename = "first_seq")]
    pub(super) first: u64,
    #[serde(rename = "last_seq")]
    pub(super) last: u64,
    #[serde(default)]
    subjects: BTreeMap<String, u64>,
}

/// Why there is no answer that says something.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no such stream.
    NoStream,
    /// What the servers say, or that they say nothing.
    Server(String),
}

impl Trouble {
    /// As an error, where this is what it means that there is no stream.
    pub(super) fn or(self, no_stream: FleetError) -> FleetError {
        match self {
            Self::NoStream => no_stream,
            Self::Server(why) => FleetError::Server(why),
        }
    }
}

impl From<Trouble> for FleetError {
    fn from(trouble: Trouble) -> Self {
        trouble.or(failed("there is no such stream"))
    }
}

impl Link {
    /// Where a stream begins and ends, by its leader.
    pub(super) async fn info(&self, stream: &str) -> Result<Info, Trouble> {
        read(self.question(&format!("STREAM.INFO.{stream}"), &json!({})).await?)
    }

    /// All subjects of a stream below `filter`.
    pub(super) async fn subjects(
        &self,
        stream: &str,
        filter: &str,
    ) -> Result<Vec<String>, Trouble> {
        let mut all = Vec::new();
        loop {
            let asked = json!({ "subjects_filter": filter, "offset": all.len() });
            let info: Info = read(self.question(&format!("STREAM.INFO.{stream}"), &asked).await?)?;
            let is_last = info.state.subjects.is_empty();
            all.extend(info.state.subjects.into_keys());
            if is_last || all.len() >= info.total {
                return Ok(all);
            }
        }
    }

    /// A message of a stream, by its leader; nothing where there is none.
    pub(super) async fn stored(
        &self,
        stream: &str,
        which: Which<'_>,
    ) -> Result<Option<Stored>, Trouble> {
        #[derive(Deserialize)]
        struct Answer {
            message: Stored,
        }
        let asked = match which {
            Which::Number(number) => json!({ "seq": number }),
            Which::Last(subject) => json!({ "last_by_subj": subject }),
            Which::Next { from, subject } => json!({ "seq": from, "next_by_subj": subject }),
        };
        match self.question(&format!("STREAM.MSG.GET.{stream}"), &asked).await? {
            Response::Err { error } if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => {
                Ok(None)
            }
            answer => read::<Answer>(answer).map(|answer| Some(answer.message)),
        }
    }

    async fn question(&self, what: &str, asked: &Value) -> Result<Response<Value>, Trouble> {
        let server = |error: &dyn std::fmt::Display| Trouble::Server(error.to_string());
        let until = Instant::now() + ANSWER_WITHIN;
        let mut why = "no answer in time".to_owned();
        let answered = async {
            let inbox = self.client.new_inbox();
            let mut answers =
                self.client.subscribe(inbox.clone()).await.map_err(|error| server(&error))?;
            let (subject, asked) = (format!("$JS.API.{what}"), asked.to_string().into());
            let sent = self.client.publish_with_reply(subject, inbox, asked).await;
            sent.map_err(|error| server(&error))?;
            while let Some(message) = answers.next().await {
                if message.status == Some(StatusCode::NO_RESPONDERS) {
                    return Err(Trouble::NoStream);
                }
                let answer = serde_json::from_slice(&message.payload);
                match answer.map_err(|error| server(&error))? {
                    Response::Err { error } if is_of_account(&error) => why = error.to_string(),
                    answer => return Ok(answer),
                }
            }
            Err(server(&"the connection has ended"))
        };
        let answered = timeout_at(until, answered).await;
        answered.unwrap_or(Err(Trouble::Server(why)))
    }
}

/// Whether an account that has no streams says so.
fn is_of_account(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
}

fn read<T: DeserializeOwned>(answer: Response<Value>) -> Result<T, Trouble> {
    match answer {
        Response::Ok(answer) => {
            serde_json::from_value(answer).map_err(|error| Trouble::Server(error.to_string()))
        }
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            Err(Trouble::NoStream)
        }
        Response::Err { error } => Err(Trouble::Server(error.to_string())),
    }
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_one_as_of_when_it_heard_from_a_majority() {
        let heard_ms = |active: &[u64]| {
            let replicas: Vec<_> = active.iter().map(|ns| json!({ "active": ns })).collect();
            let said = json!({ "state": { "first_seq": 0, "last_seq": 0 }, "cluster": { "replicas": replicas } });
            serde_json::from_value::<Info>(said).expect("it is one").heard_ms()
        };
        assert_eq!(heard_ms(&[]), Some(0));
        assert_eq!(heard_ms(&[30_000_000_000, 500_000_001]), Some(501));
        assert_eq!(heard_ms(&[12_000_000_000, 12_000_000_000]), Some(12_000));
        assert_eq!(heard_ms(&[1_000_000, 2_000_000, 3_000_000, 4_000_000]), Some(2));
        // One that was never heard from is none.
        assert_eq!(heard_ms(&[0, 7_000_000]), Some(7));
        assert_eq!(heard_ms(&[0, 0]), None);
        let alone = r#"{ "state": { "first_seq": 1, "last_seq": 2 } }"#;
        assert_eq!(serde_json::from_str::<Info>(alone).expect("it is one").heard_ms(), Some(0));
    }
}
