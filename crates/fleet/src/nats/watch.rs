//! What nodes say, as they say it, for who sees to a roll-out.

use super::link::{FleetError, Link, Report};
use super::states::{Said, States};
use crate::identity::Disbelief;
use async_nats::Subscriber;
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// What is heard of nodes.
#[derive(Debug)]
pub struct Watch {
    states: States,
    changes: Option<Subscriber>,
}

/// What was heard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Heard {
    /// A node of the fleet, of whatever group, says how it is.
    Report(Box<Report>),
    /// Something was said in a node's name that is not believed.
    Disbelieved {
        /// The node.
        node: String,
        /// Why.
        why: Disbelief,
    },
    /// Somebody has changed the group's document.
    Change,
}

impl Link {
    /// Hears from now on what nodes say, and, of a group, that its document changes. Nodes are called to say
    /// how they are at once.
    ///
    /// # Errors
    /// No server.
    pub async fn watch(&self, group: Option<&str>) -> Result<Watch, FleetError> {
        let mut changes = None;
        if let Some(group) = group {
            let heard = self.client.subscribe(self.subject(&format!("config.{group}"))).await;
            changes = Some(heard.map_err(|error| FleetError::Server(error.to_string()))?);
        }
        let mut states = self.states().await?;
        states.call().await?;
        Ok(Watch { states, changes })
    }
}

impl Watch {
    /// What is heard within `limit`, all of it that is there; nothing where nobody says anything.
    pub async fn heard(&mut self, limit: Duration) -> Vec<Heard> {
        let mut out = Vec::new();
        let Self { states, changes } = self;
        let changed = async {
            match changes.as_mut() {
                Some(changes) => changes.next().await,
                None => std::future::pending().await,
            }
        };
        let first = async {
            tokio::select! {
                Some(_) = changed => Heard::Change,
                said = states.next() => said.into(),
                else => std::future::pending().await,
            }
        };
        match timeout(limit, first).await {
            Ok(first) => out.push(first),
            Err(_) => return out,
        }
        let mut change = || self.changes.as_mut()?.next().now_or_never()?;
        while change().is_some() {
            out.push(Heard::Change);
        }
        while let Some(said) = self.states.next_now() {
            out.push(said.into());
        }
        out
    }
}

impl From<Said> for Heard {
    fn from(said: Said) -> Self {
        match said {
            Said::Report(report) => Self::Report(report),
            Said::Disbelieved { node, why } => Self::Disbelieved { node, why },
        }
    }
}
