//! A request, a fetch and a response in memory, and a node that answers from what a test sets.

use freshet_http::message::{RequestHead, ResponseHead};
use freshet_vcl::{
    Answer, ClientKnobs, Delivery, Event, FetchKnobs, Host, NoFiles, ObjectView, Outcome, Places,
    Policy, Purge, Session, Settings, Source, State, StorageQuestion, Task, View,
};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// When everything happens: 2026-11-20T12:00:00Z.
pub(crate) const NOW: f64 = 1_795_176_000.0;

/// A database that says back what it is asked.
#[derive(Debug)]
struct Echo;

impl Places for Echo {
    fn look_up(&self, address: IpAddr, path: &str) -> Option<String> {
        (path != "none").then(|| format!("{path} of {address}"))
    }
}

/// The node.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) sick: Vec<u32>,
    pub(crate) draws: u64,
    pub(crate) events: Vec<String>,
    pub(crate) bans: Vec<String>,
    pub(crate) purges: Vec<Purge>,
    pub(crate) tags: Vec<(String, bool)>,
    pub(crate) files: HashMap<String, Arc<[u8]>>,
    pub(crate) body: Option<Arc<[u8]>>,
    pub(crate) kept: Option<u64>,
}

impl Host for Node {
    fn backend_health(&self, backend: u32) -> (bool, f64) {
        (!self.sick.contains(&backend), NOW - 5.0)
    }

    fn random(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.draws
    }

    fn is_traced(&self) -> bool {
        true
    }

    fn trace(&mut self, event: Event<'_>) {
        self.events.push(match event {
            Event::Log(text) => format!("log {}", String::from_utf8_lossy(text)),
            Event::Debug(text) => format!("debug {}", String::from_utf8_lossy(text)),
            Event::Hash(text) => format!("hash {}", String::from_utf8_lossy(text)),
            Event::Timestamp(text) => format!("timestamp {}", String::from_utf8_lossy(text)),
            Event::FieldSet { message, name, value } => {
                format!("set {}.{name} {}", message.name(), String::from_utf8_lossy(value))
            }
            Event::FieldUnset { message, name, value } => {
                format!("unset {}.{name} {}", message.name(), String::from_utf8_lossy(value))
            }
            other => format!("{other:?}"),
        });
    }

    fn player_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(format!("{key} of {}", request.target).as_bytes());
        key == "bl"
    }

    fn manifest_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(format!("{key} of {}", request.target).as_bytes());
        key == "kind"
    }

    fn hostname(&self) -> &str {
        "edge.example"
    }

    fn identity(&self) -> &str {
        "edge-1"
    }

    fn ban(&mut self, ban: &str) -> Result<(), String> {
        if ban.contains("bad") {
            return Err("no such field".into());
        }
        self.bans.push(ban.into());
        Ok(())
    }

    fn purge(&mut self, how: Purge) -> u64 {
        self.purges.push(how);
        2
    }

    fn purge_tag(&mut self, tag: &[u8], soft: bool) -> u64 {
        self.tags.push((String::from_utf8_lossy(tag).into_owned(), soft));
        1
    }

    fn file(&mut self, path: &str) -> Option<Arc<[u8]>> {
        self.files.get(path).cloned()
    }

    fn places(&mut self, path: &str) -> Result<Arc<dyn Places>, String> {
        if path == "echo.mmdb" { Ok(Arc::new(Echo)) } else { Err(format!("{path} is away")) }
    }

    fn file_exists(&mut self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn environment(&mut self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".into())
    }

    fn storage(&self, _: u32, question: StorageQuestion) -> i64 {
        match question {
            StorageQuestion::FreeSpace => 1000,
            StorageQuestion::UsedSpace => 24,
            StorageQuestion::Happy => 1,
        }
    }

    fn cache_request_body(&mut self, bytes_max: u64, _: Option<u32>) -> bool {
        self.kept = Some(bytes_max);
        self.body.is_some()
    }

    fn request_body(&self) -> Option<Arc<[u8]>> {
        self.body.clone()
    }
}

/// All messages at once; each state sees its own.
pub(crate) struct Scene {
    pub(crate) node: Node,
    pub(crate) session: Session,
    pub(crate) client: ClientKnobs,
    pub(crate) fetch: FetchKnobs,
    pub(crate) req: RequestHead,
    pub(crate) bereq: RequestHead,
    pub(crate) beresp: ResponseHead,
    pub(crate) answer: Answer,
    pub(crate) resp: ResponseHead,
    pub(crate) delivery: Delivery,
    pub(crate) obj: ResponseHead,
    pub(crate) body: Vec<u8>,
    pub(crate) task: Task,
    pub(crate) now: f64,
}

impl Default for Scene {
    fn default() -> Self {
        let request = RequestHead {
            authority: "example.test".into(),
            target: "/a?b=1".into(),
            fields: [("User-Agent", "Test"), ("X-Empty", ""), ("Cookie", "a=1; b=2")]
                .into_iter()
                .collect(),
            ..RequestHead::default()
        };
        let mut response = ResponseHead::new(200);
        response.fields.append("Content-Type", "text/plain");
        Self {
            node: Node::default(),
            session: Session {
                xid: 1000,
                client: Some("192.0.2.7:4711".parse().unwrap()),
                server: Some("198.51.100.1:80".parse().unwrap()),
                remote: Some("203.0.113.9:999".parse().unwrap()),
                local: Some("198.51.100.2:8080".parse().unwrap()),
                endpoint: "0.0.0.0:80".into(),
                socket: "a0".into(),
                ..Session::default()
            },
            client: ClientKnobs { xid: 1001, time: NOW - 1.0, ..ClientKnobs::default() },
            fetch: FetchKnobs { xid: 1002, time: NOW, ..FetchKnobs::default() },
            req: request.clone(),
            bereq: request,
            beresp: response.clone(),
            answer: Answer { ttl: 120.0, grace: 10.0, time: NOW, ..Answer::default() },
            resp: response.clone(),
            delivery: Delivery { time: NOW, do_esi: true, ..Delivery::default() },
            obj: response,
            body: Vec::new(),
            task: Task::new(),
            now: NOW,
        }
    }
}

/// Compiles a text; `vcl 4.1;` and a backend are put before it where it has none.
pub(crate) fn compile(text: &str) -> Policy {
    compile_after(None, text)
}

/// The same in the place of a policy before.
pub(crate) fn compile_after(before: Option<&Policy>, text: &str) -> Policy {
    let text = if text.contains("vcl 4.") { text.to_owned() } else { format!("vcl 4.1;\n{text}") };
    let text = if text.contains(".host =") || text.contains("backend b none") {
        text
    } else {
        format!("{text}\nbackend b0 {{ .host = \"127.0.0.1\"; }}")
    };
    let settings = Settings { unused_is_error: false, test_module: true, ..Settings::default() };
    let source = Source { name: "test.vcl".into(), text };
    let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
    let program = program.unwrap_or_else(|| panic!("{}", report.render(false)));
    let mut node = Node::default();
    node.files.insert("/etc/page".into(), b"<p>"[..].into());
    Policy::load("test", program, Default::default(), before, NOW, &mut node)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

impl Scene {
    /// Runs a state.
    pub(crate) fn run(&mut self, policy: &Policy, state: State) -> Outcome {
        let object = ObjectView {
            fields: &self.obj.fields,
            status: self.obj.status,
            reason: self.obj.reason_phrase(),
            age: 3.0,
            ttl: 57.0,
            grace: 10.0,
            keep: 4.0,
            time: NOW - 3.0,
            hits: 7,
            uncacheable: false,
            can_esi: true,
            storage: Some(1),
        };
        let mut view = View::new(self.now, &self.session);
        if state.is_client() {
            view.client = Some(&mut self.client);
            view.req = Some(&mut self.req);
        }
        if state.is_backend() {
            view.fetch = Some(&mut self.fetch);
        }
        if state.is_backend() || state == State::Pipe {
            view.bereq = Some(&mut self.bereq);
        }
        match state {
            State::BackendResponse | State::BackendError => {
                view.beresp = Some(&mut self.beresp);
                view.answer = Some(&mut self.answer);
                view.body = Some(&mut self.body);
            }
            State::Deliver | State::Synth => {
                view.resp = Some(&mut self.resp);
                view.delivery = Some(&mut self.delivery);
                view.body = Some(&mut self.body);
            }
            _ => {}
        }
        if matches!(state, State::Hit | State::Deliver) {
            view.object = Some(object);
        }
        policy.run(state, view, &mut self.task, &mut self.node)
    }
}

/// The text that an expression has in a state: it is put into a header field of a message the state
/// can change, or logged.
pub(crate) fn shown_in(state: State, imports: &str, expression: &str, scene: &mut Scene) -> String {
    let message = match state {
        State::BackendFetch => "bereq",
        State::BackendResponse | State::BackendError => "beresp",
        State::Deliver | State::Synth => "resp",
        _ => "req",
    };
    let text = format!(
        "{imports}\nsub {} {{ set {message}.http.Shown = {expression}; }}",
        state.subroutine()
    );
    let policy = compile(&text);
    let outcome = scene.run(&policy, state);
    if let Some(failure) = scene.task.take_failure() {
        return format!("failed: {}", failure.message);
    }
    let _ = outcome;
    let fields = match message {
        "bereq" => &scene.bereq.fields,
        "beresp" => &scene.beresp.fields,
        "resp" => &scene.resp.fields,
        _ => &scene.req.fields,
    };
    fields.get_str("shown").unwrap_or("(unset)").to_owned()
}

/// As [`shown_in`] in `vcl_recv`.
pub(crate) fn shown(imports: &str, expression: &str) -> String {
    shown_in(State::Recv, imports, expression, &mut Scene::default())
}

/// Whether a condition holds in `vcl_recv`.
pub(crate) fn holds(condition: &str) -> bool {
    let policy = compile(&format!(
        "import std; sub vcl_recv {{ if ({condition}) {{ return (pass); }} return (hash); }}"
    ));
    let mut scene = Scene::default();
    match scene.run(&policy, State::Recv) {
        Outcome::Pass(None) => true,
        Outcome::Hash => false,
        other => panic!("{other:?}: {:?}", scene.task.take_failure()),
    }
}

/// Runs statements in a state and gives back the scene.
pub(crate) fn after(state: State, imports: &str, statements: &str) -> (Outcome, Scene) {
    let policy = compile(&format!("{imports}\nsub {} {{ {statements} }}", state.subroutine()));
    let mut scene = Scene::default();
    let outcome = scene.run(&policy, state);
    (outcome, scene)
}

/// Imports of most modules.
pub(crate) const ALL: &str = "import std; import str; import blob; import header; import cookie; \
                              import var; import directors; import vsthrottle; import proxy; \
                              import unix; import vtc; import xkey;";

/// Holds the texts of expressions in `vcl_recv`, with [`ALL`] imported, against what is expected.
pub(crate) fn table(rows: &[(&str, &str)]) {
    for (expression, expected) in rows {
        assert_eq!(shown(ALL, expression), *expected, "{expression}");
    }
}
