//! `freshet mec` in a network namespace of its own, with apps in containers, and what there is of them on
//! this machine.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
pub(crate) const LIVES: &str = "/app_lcm/v1/app_instances";
pub(crate) const PACKAGES: &str = "/app_pkgm/v1/onboarded_app_packages";

/// What is missing for containers to be run here.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("this runs containers: run it as root".to_owned());
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(program) = ["crun", "ip", "ethtool", "nsenter"].into_iter().find(|one| !has(one)) {
        crate::skip::missing(program);
        return Some(format!("{program} is missing"));
    }
    // Tests run side by side, and one place to try it is enough.
    static WITHOUT_LIMITS: OnceLock<Option<String>> = OnceLock::new();
    WITHOUT_LIMITS.get_or_init(without_limits).clone()
}

/// Why no limits can be set to containers, tried as their runtime does it.
fn without_limits() -> Option<String> {
    let groups = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        "/sys/fs/cgroup"
    } else {
        "/sys/fs/cgroup/memory"
    };
    let probe = format!("{groups}/freshet-probe{}", std::process::id());
    let is_made = std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe));
    is_made.err().map(|error| format!("{groups}: {error}: no limits can be set here"))
}

pub(crate) fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// An edge router that takes what it is told, and only what makes sense after what it was told before.
#[derive(Default)]
pub(crate) struct TestRouter {
    generation: u64,
    rules: Value,
    limits: Value,
    apps: BTreeMap<String, Value>,
}

impl TestRouter {
    fn answer(&mut self, question: &Value) -> Value {
        let name = question["name"].as_str().unwrap_or_default().to_owned();
        let address = |app: &Value| app["addresses"][0].clone();
        let leads_to = |rules: &Value, place: &Value| {
            let mut rules = rules.as_array().into_iter().flatten();
            rules.any(|rule| {
                rule["state"] == "ACTIVE" && rule["dstInterface"]["dstIpAddress"] == *place
            })
        };
        let refused = |why: &str| json!({ "version": 1, "error": why });
        match question["ask"].as_str() {
            Some("add-app") => {
                self.apps.insert(name, question["app"].clone());
            }
            Some("remove-app") => {
                let app = self.apps.remove(&name);
                if app.is_some_and(|app| leads_to(&self.rules, &address(&app))) {
                    return refused("a rule leads to it");
                }
            }
            Some("set-rules") => {
                let active = question["rules"].as_array().into_iter().flatten();
                let mut active = active.filter(|rule| rule["state"] == "ACTIVE");
                let is_known = |rule: &Value| {
                    let place = &rule["dstInterface"]["dstIpAddress"];
                    self.apps.values().any(|app| address(app) == *place)
                };
                if !active.all(is_known) {
                    return refused("a rule leads to no app");
                }
                self.generation += 1;
                self.rules = question["rules"].clone();
                self.limits = question["limits"].clone();
            }
            _ => {}
        }
        let added: Vec<&String> = self.apps.keys().collect();
        json!({ "version": 1, "answer": { "generation": self.generation, "added": added } })
    }
}

/// What apps may have where the platform itself runs them.
pub(crate) fn here(network: &str) -> String {
    format!("host = \"here\"\ncpus = 1.0\nmemory_mib = 256\nnetwork = \"{network}\"")
}

/// An edge router at a socket that takes what it is told.
pub(crate) fn stand_in(socket: &Path) -> Arc<Mutex<TestRouter>> {
    let router = Arc::new(Mutex::new(TestRouter::default()));
    let listener = UnixListener::bind(socket).unwrap();
    let shared = Arc::clone(&router);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let Ok(question) = serde_json::from_str::<Value>(&line) else { continue };
            let answer = shared.lock().unwrap().answer(&question);
            let _ = (&stream).write_all(format!("{answer}\n").as_bytes());
        }
    });
    router
}

/// A platform, the folder of its state, and an edge router's socket that takes what it is told.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    namespace: String,
    pub(crate) is_own: bool,
    process: Option<Child>,
    router: Arc<Mutex<TestRouter>>,
    token: String,
}

impl World {
    /// Starts a platform in a namespace of its own, with an edge router that takes what it is told; `more` is
    /// added to its configuration.
    pub(crate) fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let namespace =
            format!("freshet-apps-{}", folder.path().file_name().unwrap().to_str().unwrap());
        run("ip", &["netns", "add", &namespace]);
        run("ip", &["-n", &namespace, "link", "set", "lo", "up"]);
        let socket = folder.path().join("router.sock");
        let router = stand_in(&socket);
        let more = format!("{more}\n[packages]\nunsigned = true\n");
        let mut world = Self::beside(folder, &namespace, &socket, &here("10.99.0.0/24"), &more);
        (world.router, world.is_own) = (router, true);
        world
    }

    /// Starts a platform in a namespace that is there, beside an edge router, with a `[runtime]`.
    pub(crate) fn beside(
        folder: TempDir,
        namespace: &str,
        router: &Path,
        runtime: &str,
        more: &str,
    ) -> Self {
        let (shown, router) = (folder.path().display(), router.display());
        let config = format!(
            "listen = \"unix:{shown}/mec.sock\"\nurl = \"http://mec.example\"\nstate = \"state\"\n\
             router = \"{router}\"\n{more}\n\
             [runtime]\n{runtime}\n\
             [client.operator]\nscopes = [\"app_pkgm\", \"app_lcm\", \"granting\", \"mec_platform\", \"mec_app_support\", \"bwm\", \"rni\", \"location\"]\n\
             secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n"
        );
        std::fs::write(folder.path().join("mec.toml"), config).unwrap();
        let mut world = Self {
            folder,
            namespace: namespace.to_owned(),
            is_own: false,
            process: None,
            router: Arc::default(),
            token: String::new(),
        };
        world.again();
        world
    }

    /// Starts the platform on what the last one left.
    pub(crate) fn again(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(self.folder.path().join("mec.sock"));
        let said = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("said"))
            .unwrap();
        let process = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .args([env!("CARGO_BIN_EXE_freshet"), "mec", "--config"])
            .arg(self.folder.path().join("mec.toml"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        self.process = Some(process);
        let form = "grant_type=client_credentials&client_id=operator&client_secret=secret";
        self.token = String::new();
        let mut token = None;
        until("it answers", || {
            let ended = self.process.as_mut().and_then(|process| process.try_wait().unwrap());
            assert_eq!(ended, None, "the platform ended: {}", self.said());
            let answer = self.call("POST", "/oauth2/token", form.as_bytes());
            token = answer.ok().map(|(_, body)| body["access_token"].as_str().unwrap().to_owned());
            token.is_some()
        });
        self.token = token.unwrap();
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(self.process.as_ref().unwrap())
    }

    /// Ends the platform as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// What the platform has said on its way.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default()
    }

    /// A request, and status and body of the answer.
    pub(crate) fn call(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> std::io::Result<(u16, Value)> {
        let mut stream = UnixStream::connect(self.folder.path().join("mec.sock"))?;
        stream.set_read_timeout(Some(ANSWER))?;
        let kind = if target.ends_with("package_content") {
            "application/zip"
        } else {
            "application/json"
        };
        let token = match self.token.as_str() {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: x\r\n{token}Content-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        stream.write_all(body)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let gone = || std::io::Error::other("it ended before it answered");
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(gone)?;
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or_else(gone)?;
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }

    pub(crate) fn post(&self, target: &str, body: &Value) -> (u16, Value) {
        self.call("POST", target, body.to_string().as_bytes()).unwrap()
    }

    pub(crate) fn get(&self, target: &str) -> Value {
        self.call("GET", target, b"").unwrap().1
    }

    /// Brings a package of an app that answers with its name.
    pub(crate) fn bring(&self) {
        self.upload("hello", &self.pack());
    }

    /// Makes a package of an app that answers with its name.
    pub(crate) fn pack(&self) -> PathBuf {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mec_apps");
        let hello = self.folder.path().join("hello");
        std::fs::create_dir_all(hello.join("rootfs")).unwrap();
        std::fs::copy(format!("{sources}/appd.json"), hello.join("appd.json")).unwrap();
        let program = hello.join("rootfs/server");
        let source = format!("{sources}/server.c");
        run("cc", &["-static", "-O1", "-o", program.to_str().unwrap(), &source]);
        let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/mec/pack");
        run(pack, &[hello.to_str().unwrap(), "/server"]);
        self.folder.path().join("hello.csar")
    }

    /// Names a package whose archive is to come.
    pub(crate) fn name_package(&self, name: &str, archive: &Path) -> String {
        let hash = run("sha256sum", &[archive.to_str().unwrap()]);
        let (made, package) = self.post(
            PACKAGES,
            &json!({
                "appPkgName": name, "appPkgVersion": "1", "appPkgPath": archive,
                "checksum": {"algorithm": "SHA-256", "hash": &hash[..64]},
            }),
        );
        assert_eq!(made, 201, "{package}");
        package["id"].as_str().unwrap().to_owned()
    }

    /// Has the platform take a package.
    pub(crate) fn upload(&self, name: &str, archive: &Path) {
        let content = format!("{PACKAGES}/{}/package_content", self.name_package(name, archive));
        let (status, said) = self.call("PUT", &content, &std::fs::read(archive).unwrap()).unwrap();
        assert_eq!(status, 202, "{said}");
    }

    /// Names an instance of the app that answers with its name.
    pub(crate) fn name(&self) -> String {
        self.name_of("hello-d")
    }

    /// Names an instance of a descriptor.
    pub(crate) fn name_of(&self, descriptor: &str) -> String {
        let (status, made) = self.post(LIVES, &json!({"appDId": descriptor}));
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// Begins an operation; gives the status.
    pub(crate) fn begin(&self, instance: &str, what: &str) -> u16 {
        self.try_begin(instance, what).unwrap()
    }

    /// As [`World::begin`], with a platform that may be killed meanwhile.
    pub(crate) fn try_begin(&self, instance: &str, what: &str) -> std::io::Result<u16> {
        let (operation, body) = match what {
            "instantiate" => {
                (what, json!({"selectedMECHostInfo": [{"hostName": "here", "hostId": {}}]}))
            }
            "terminate" => (what, json!({"terminationType": "FORCEFUL"})),
            "leave" => (
                "terminate",
                json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 60}),
            ),
            "stop" => (
                "operate",
                json!({"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 2}),
            ),
            _ => ("operate", json!({"changeStateTo": "STARTED"})),
        };
        let target = format!("{LIVES}/{instance}/{operation}");
        Ok(self.call("POST", &target, body.to_string().as_bytes())?.0)
    }

    /// Waits until nothing is done to an instance any more: `COMPLETED`, or how what waits for a word ended.
    pub(crate) fn settled(&self, instance: &str) -> String {
        let mut last = String::new();
        until("the operation ends", || {
            let open = "filter=(in,operationState,STARTING,PROCESSING,FAILED_TEMP)";
            let all = self.get(&format!("/app_lcm/v1/app_lcm_op_occs?{open}"));
            let own = |one: &&Value| {
                let link = one["_links"]["appInstance"]["href"].as_str().unwrap();
                link.ends_with(instance)
            };
            let open = all.as_array().unwrap().iter().find(own);
            last =
                open.map_or("COMPLETED", |one| one["operationState"].as_str().unwrap()).to_owned();
            !matches!(last.as_str(), "STARTING" | "PROCESSING")
        });
        last
    }

    /// `NOT_INSTANTIATED`, `STARTED` or `STOPPED`.
    pub(crate) fn state(&self, instance: &str) -> String {
        let known = self.get(&format!("{LIVES}/{instance}"));
        let state = known["instantiatedAppState"]["operationalState"].as_str();
        state.or_else(|| known["instantiationState"].as_str()).unwrap_or("gone").to_owned()
    }

    /// What an app says to who asks it at an address.
    pub(crate) fn ask_app(&self, address: &str) -> String {
        self.ask_app_with(address, &[])
    }

    /// As [`World::ask_app`], with more words for curl.
    pub(crate) fn ask_app_with(&self, address: &str, more: &[&str]) -> String {
        let namespace = format!("--net=/run/netns/{}", self.namespace);
        let curl = ["curl", "--silent", "--max-time", "60", address];
        let output = Command::new("nsenter").arg(namespace).args(curl).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The address of an app that runs.
    pub(crate) fn address(&self, instance: &str) -> String {
        let known = self.get(&format!("{LIVES}/{instance}"));
        let host = &known["communicationInterface"]["ipAddresses"][0]["host"];
        host.as_str().unwrap().to_owned()
    }

    /// A client that receives what an app sends, so many bytes a second.
    pub(crate) fn receive(&self, address: &str, rate: &str) -> Child {
        let namespace = format!("--net=/run/netns/{}", self.namespace);
        let curl = ["curl", "--silent", "--max-time", "60", "--limit-rate", rate, address];
        let mut command = Command::new("nsenter");
        command.arg(namespace).args(curl).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Traffic rules in force, as the edge router was told last: names.
    pub(crate) fn rules(&self) -> Vec<String> {
        let router = self.router.lock().unwrap();
        let active =
            router.rules.as_array().into_iter().flatten().filter(|rule| rule["state"] == "ACTIVE");
        active.map(|rule| rule["trafficRuleId"].as_str().unwrap().to_owned()).collect()
    }

    /// Rates that the edge router was told last.
    pub(crate) fn limits(&self) -> Value {
        self.router.lock().unwrap().limits.clone()
    }

    /// What there is of an instance on this machine, by kind.
    pub(crate) fn left(&self, instance: &str) -> Vec<String> {
        let name = format!("mec-{}", &instance[..12]);
        let mut left = Vec::new();
        let containers = run("crun", &["list", "--quiet"]);
        left.extend(containers.lines().filter(|one| *one == name).map(|_| "container".to_owned()));
        if Path::new("/run/netns").join(&name).exists() {
            left.push("namespace".to_owned());
        }
        if self.folder.path().join("state/apps").join(instance).exists() {
            left.push("files".to_owned());
        }
        let groups = ["", "cpu", "memory", "pids"]
            .map(|one| Path::new("/sys/fs/cgroup").join(one).join("freshet-mec").join(&name));
        if groups.iter().any(|group| group.exists()) {
            left.push("groups".to_owned());
        }
        if let Some(app) = self.router.lock().unwrap().apps.get(instance) {
            assert_eq!(app["kind"], "breakout");
            left.push("app".to_owned());
        }
        let rule = format!("{instance}/video");
        left.extend(self.rules().into_iter().filter(|one| *one == rule).map(|_| "rule".to_owned()));
        left
    }

    /// Interfaces of apps, in the platform's namespace.
    pub(crate) fn interfaces(&self) -> usize {
        let shown = run("ip", &["-n", &self.namespace, "-oneline", "link", "show", "type", "veth"]);
        shown.lines().count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
        // Also after a test that failed: what it left is in the way of the next.
        for entry in std::fs::read_dir(self.folder.path().join("state/apps")).into_iter().flatten()
        {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(id) = name.get(..12) else { continue };
            let name = format!("mec-{id}");
            let quiet = |program: &str, words: &[&str]| {
                let _ = Command::new(program).args(words).output();
            };
            quiet("crun", &["delete", "--force", &name]);
            quiet("ip", &["netns", "delete", &name]);
        }
        if self.is_own {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).output();
        }
        if std::thread::panicking() {
            let said = self.said();
            println!("the platform said:\n{}", &said[said.len().saturating_sub(4000)..]);
        }
    }
}

/// Waits until something holds, by asking again.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
