//! The edge router, at its socket: a line of JSON there, one back.

use freshet_documents::problem::Problem;
use freshet_platform::PacketPath;
use freshet_radio::CLIENTS_MAX;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// The version of what is said at the socket.
const VERSION: u32 = 1;
/// How long an answer may take: rules are compiled and swapped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// How long no packet of a connection came, after which the connection is taken for over. A radio network may
/// be silent for a second between two.
const QUIET_MS: u64 = 2000;
/// Pause between two looks whether none came.
const QUIET_PAUSE: Duration = Duration::from_millis(100);
/// No generation: rules were not set yet.
const NONE: u64 = u64::MAX;

/// Why the edge router has not the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// It refuses them.
    #[error("{0}")]
    ClientRules(String),
    /// No edge router is configured.
    #[error("no edge router is configured: `router` names its socket")]
    ConfigNone,
    /// It does not do what it is asked, and says why.
    #[error("{0}")]
    LocalRefusal(String),
    /// It cannot be asked.
    #[error("{}: {why}", path.display())]
    LocalSocket {
        /// Its socket.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
}

impl RouterError {
    /// What a client is told.
    pub(super) fn problem(&self) -> Problem {
        match self {
            Self::ClientRules(_) => {
                Problem::new(422, format!("the edge router refuses the rules: {self}"))
            }
            Self::LocalRefusal(why) => {
                Problem::new(503, format!("the edge router does not do it: {why}"))
            }
            _ => {
                tracing::error!(error = %self, "the edge router cannot be asked");
                Problem::new(503, "the rule is not in force: the edge router cannot be asked")
            }
        }
    }
}

/// The way to the edge router.
#[derive(Debug)]
pub(super) struct Router {
    socket: Option<PathBuf>,
    /// What it calls the set of rules it got from here last.
    generation: AtomicU64,
    known: Mutex<Known>,
}

/// What it got from here besides rules.
#[derive(Debug, Default)]
struct Known {
    /// Apps; of those that are known by name only it says that it has them.
    apps: BTreeMap<String, Option<Value>>,
    tags: BTreeMap<String, BTreeSet<String>>,
}

impl Router {
    pub(super) fn new(socket: Option<PathBuf>) -> Self {
        Self { socket, generation: AtomicU64::new(NONE), known: Mutex::default() }
    }

    /// Has apps added, clients tagged, all rules replaced, and apps removed that are not wanted any more;
    /// when this returns, packets meet it. Without a router there are only rules that are not active to be
    /// had.
    pub(super) async fn set(&self, path: &PacketPath) -> Result<(), RouterError> {
        let Some(socket) = &self.socket else {
            let is_active =
                path.rules.as_array().into_iter().flatten().any(|rule| rule["state"] == "ACTIVE");
            let is_tagged = path.tags.values().any(|tags| !tags.is_empty());
            return if is_active || is_tagged { Err(RouterError::ConfigNone) } else { Ok(()) };
        };
        // What does not come to its end is done anew by whoever comes next.
        let generation = self.generation.swap(NONE, Relaxed);
        let mut known = self.known.lock().await;
        if generation == NONE {
            let status = ask(socket, &json!({ "ask": "status" })).await?;
            *known = Known {
                apps: added(&status).map(|name| (name, None)).collect(),
                ..Known::default()
            };
        }
        for (name, app) in &path.apps {
            if known.apps.get(name).and_then(Option::as_ref) != Some(app) {
                ask(socket, &json!({ "ask": "add-app", "name": name, "app": app })).await?;
                known.apps.insert(name.clone(), Some(app.clone()));
            }
        }
        for (client, tags) in &path.tags {
            if known.tags.get(client) != Some(tags) {
                known.tags.remove(client);
                ask(socket, &json!({ "ask": "tag", "client": client, "tags": tags })).await?;
                known.tags.insert(client.clone(), tags.clone());
            }
        }
        let question = json!({ "ask": "set-rules", "rules": path.rules, "limits": path.limits });
        let answer = ask(socket, &question).await?;
        let over: Vec<String> =
            known.apps.keys().filter(|name| !path.apps.contains_key(*name)).cloned().collect();
        for name in over {
            ask(socket, &json!({ "ask": "remove-app", "name": name })).await?;
            known.apps.remove(&name);
        }
        // Where it is not the next one the router was another's meanwhile, or was started anew.
        let next = answer["generation"]
            .as_u64()
            .filter(|next| generation == NONE || *next == generation.wrapping_add(1));
        self.generation.store(next.unwrap_or(NONE), Relaxed);
        Ok(())
    }

    /// All of it is set anew by whoever comes next: the router may have been started anew.
    pub(super) fn forget(&self) {
        self.generation.store(NONE, Relaxed);
    }

    /// Whether an app got no packet for a while that no rule leads to it any more, since so many milliseconds
    /// at the least. Nothing is kept with one that is not behind a router, or behind one that is gone.
    pub(super) async fn is_quiet(&self, app: &str, since_ms: u64) -> bool {
        let Some(socket) = &self.socket else { return true };
        if !self.known.lock().await.apps.contains_key(app) {
            return true;
        }
        if since_ms < QUIET_MS {
            return false;
        }
        let Ok(status) = ask(socket, &json!({ "ask": "status" })).await else { return true };
        let is_quiet = status["kept_ms"][app].as_u64().is_none_or(|ago_ms| ago_ms >= QUIET_MS);
        if !is_quiet {
            sleep(QUIET_PAUSE).await;
        }
        is_quiet
    }

    /// Clients' sessions, where it can be asked.
    pub(super) async fn sessions(&self) -> Option<Value> {
        ask(self.socket.as_ref()?, &json!({ "ask": "sessions", "limit": CLIENTS_MAX })).await.ok()
    }

    /// Whether it has what was set from here last; if not, all of it is to be set anew.
    pub(super) async fn has_ours(&self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let known = self.known.lock().await;
        let generation = self.generation.load(Relaxed);
        ask(socket, &json!({ "ask": "status" })).await.is_ok_and(|status| {
            generation != NONE
                && status["generation"] == generation
                && added(&status).eq(known.apps.keys().cloned())
        })
    }
}

/// Apps that a router has besides those of its configuration, in their order.
fn added(status: &Value) -> impl Iterator<Item = String> {
    let names = status["added"].as_array().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned))
}

async fn ask(socket: &Path, question: &Value) -> Result<Value, RouterError> {
    let wrong = |why: String| RouterError::LocalSocket { path: socket.to_owned(), why };
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        let mut question = question.clone();
        question["version"] = VERSION.into();
        stream.write_all(format!("{question}\n").as_bytes()).await?;
        let mut line = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut line).await?;
        Ok::<_, std::io::Error>(line)
    };
    let line = timeout(ANSWER_TIMEOUT, asking).await;
    let line = line
        .map_err(|_| wrong("it does not answer".to_owned()))?
        .map_err(|error| wrong(error.to_string()))?;
    let answer: Value =
        serde_json::from_slice(&line).map_err(|error| wrong(format!("no answer: {error}")))?;
    if let Some(error) = answer["error"].as_str() {
        let mistakes = answer["mistakes"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mistakes: Vec<String> = mistakes
            .map(|one| format!("{}: {}", text(&one["place"]), text(&one["what"])))
            .collect();
        return Err(if mistakes.is_empty() {
            RouterError::LocalRefusal(error.to_owned())
        } else {
            RouterError::ClientRules(mistakes.join("; "))
        });
    }
    Ok(answer["answer"].clone())
}
