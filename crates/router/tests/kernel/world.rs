//! Network namespaces with a client behind a base station, a core with an origin, a router on the wire
//! between them, and an app. Their names have this process's number; what another run left is removed.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const CLIENT: [&str; 2] = ["10.45.0.2", "2001:db8:45:1::2"];
pub(crate) const ORIGIN: [&str; 2] = ["203.0.113.10", "2001:db8:ff::10"];
/// For a machine that is busy with other things: nothing here takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// What the router's configuration is called for the process that runs it.
pub(crate) const CONFIG: &str = "FRESHET_ROUTER_CONFIG";
const PREFIX: &str = "freshet";

/// What is on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Wire {
    /// GTP-U, and with which QoS flow; 0 is 4G.
    pub(crate) tunnel: Option<u8>,
    /// Outer IPv6 in place of IPv4.
    pub(crate) outer_ipv6: bool,
    /// VLAN tag of the wire.
    pub(crate) vlan: Option<u16>,
    /// MTU of the wire.
    pub(crate) mtu: u16,
    /// MTU of the client.
    pub(crate) client_mtu: u16,
}

pub(crate) const N3: Wire =
    Wire { tunnel: Some(9), outer_ipv6: false, vlan: None, mtu: 1600, client_mtu: 1500 };
pub(crate) const N6: Wire =
    Wire { tunnel: None, outer_ipv6: false, vlan: None, mtu: 1500, client_mtu: 1500 };

/// A program that ends with its world.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One end of tunnels.
pub(crate) struct Emulator {
    _process: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Emulator {
    pub(crate) fn set(&mut self, local: u32, peer: &str, teid: u32, qfi: u8) {
        let way = json!({ "local": local, "peer": peer, "teid": teid, "qfi": qfi });
        self.input.write_all(format!("{way}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "set\n");
    }
}

pub(crate) struct World {
    pub(crate) name: String,
    namespaces: Vec<&'static str>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) wire: Wire,
    pub(crate) gnb: Option<Emulator>,
    pub(crate) upf: Option<Emulator>,
    pub(crate) servers: Vec<Running>,
    pub(crate) router: Option<Running>,
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn ok(program: &str, line: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let output = run(program, &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {line}: {said}");
}

/// Why namespaces cannot be made here, if so.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces are made by root only".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("this machine has no /dev/net/tun".to_owned());
    }
    for program in ["ip", "ethtool", "curl", "python3"] {
        let found = Command::new(program).arg("--version").output();
        if found.is_err() {
            crate::skip::missing(program);
            return Some(format!("{program} is missing"));
        }
    }
    if let Err(error) = aya::maps::Array::<aya::maps::MapData, u32>::create(1, 0) {
        return Some(format!("this machine lets root make no maps: {error}"));
    }
    // Tests beside each other each try with a name of their own.
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let number = TRIED.fetch_add(1, Ordering::Relaxed);
    let ns = format!("{PREFIX}{}-try{number}", std::process::id());
    let made = run("ip", &["netns", "add", &ns]);
    run("ip", &["netns", "delete", &ns]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    (!made.status.success()).then(|| format!("this machine lets root make no namespaces: {said}"))
}

/// Whether something is named after a process that is over: `freshet7-0-ran`, `/tmp/freshet7-x/bpf`.
fn is_left(name: &str) -> bool {
    let owner = name.split(PREFIX).nth(1).and_then(|rest| rest.split('-').next());
    let owner = owner.and_then(|owner| owner.parse::<u32>().ok());
    owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists())
}

/// Removes what runs left that are over.
fn sweep() {
    let listed = run("ip", &["netns", "list"]);
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if !is_left(name) {
            continue;
        }
        // What that run started in there.
        let processes = run("ip", &["netns", "pids", name]);
        for pid in String::from_utf8_lossy(&processes.stdout).split_whitespace() {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            let _ =
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        run("ip", &["netns", "delete", name]);
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    for line in mounts.lines().filter(|line| line.starts_with("bpf ")) {
        let place = line.split(' ').nth(1).unwrap_or_default();
        if is_left(place) {
            run("umount", &[place]);
            let _ = std::fs::remove_dir_all(Path::new(place).parent().unwrap());
        }
    }
}

impl World {
    pub(crate) fn new(wire: Wire) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        sweep();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
        let mut world = Self {
            name,
            namespaces: Vec::new(),
            folder,
            wire,
            gnb: None,
            upf: None,
            servers: Vec::new(),
            router: None,
        };
        std::fs::create_dir(world.path("bpf")).unwrap();
        ok("mount", &format!("-t bpf bpf {}", world.path("bpf").display()));
        for one in ["ran", "core", "rtr", "app"] {
            world.add_namespace(one);
        }
        world.pair("ran", "ran0", "acc0", wire.mtu);
        world.pair("core", "core0", "cor0", wire.mtu);
        world.ip("rtr", "link add br0 type bridge stp_state 0 mcast_snooping 0");
        world.ip("rtr", &format!("link set br0 mtu {}", wire.mtu));
        for port in ["acc0", "cor0"] {
            world.ip("rtr", &format!("link set {port} master br0"));
        }
        world.ip("rtr", "link set br0 up");
        world.pair("app", "app0", "leg0", 1500);
        world.ip("rtr", "addr add 10.99.0.1/24 dev leg0");
        world.ip("rtr", "addr add fd99::1/64 dev leg0 nodad");
        world.ip("app", "addr add 10.99.0.2/24 dev app0");
        world.ip("app", "addr add fd99::2/64 dev app0 nodad");
        world.ip("app", "route add default via 10.99.0.1");
        world.ip("app", "-6 route add default via fd99::1");
        for one in ["core", "app"] {
            world.ip(one, &format!("addr add {}/32 dev lo", ORIGIN[0]));
            world.ip(one, &format!("addr add {}/128 dev lo nodad", ORIGIN[1]));
        }
        world.make_wire();
        for (one, word) in [("core", "core"), ("app", "edge")] {
            world.start_server(one, word);
        }
        world
    }

    /// One more namespace.
    pub(crate) fn add_namespace(&mut self, one: &'static str) {
        ok("ip", &format!("netns add {}", self.ns(one)));
        self.namespaces.push(one);
        self.ip(one, "link set lo up");
        self.sysctl(one, "net.ipv4.conf.all.rp_filter=0");
        self.sysctl(one, "net.ipv4.conf.default.rp_filter=0");
        self.sysctl(one, "net.ipv6.conf.all.accept_dad=0");
        self.sysctl(one, "net.ipv6.conf.default.accept_dad=0");
    }

    /// A server that says `word`.
    pub(crate) fn start_server(&mut self, ns: &str, word: &str) {
        let server = self.script(ns, "server.py", &[word, ORIGIN[0]], Stdio::null());
        self.servers.push(server.0);
    }

    /// A pair of interfaces between a namespace and the router's.
    pub(crate) fn pair(&self, ns: &str, inside: &str, host: &str, mtu: u16) {
        let rtr = self.ns("rtr");
        self.ip(ns, &format!("link add {inside} type veth peer name {host} netns {rtr}"));
        for (ns, one) in [(ns, inside), ("rtr", host)] {
            self.ip(ns, &format!("link set {one} mtu {mtu} up"));
            // Checksums are to be whole in packets that are handed on without the kernel's notes, and
            // frames redirected to an interface are taken by its peer when that has GRO.
            for setting in ["tx off", "gro on"] {
                ok("ip", &format!("netns exec {} ethtool -K {one} {setting}", self.ns(ns)));
            }
        }
    }

    fn make_wire(&mut self) {
        let [ran, core] = ["ran0", "core0"];
        let Some(qfi) = self.wire.tunnel else {
            let [client4, client6] = CLIENT;
            self.ip("ran", &format!("addr add {client4}/24 dev {ran}"));
            self.ip("ran", &format!("addr add {client6}/64 dev {ran} nodad"));
            self.ip("core", &format!("addr add 10.45.0.1/24 dev {core}"));
            self.ip("core", &format!("addr add 2001:db8:45:1::1/64 dev {core} nodad"));
            self.ip("ran", "route add default via 10.45.0.1");
            self.ip("ran", "-6 route add default via 2001:db8:45:1::1");
            return;
        };
        for (ns, device, ends) in
            [("ran", ran, self.gnbs().as_slice()), ("core", core, &[self.upf_address()])]
        {
            // Emulators put tags into frames themselves.
            for end in ends.iter().filter(|_| self.wire.vlan.is_none()) {
                let (length, more) = if end.contains(':') { (64, "nodad") } else { (24, "") };
                self.ip(ns, &format!("addr add {end}/{length} dev {device} {more}"));
            }
        }
        for (ns, tun) in [("ran", "ue0"), ("core", "n6")] {
            self.ip(ns, &format!("tuntap add dev {tun} mode tun"));
            self.ip(ns, &format!("link set {tun} mtu {} up", self.wire.client_mtu));
        }
        self.ip("ran", &format!("addr add {}/32 dev ue0", CLIENT[0]));
        self.ip("ran", &format!("addr add {}/128 dev ue0 nodad", CLIENT[1]));
        self.ip("ran", "route add default dev ue0");
        self.ip("ran", "-6 route add default dev ue0");
        self.ip("core", &format!("route add {}/32 dev n6", CLIENT[0]));
        self.ip("core", &format!("-6 route add {}/128 dev n6", CLIENT[1]));
        let gnbs = self.gnbs();
        let ends: Vec<&str> = gnbs.iter().map(String::as_str).collect();
        let mut gnb = self.emulator("ran", "ue0", &ends);
        let upf_address = self.upf_address();
        let mut upf = self.emulator("core", "n6", &[&upf_address]);
        gnb.set(0, &upf_address, 100, qfi);
        upf.set(0, &gnbs[0], 200, qfi);
        (self.gnb, self.upf) = (Some(gnb), Some(upf));
    }

    pub(crate) fn gnbs(&self) -> [String; 2] {
        if self.wire.outer_ipv6 {
            ["fd03::1".into(), "fd03::2".into()]
        } else {
            ["10.3.0.1".into(), "10.3.0.2".into()]
        }
    }

    pub(crate) fn upf_address(&self) -> String {
        if self.wire.outer_ipv6 { "fd03::f0".into() } else { "10.3.0.240".into() }
    }

    fn emulator(&self, ns: &str, tun: &str, ends: &[&str]) -> Emulator {
        let (device, peer) =
            if ns == "ran" { ("ran0", ("core", "core0")) } else { ("core0", ("ran", "ran0")) };
        let tagged = self.wire.vlan.map_or_else(Vec::new, |vlan| {
            vec![vlan.to_string(), device.to_owned(), self.mac(peer.0, peer.1)]
        });
        let tagged = tagged.join(",");
        let arguments: Vec<&str> = [tun, tagged.as_str()].iter().chain(ends).copied().collect();
        let (mut process, output) = self.script(ns, "emulator.py", &arguments, Stdio::piped());
        let input = process.0.stdin.take().unwrap();
        Emulator { _process: process, input, output }
    }

    pub(crate) fn script(
        &self,
        ns: &str,
        script: &str,
        arguments: &[&str],
        input: Stdio,
    ) -> (Running, BufReader<ChildStdout>) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(script);
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.ns(ns), "python3"])
            .arg(script)
            .args(arguments)
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let process = Running(child);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the script says when it is ready");
        (process, output)
    }

    pub(crate) fn ns(&self, one: &str) -> String {
        format!("{}-{one}", self.name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ip(&self, ns: &str, line: &str) {
        ok("ip", &format!("-n {} {line}", self.ns(ns)));
    }

    /// Sets what `sysctl` would, such as `net.ipv4.ip_forward=1`.
    pub(crate) fn sysctl(&self, ns: &str, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap();
        let command = format!("echo {value} > /proc/sys/{}", name.replace('.', "/"));
        let output = run("ip", &["netns", "exec", &self.ns(ns), "sh", "-c", &command]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn mac(&self, ns: &str, device: &str) -> String {
        let output = run("ip", &["-n", &self.ns(ns), "-j", "link", "show", device]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown[0]["address"].as_str().unwrap().to_owned()
    }

    pub(crate) fn received(&self, ns: &str, device: &str) -> u64 {
        let output = run("ip", &["-n", &self.ns(ns), "-j", "-s", "link", "show", device]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    }

    /// A configuration, with these apps besides.
    pub(crate) fn configure(&self, apps: &str) -> PathBuf {
        let wire = if self.wire.tunnel.is_some() { "n3" } else { "n6" };
        let path = self.path("router.toml");
        let folder = self.folder.path().display();
        let text = format!(
            "wire = \"{wire}\"\naccess = \"acc0\"\ncore = \"cor0\"\nsessions = 64\n\
             socket = \"{folder}/router.sock\"\npins = \"{folder}/bpf/router\"\n\
             state = \"{folder}/router.json\"\nusage = \"{folder}/usage.jsonl\"\n{apps}\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn breakout_app(&self) -> String {
        format!(
            "[app.edge]\nkind = \"breakout\"\ninterface = \"leg0\"\nmac = \"{}\"\n\
             addresses = [\"10.99.0.2\"]\nhealth = \"tcp 10.99.0.2:80\"\n",
            self.mac("app", "app0")
        )
    }

    /// The program under test in the router's namespace: this test program, told to be the router.
    pub(crate) fn router_command(&self, config: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.ns("rtr")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "router::is_the_router_when_told_so", "--nocapture"])
            .env(CONFIG, config)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    pub(crate) fn start_router(&mut self, apps: &str) {
        let config = self.configure(apps);
        let child = self.router_command(&config).spawn().unwrap();
        self.router = Some(Running(child));
        self.until("the router answers", |world| {
            world.try_ask(&json!({ "ask": "status" })).is_some()
        });
    }

    pub(crate) fn kill_router(&mut self) {
        self.router = None;
    }

    pub(crate) fn try_ask(&self, question: &Value) -> Option<Value> {
        let stream = UnixStream::connect(self.path("router.sock")).ok()?;
        let mut question = question.clone();
        question["version"] = json!(1);
        (&stream).write_all(format!("{question}\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    pub(crate) fn ask(&self, question: Value) -> Value {
        let answer = self.try_ask(&question).expect("the router answers");
        assert!(answer["error"].is_null(), "{answer}");
        answer["answer"].clone()
    }

    /// Packets so far by the name of a reason, from anywhere.
    pub(crate) fn counted(&self, reason: &str) -> u64 {
        let status = self.ask(json!({ "ask": "status" }));
        let ports = status["counters"].as_object().unwrap();
        ports.values().filter_map(|one| one[reason]["packets"].as_u64()).sum()
    }

    pub(crate) fn set_rules(&self, rules: Value) {
        self.ask(json!({ "ask": "set-rules", "rules": rules }));
    }

    pub(crate) fn rule(&self, action: &str, to: Value) -> Value {
        let mut rule = json!({
            "trafficRuleId": "origin", "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
            "trafficFilter": [{"dstAddress": ORIGIN, "dstPort": ["80"], "protocol": ["TCP"]}],
            "action": action,
        });
        if !to.is_null() {
            rule["dstInterface"] = to;
        }
        json!([rule])
    }

    pub(crate) fn curl(&self, arguments: &[&str]) -> Option<String> {
        let ns = self.ns("ran");
        let mut all = vec!["netns", "exec", &ns, "curl", "-sS", "--max-time", "10"];
        all.extend(arguments);
        let output = run("ip", &all);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// What the client gets from the origin's address: who answers, and whom that sees.
    pub(crate) fn get(&self, version: usize) -> Option<String> {
        let host = if version == 0 { ORIGIN[0].to_owned() } else { format!("[{}]", ORIGIN[1]) };
        self.curl(&[&format!("http://{host}/")]).map(|text| text.trim().to_owned())
    }

    /// Long bodies arrive whole both ways, in packets as long as the client's link takes.
    pub(crate) fn carries_long_bodies(&self) {
        let upload = self.path("upload");
        std::fs::write(&upload, vec![b'y'; 300_000]).unwrap();
        for host in [ORIGIN[0].to_owned(), format!("[{}]", ORIGIN[1])] {
            let got = self.curl(&[&format!("http://{host}/1000000")]);
            assert_eq!(got.map(|body| body.len()), Some(1_000_000), "{host}");
            let body = format!("@{}", upload.display());
            let sent = self.curl(&["--data-binary", &body, &format!("http://{host}/")]);
            assert_eq!(sent.as_deref(), Some("300000\n"), "{host}");
        }
    }

    /// Does something in a namespace, in a thread of its own.
    pub(crate) fn within<T: Send>(&self, ns: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = std::fs::File::open(Path::new("/run/netns").join(self.ns(ns))).unwrap();
        let inside = || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// Both versions are answered by `who`, who sees the client's own address.
    pub(crate) fn is_answered_by(&self, who: &str) {
        for version in [0, 1] {
            let expected = format!("{who} {}", CLIENT[version]);
            let mut last = None;
            let done = Instant::now();
            while last.as_ref() != Some(&expected) {
                assert!(
                    done.elapsed() < PATIENCE,
                    "{expected} expected, {last:?} came: {}",
                    self.try_ask(&json!({"ask": "status"})).unwrap_or_default()
                );
                last = self.get(version);
            }
        }
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        started.elapsed()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        (self.gnb, self.upf, self.router) = (None, None, None);
        self.servers.clear();
        for one in &self.namespaces {
            run("ip", &["netns", "delete", &self.ns(one)]);
        }
        run("umount", &[&self.path("bpf").display().to_string()]);
    }
}
