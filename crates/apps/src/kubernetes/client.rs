//! The interface of a Kubernetes cluster, asked by whoever may wait.
//!
//! Connections are of one thread, which keeps them for the next question. Files are read again where
//! they may have changed: the token for each question, as those of service accounts are replaced while they
//! are used; authorities and certificates after a cluster that could not be asked.

use crate::Trouble;
use freshet_base::file::read_text;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::base_path::BasePath;
use freshet_origin::definition::TlsSettings;
use freshet_origin::pool::Pool;
use freshet_origin::request_body::{BodyProvider, WholeBody};
use freshet_origin::{Origin, OriginError, OriginSettings, exchange};
use serde_json::Value;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// How long a cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 16 << 10;
/// Connections at a time; questions beyond wait.
const CONNECTIONS_MAX: u32 = 8;
/// Longest text that a cluster says and that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 600;
/// Who asks, and who has set which fields, as objects say it.
const MANAGER: &str = "freshet-mec";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Where a cluster is, and who asks it.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Where, how long each step may take, and a certificate of our own.
    pub(crate) server: OriginSettings,
    /// File of a token.
    pub(crate) token: Option<PathBuf>,
}

impl Access {
    /// Whoever asks the server at a URL, whose certificate is of one of the authorities in a file.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(crate) fn new(
        api: &str,
        ca: PathBuf,
        identity: Option<(PathBuf, PathBuf)>,
        token: Option<PathBuf>,
    ) -> Result<Self, String> {
        let (root, path) = match api.strip_prefix("https://").map(|rest| rest.find('/')) {
            None => return Err(format!("`{api}` must be such as https://10.0.0.1:6443")),
            Some(None) => (api, ""),
            Some(Some(at)) => api.split_at("https://".len() + at),
        };
        let mut server: OriginSettings = root.parse().map_err(|error| format!("{error}"))?;
        if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte)) {
            return Err(format!("`{path}` is no path"));
        }
        server.base_path = BasePath::new(path, &[]);
        server.tls = Some(TlsSettings {
            ca: Some(ca),
            client_certificate: identity.map(Box::new),
            ..TlsSettings::default()
        });
        // Whoever asks says so.
        server.logs_outages = false;
        server.connections_max = CONNECTIONS_MAX;
        server.timeouts.queue = PATIENCE;
        server.timeouts.connect = PATIENCE;
        server.timeouts.first_byte = PATIENCE;
        server.timeouts.between_bytes = PATIENCE;
        Ok(Self { server, token })
    }
}

/// Why something is not done in a cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// Who asks may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// There is one of this name.
    #[error("{0}")]
    IsThere(String),
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// A list has changed since its first page, or an object since it was looked at.
    #[error("{0}")]
    Changed(String),
    /// The cluster says no, and why.
    #[error("{0}")]
    Refused(String),
    /// It cannot be asked, or not now.
    #[error("{0}")]
    Away(String),
}

impl From<ClusterError> for Trouble {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Changed(why) | ClusterError::Away(why) => Self::Passing(why),
            other => Self::Lasting(other.to_string()),
        }
    }
}

type Answered = Result<Vec<u8>, ClusterError>;

struct Question {
    method: Method,
    target: String,
    accepted: &'static str,
    body: Option<Vec<u8>>,
}

impl Question {
    /// Whether the server knows by now what it is for.
    fn ready() -> Self {
        Self { method: Method::Get, target: "/readyz".to_owned(), accepted: "*/*", body: None }
    }
}

/// A question, and where its answer goes.
type Asked = (Question, oneshot::Sender<Answered>);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Client {
    questions: mpsc::Sender<Asked>,
}

impl Client {
    /// # Errors
    /// What is wrong with a file, or with this machine.
    pub(crate) fn new(access: Access) -> Result<Self, String> {
        let origin = Origin::new(access.server.clone()).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (questions, asked) = mpsc::channel(CONNECTIONS_MAX as usize);
        let work = move || {
            let asker = Asker { pool: Pool::new(), access, origin: RefCell::new(origin) };
            LocalSet::new().block_on(&runtime, answer_all(Rc::new(asker), asked));
        };
        std::thread::Builder::new()
            .name("kubernetes".to_owned())
            .spawn(work)
            .map_err(|error| error.to_string())?;
        Ok(Self { questions })
    }

    /// A page of a list, of whole objects or of what all kinds have in common.
    pub(crate) fn list(&self, target: &str, is_whole: bool) -> Result<Value, ClusterError> {
        let accepted = if is_whole { JSON } else { METADATA };
        let body = self.ask(Method::Get, target, accepted, None)?;
        serde_json::from_slice(&body).map_err(|error| {
            ClusterError::Away(format!("the cluster's answer to GET {target} is no JSON: {error}"))
        })
    }

    /// A text.
    pub(crate) fn text(&self, target: &str) -> Result<String, ClusterError> {
        let body = self.ask(Method::Get, target, "*/*", None)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Makes an object. A field that the cluster does not know is an error.
    pub(crate) fn create(&self, target: &str, object: &Value) -> Result<(), ClusterError> {
        let target = format!("{target}?fieldManager={MANAGER}&fieldValidation=Strict");
        self.ask(Method::Post, &target, JSON, Some(object)).map(drop)
    }

    /// Has an object be as it is said, which names the version that is replaced.
    pub(crate) fn replace(&self, target: &str, object: &Value) -> Result<(), ClusterError> {
        let target = format!("{target}?fieldManager={MANAGER}&fieldValidation=Strict");
        self.ask(Method::Put, &target, JSON, Some(object)).map(drop)
    }

    /// Changes some members of an object (RFC 7396).
    pub(crate) fn change(&self, target: &str, change: &Value) -> Result<(), ClusterError> {
        let target = format!("{target}?fieldManager={MANAGER}&fieldValidation=Strict");
        self.ask(Method::Patch, &target, JSON, Some(change)).map(drop)
    }

    /// Has an object go; one that is not there is gone.
    pub(crate) fn delete(&self, target: &str, options: &Value) -> Result<(), ClusterError> {
        match self.ask(Method::Delete, target, JSON, Some(options)) {
            Err(ClusterError::NotFound(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn ask(
        &self,
        method: Method,
        target: &str,
        accepted: &'static str,
        body: Option<&Value>,
    ) -> Answered {
        let (answer, answered) = oneshot::channel();
        let body = body.map(|body| body.to_string().into_bytes());
        let question = Question { method, target: target.to_owned(), accepted, body };
        let over = || ClusterError::Away("the thread that asks the cluster has ended".to_owned());
        self.questions.blocking_send((question, answer)).map_err(|_| over())?;
        answered.blocking_recv().unwrap_or_else(|_| Err(over()))
    }
}

async fn answer_all(asker: Rc<Asker>, mut asked: mpsc::Receiver<Asked>) {
    let keeper = asker.pool.clone();
    tokio::task::spawn_local(async move { keeper.maintain().await });
    while let Some((question, to)) = asked.recv().await {
        let asker = Rc::clone(&asker);
        tokio::task::spawn_local(async move {
            // Whoever asked may be gone.
            let _ = to.send(asker.ask(&question).await);
        });
    }
}

/// Who asks, with what is kept between questions.
struct Asker {
    pool: Pool,
    access: Access,
    origin: RefCell<Arc<Origin>>,
}

impl Asker {
    async fn ask(&self, question: &Question) -> Answered {
        let origin = Arc::clone(&self.origin.borrow());
        let mut answer = self.ask_once(&origin, question).await;
        // One that has just begun knows of nobody's rights yet.
        if let Err(ClusterError::Forbidden(why)) = &answer {
            answer = match self.ask_once(&origin, &Question::ready()).await {
                Ok(_) => self.ask_once(&origin, question).await,
                Err(_) => Err(ClusterError::Away(format!("{why} (it is not ready)"))),
            };
        }
        if matches!(answer, Err(ClusterError::Away(_))) {
            self.begin_anew(&origin);
        }
        answer
    }

    async fn ask_once(&self, origin: &Arc<Origin>, question: &Question) -> Answered {
        let away = |why: String| {
            let name = &origin.settings.name;
            ClusterError::Away(format!("the cluster cannot be asked at {name}: {why}"))
        };
        let head = self.head(question).map_err(away)?;
        let patience = origin.settings.timeouts.first_byte;
        match timeout(patience, self.exchange(origin, &head, &question.body)).await {
            Ok(Ok((status, body))) => judge(&question.method, &question.target, status, &body),
            Ok(Err(why)) => Err(away(why)),
            Err(_) => Err(away(format!("it did not answer within {} s", patience.as_secs()))),
        }
    }

    fn head(&self, question: &Question) -> Result<RequestHead, String> {
        let mut head = RequestHead {
            method: question.method.clone(),
            target: question.target.clone(),
            ..RequestHead::default()
        };
        head.fields.append("User-Agent", MANAGER);
        head.fields.append("Accept", question.accepted);
        if question.body.is_some() {
            let is_change = question.method == Method::Patch;
            head.fields.append("Content-Type", if is_change { MERGE_PATCH } else { JSON });
        }
        if let Some(path) = &self.access.token {
            let token = read_text(path, TOKEN_BYTES_MAX)
                .map_err(|error| format!("the token {}: {error}", path.display()))?;
            let token = token.trim();
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!("{}: this is no token", path.display()));
            }
            head.fields.append("Authorization", format!("Bearer {token}"));
        }
        Ok(head)
    }

    async fn exchange(
        &self,
        origin: &Arc<Origin>,
        head: &RequestHead,
        body: &Option<Vec<u8>>,
    ) -> Result<(u16, Vec<u8>), String> {
        // Its words are of origins, which a cluster is here.
        let say = |error: OriginError| error.to_string().replace("the origin", "the cluster");
        let body = body.clone().map(|body| Box::new(WholeBody::new(body)) as Box<dyn BodyProvider>);
        let answer = exchange(&self.pool, origin, head, body, &mut |_| {}).await;
        let mut answer = answer.map_err(say)?;
        let whole = answer.body.read_whole(ANSWER_BYTES_MAX).await.map_err(say)?;
        let whole =
            whole.ok_or_else(|| format!("its answer is longer than {ANSWER_BYTES_MAX} bytes"))?;
        Ok((answer.head.status, whole))
    }

    /// Reads files again, and connects again, from here on.
    fn begin_anew(&self, origin: &Arc<Origin>) {
        self.pool.close_idle(origin.id);
        if let Ok(fresh) = Origin::new(self.access.server.clone()) {
            self.origin.replace(fresh);
        }
    }
}

/// The body of an answer, or what it says that is wrong.
fn judge(method: &Method, target: &str, status: u16, body: &[u8]) -> Answered {
    if (200..300).contains(&status) {
        return Ok(body.to_vec());
    }
    // A `Status` of the cluster, or whatever is before it.
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let reason = document["reason"].as_str().unwrap_or_default();
    let told = document["message"].as_str().filter(|told| !told.is_empty());
    let told = told.unwrap_or("it does not say why");
    let plain = |sign: char| if sign.is_control() { ' ' } else { sign };
    let told: String = told.chars().take(SHOWN_CHARS_MAX).map(plain).collect();
    let path = target.split('?').next().unwrap_or_default();
    let said = |what: &str| {
        let method = method.as_str();
        format!("the cluster, at {method} {path}: {what}: {told}")
    };
    Err(match status {
        // Another token or certificate may be there the next time.
        401 => ClusterError::Away(said(
            "it does not know who asks, whose token or certificate is over or of another cluster",
        )),
        403 if told.contains("exceeded quota") => {
            ClusterError::Refused(said("the namespace's quota is used up"))
        }
        403 => ClusterError::Forbidden(said("it is not allowed")),
        404 => ClusterError::NotFound(said("not found")),
        409 if reason == "AlreadyExists" => ClusterError::IsThere(said("it is there already")),
        409 | 410 => ClusterError::Changed(said("it has changed")),
        429 | 500.. => ClusterError::Away(said(&status.to_string())),
        _ => ClusterError::Refused(said(&status.to_string())),
    })
}

#[cfg(test)]
mod faults;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(status: u16, reason: &str, message: &str) -> ClusterError {
        let body = json!({ "kind": "Status", "reason": reason, "message": message }).to_string();
        judge(&Method::Post, "/api/v1/pods?x=y", status, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn what_a_cluster_refuses_is_said_with_what_to_do() {
        let right = "pods is forbidden: User \"system:serviceaccount:edge:mec\" cannot list resource \"pods\"";
        let said = refused(403, "Forbidden", right).to_string();
        assert_eq!(said, format!("the cluster, at POST /api/v1/pods: it is not allowed: {right}"));
        let quota = refused(403, "Forbidden", "pods \"mec-1\" is forbidden: exceeded quota: edge");
        assert!(quota.to_string().contains("quota is used up"), "{quota}");
        let html = judge(&Method::Get, "/", 400, b"<html>").unwrap_err().to_string();
        assert!(html.ends_with("400: it does not say why"), "{html}");
        let long = refused(422, "Invalid", &"\x1b[2J".repeat(1000)).to_string();
        assert!(long.len() < 2 * SHOWN_CHARS_MAX && !long.contains('\x1b'), "{long:?}");
    }

    #[test]
    fn what_may_be_done_later_is_no_refusal() {
        let passes = |error| matches!(Trouble::from(error), Trouble::Passing(_));
        for (status, reason, is_passing) in [
            (401, "Unauthorized", true),
            (403, "Forbidden", false),
            (404, "NotFound", false),
            (409, "AlreadyExists", false),
            // A quota that is counted anew at the same time.
            (409, "Conflict", true),
            (410, "Expired", true),
            (422, "Invalid", false),
            (429, "TooManyRequests", true),
            (500, "InternalError", true),
            (504, "Timeout", true),
        ] {
            assert_eq!(passes(refused(status, reason, "")), is_passing, "{status} {reason}");
        }
    }

    #[test]
    fn a_cluster_may_be_behind_a_path() {
        let access = |api| Access::new(api, "ca.crt".into(), None, None);
        let behind = access("https://rancher.example/k8s/clusters/c-1").unwrap().server;
        assert!(!behind.base_path.is_empty());
        assert_eq!(behind.name, "rancher.example");
        for wrong in ["http://10.0.0.1:6443", "10.0.0.1:6443", "https://a b/", "https://a/?x=y"] {
            assert!(access(wrong).is_err(), "{wrong}");
        }
    }
}
