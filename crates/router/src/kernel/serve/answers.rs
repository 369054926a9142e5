//! Questions on the socket, and their answers.

use super::Running;
use super::trace::trace;
use crate::kernel::control::{Refused, RuleSet};
use crate::kernel::programs::{Count, KernelError};
use crate::kernel::protocol::{
    Answer, Ask, QUESTION_BYTES_MAX, Question, RuleShown, SessionShown, SessionTold, Status,
    VERSION,
};
use crate::packet::AddressOf;
use crate::rule::check;
use crate::session::learn::Told;
use crate::session::network::Networks;
use crate::session::{Authority, Client};
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a question may take to arrive, and its answer to leave: meanwhile nobody says that apps are
/// alive.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(250);

impl Running {
    pub(super) fn answer(&mut self, stream: UnixStream) {
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(QUESTION_TIMEOUT));
        let _ = stream.set_write_timeout(Some(QUESTION_TIMEOUT));
        let mut asked = Vec::new();
        let mut reader = BufReader::new((&stream).take(QUESTION_BYTES_MAX));
        if reader.read_until(b'\n', &mut asked).is_err() {
            return;
        }
        let answer = match serde_json::from_slice::<Question>(&asked) {
            Ok(Question { version: VERSION, ask: Ask::Follow { after } }) => {
                return self.events.follow(stream, after);
            }
            Ok(question) if question.version == VERSION => self.answer_to(question.ask),
            Ok(question) => Err(Refusal::words(format!(
                "version {} is not spoken here; this router speaks {VERSION}",
                question.version
            ))),
            Err(error) => Err(Refusal::words(format!("not understood: {error}"))),
        };
        // Who does not wait for the answer does not get it.
        let _ = (&stream).write_all(&line(answer));
    }

    fn answer_to(&mut self, ask: Ask) -> Result<serde_json::Value, Refusal> {
        match ask {
            Ask::Status => json(&self.status()?),
            Ask::Rules => {
                let control = &mut self.attached.control;
                let shown = control.rules.iter().map(|rule| {
                    let count = control.programs.rule_count(rule.number)?;
                    Ok(RuleShown { id: rule.id.clone(), active: rule.is_active, count })
                });
                json(&shown.collect::<Result<Vec<_>, KernelError>>()?)
            }
            Ask::SetRules { rules, limits } => {
                let rules = check::read(rules).map_err(Refusal::mistakes)?;
                let set = RuleSet { rules, limits };
                let generation =
                    self.attached.control.set_rules(set).map_err(|refused| match refused {
                        Refused::Mistakes(mistakes) => Refusal::mistakes(mistakes),
                        Refused::Kernel(error) => Refusal::from(error),
                    })?;
                self.save();
                self.want_names();
                self.events.add("rules", generation.to_string());
                json(&serde_json::json!({ "generation": generation }))
            }
            Ask::Sessions { limit, client } => json(&self.sessions(limit, client.as_deref())?),
            Ask::AddSession(told) => {
                let told = read_told(&self.attached.control.networks, &told)?;
                self.attached.control.tell(told, Authority::Operator)?;
                json(
                    &serde_json::json!({ "used": self.attached.control.sessions.get(told.client).is_some() }),
                )
            }
            Ask::RemoveSession { client } => {
                let client = self.client(&client)?;
                json(&serde_json::json!({
                    "removed": self.attached.control.forget(client, Authority::Learnt)?
                }))
            }
            Ask::Tag { client, tags } => {
                let client = self.client(&client)?;
                if tags.len() > crate::rule::LIST_MAX {
                    return Err(Refusal::words(format!(
                        "{} tags are the most",
                        crate::rule::LIST_MAX
                    )));
                }
                self.attached.control.tag(client, tags)?;
                self.save();
                json(&serde_json::json!({}))
            }
            Ask::AddApp { name, app } => json(&self.add_app(name, app)?),
            Ask::RemoveApp { name } => json(&self.remove_app(&name)?),
            Ask::Trace(traced) => {
                let watched = &self.watched;
                let is_alive = |app| watched.get(&app).is_some_and(|one| one.is_alive);
                json(&trace(&mut self.attached.control, is_alive, &traced)?)
            }
            Ask::Follow { .. } => Err(Refusal::words("only a connection of its own follows")),
            Ask::Events { after } => json(&self.events.after(after)),
        }
    }

    fn status(&mut self) -> Result<Status, KernelError> {
        let control = &mut self.attached.control;
        let counters = control.programs.reasons()?;
        let kept_ms = control.kept_ms()?;
        let names = ["access", "core", "apps"];
        let shown = |list: Vec<(crate::model::Reason, Count)>| {
            let used = list.into_iter().filter(|(_, count)| count.packets > 0);
            used.map(|(reason, count)| (reason.name(), count)).collect()
        };
        let names_of = self.attached.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        Ok(Status {
            generation: control.generation,
            rules: control.rules.len(),
            sessions: control.sessions.len(),
            ports: names_of.try_into().expect("the wire has two ends"),
            off_wire: self.off_wire.clone(),
            adopted: self.attached.adopted,
            apps: control
                .apps
                .iter()
                .map(|(number, app)| {
                    let is_alive = self.watched.get(&number).is_some_and(|one| one.is_alive);
                    (app.name.clone(), is_alive)
                })
                .collect(),
            kept_ms,
            added: control.added.keys().cloned().collect(),
            learning: control.learning,
            counters: names.into_iter().zip(counters.map(shown)).collect(),
            pfcp: self.copies_read,
        })
    }

    fn sessions(&mut self, limit: usize, only: Option<&str>) -> Result<Vec<SessionShown>, Refusal> {
        const LIMIT_MAX: usize = 10_000;
        let only = only.map(|text| self.client(text)).transpose()?;
        let control = &mut self.attached.control;
        let mut found: Vec<_> = control
            .sessions
            .iter()
            .filter(|(session, _)| only.is_none_or(|client| client == session.client))
            .collect();
        found.sort_unstable_by_key(|(session, _)| session.client);
        found.truncate(limit.min(LIMIT_MAX));
        let shown = found.into_iter().map(|(session, authority)| {
            Ok(SessionShown {
                client: control.networks.text(session.client),
                authority,
                ends: session.path.ends.map(|end| AddressOf(end).to_string()),
                teids: session.teids,
                qfi: session.qfi,
                form: session.form,
                tags: control.sessions.tags(session.client).to_vec(),
                usage: control.usage(session.client)?,
            })
        });
        Ok(shown.collect::<Result<Vec<_>, KernelError>>()?)
    }

    fn client(&self, text: &str) -> Result<Client, Refusal> {
        read_client(&self.attached.control.networks, text)
    }
}

/// Why a question got no answer.
pub(super) struct Refusal {
    words: String,
    mistakes: Vec<check::Mistake>,
}

impl Refusal {
    pub(super) fn words(words: impl Into<String>) -> Self {
        Self { words: words.into(), mistakes: Vec::new() }
    }

    fn mistakes(mistakes: Vec<check::Mistake>) -> Self {
        Self { words: "the rules have mistakes; none was taken".to_owned(), mistakes }
    }
}

impl From<KernelError> for Refusal {
    fn from(error: KernelError) -> Self {
        Self::words(error.to_string())
    }
}

/// An answer as it is sent.
pub(super) fn line<T: Serialize>(answer: Result<T, Refusal>) -> Vec<u8> {
    let answer = match answer {
        Ok(value) => {
            Answer { version: VERSION, answer: Some(value), error: None, mistakes: Vec::new() }
        }
        Err(Refusal { words, mistakes }) => {
            Answer { version: VERSION, answer: None, error: Some(words), mistakes }
        }
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    text
}

fn json(value: &impl Serialize) -> Result<serde_json::Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::words(error.to_string()))
}

/// A client as people write it.
pub(super) fn read_client(networks: &Networks, text: &str) -> Result<Client, Refusal> {
    networks.client(text).ok_or_else(|| {
        let unknown = text.split_once('@').filter(|(_, name)| networks.number(name).is_none());
        Refusal::words(match unknown {
            Some((_, name)) => format!("`{text}`: there is no network `{name}`"),
            None => format!("`{text}` is no client's address"),
        })
    })
}

fn read_told(networks: &Networks, told: &SessionTold) -> Result<Told, Refusal> {
    let [access, core] = told.ends;
    if access.is_ipv4() != core.is_ipv4() {
        return Err(Refusal::words("ends: both must be of one IP version"));
    }
    Ok(Told {
        client: read_client(networks, &told.client)?,
        teids: told.teids,
        ends: [AddressOf::from(access).0, AddressOf::from(core).0],
        qfi: told.qfi & 0x3f,
        form: told.form,
    })
}
