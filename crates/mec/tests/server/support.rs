//! A platform that runs in a thread, whom it asks, and a client for it.

use freshet_mec::serve::{bind, read};
use freshet_net::address::Address;
use freshet_platform::notify::Notified;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something holds, by asking again.
pub(crate) fn until(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if holds() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

pub(crate) fn rule() -> Value {
    json!({
        "trafficRuleId": "video", "filterType": "FLOW", "priority": 1, "state": "INACTIVE",
        "trafficFilter": [{"dstAddress": ["203.0.113.10/32"]}], "action": "FORWARD_DECAPSULATED",
        "dstInterface": {"interfaceType": "IP", "dstIpAddress": "10.99.0.2"},
    })
}

/// The configuration of one with two apps and what is in a folder; `more` is added, tables last.
pub(crate) fn config(folder: &Path, more: &str) -> String {
    let state = folder.join("state");
    // The secret of each is `secret`.
    let client = |name: &str| {
        format!(
            "[client.{name}]\napp = \"{name}\"\nscopes = [\"mec_app_support\", \"mec_service_mgmt\", \"ui\"]\n\
             secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n"
        )
    };
    format!(
        "listen = \"127.0.0.1:0\"\nstate = \"{}\"\ncallbacks_allowed = [\"127.0.0.1\"]\n{more}\n{}{}\
         [[app.camera.traffic_rules]]\ntrafficRuleId = \"video\"\nfilterType = \"FLOW\"\npriority = 1\n\
         trafficFilter = [{{ dstAddress = [\"203.0.113.10/32\"] }}]\naction = \"FORWARD_DECAPSULATED\"\n\
         dstInterface = {{ interfaceType = \"IP\", dstIpAddress = \"10.99.0.2\" }}\nstate = \"INACTIVE\"\n\
         [[app.camera.dns_rules]]\ndnsRuleId = \"www\"\ndomainName = \"www.example.com\"\n\
         ipAddressType = \"IP_V4\"\nipAddress = \"10.99.0.2\"\nttl = 30\nstate = \"ACTIVE\"\n",
        state.display(),
        client("camera"),
        client("viewer"),
    )
}

/// A platform that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) folder: TempDir,
    notified: Box<dyn Fn() -> Notified>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts one with two apps; `more` is added to its configuration, tables last.
    pub(crate) fn start(more: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), more)
    }

    /// Ends it and starts another on what it left.
    pub(crate) fn again(self, more: &str) -> Self {
        Self::start_in(self.end(), more)
    }

    /// Ends it, and gives what it left.
    pub(crate) fn end(mut self) -> TempDir {
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    pub(crate) fn start_in(folder: TempDir, more: &str) -> Self {
        let text = config(folder.path(), more);
        let bound = bind(read(&text).unwrap()).unwrap();
        let Address::Tcp(address) = *bound.address() else { panic!("it listens on TCP") };
        let resolver = bound.resolver_address();
        let notified = Box::new(bound.notified());
        let (stop, stopped) = oneshot::channel();
        let over = async {
            let _ = stopped.await;
        };
        let thread = std::thread::spawn(move || bound.run(over).unwrap());
        Self { address, resolver, folder, notified, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn notified(&self) -> Notified {
        (self.notified)()
    }

    pub(crate) fn token(&self, client: &str) -> String {
        let form = format!("grant_type=client_credentials&client_id={client}&client_secret=secret");
        let answer = self.ask("POST", "/oauth2/token", "", &form);
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> Answer {
        let authorization = if token.is_empty() {
            String::new()
        } else {
            format!("Authorization: Bearer {token}\r\n")
        };
        self.ask_with(method, target, &authorization, body)
    }

    /// As [`Self::ask`], with whole lines of the head.
    pub(crate) fn ask_with(&self, method: &str, target: &str, lines: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{lines}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // One whose body is too long is answered before all of it was sent.
        let _ = stream.write_all(body.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A request, up to the end of its body.
pub(crate) fn read_request(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// Answers at a router's socket as the edge router does, and forwards nothing.
pub(crate) struct TestRouter {
    folder: TempDir,
    state: Arc<Mutex<RouterState>>,
}

#[derive(Default)]
struct RouterState {
    generation: u64,
    sets: Vec<Value>,
    tags: Vec<Value>,
    refuses: bool,
}

impl TestRouter {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("router.sock")).unwrap();
        let state = Arc::new(Mutex::new(RouterState::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut line = String::new();
                if BufReader::new(&stream).read_line(&mut line).is_err() || line.is_empty() {
                    continue;
                }
                let answer = shared.lock().unwrap().answer(&serde_json::from_str(&line).unwrap());
                let _ = (&stream).write_all(format!("{answer}\n").as_bytes());
            }
        });
        Self { folder, state }
    }

    /// The line of a configuration that leads here.
    pub(crate) fn config(&self) -> String {
        format!("router = \"{}\"", self.folder.path().join("router.sock").display())
    }

    /// Every set of rules it got.
    pub(crate) fn sets(&self) -> Vec<Value> {
        self.state.lock().unwrap().sets.clone()
    }

    /// Every client that it was told tags of.
    pub(crate) fn tags(&self) -> Vec<Value> {
        self.state.lock().unwrap().tags.clone()
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        self.state.lock().unwrap().refuses = refuses;
    }

    /// Is another process, which knows nothing of the rules.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().generation += 100;
    }
}

impl RouterState {
    fn answer(&mut self, question: &Value) -> Value {
        assert_eq!(question["version"], 1);
        match question["ask"].as_str() {
            Some("set-rules") if self.refuses => json!({
                "version": 1, "error": "the rules have mistakes",
                "mistakes": [{"place": "rules[0].dstInterface", "what": "no app has this address"}],
            }),
            Some("set-rules") => {
                self.generation += 1;
                self.sets.push(question["rules"].clone());
                json!({"version": 1, "answer": {"generation": self.generation}})
            }
            Some("tag") => {
                self.tags.push(json!([question["client"], question["tags"]]));
                json!({"version": 1, "answer": {}})
            }
            _ => json!({"version": 1, "answer": {"generation": self.generation}}),
        }
    }
}
