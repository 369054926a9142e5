//! `freshet router demo`: a mobile network in namespaces of this machine, and the caching node as an app
//! at its edge.
//!
//! ```text
//!           GTP-U (N3)              GTP-U
//! client ── ran ══════ router ══════ core ── internet: the origin
//!                        │                       │
//!                       edge: the node ──────────┘ what it does not have yet
//! ```

use crate::form::FormArguments;
use anyhow::{Context, Result, anyhow, bail};
use freshet_router::gtp::Form;
use freshet_router::kernel::Link;
use freshet_router::kernel::ends::{self, Ends};
use freshet_router::kernel::namespace::{self, Namespaces};
use freshet_router::packet::mapped;
use freshet_router::session::{Client, Session};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

const NAMESPACES: [&str; 6] = ["client", "ran", "router", "core", "internet", "edge"];
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
/// The origin's address, which the app at the edge has as well.
const ORIGIN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
/// Where the node fetches from: the same origin, not by way of the mobile network.
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
/// Base station and the core's user plane, and what each knows the client's tunnel by.
const ENDS: [u32; 2] = [0x0a03_0001, 0x0a03_00f0];
const TEIDS: [u32; 2] = [100, 200];
/// The wire has room for the tunnel around the client's 1500 bytes.
const WIRE_MTU: u16 = 1600;
const PATH: &str = "/film";
/// How long something here may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows it until Ctrl-C, or `once`: asks as the client without a rule and with one.
///
/// # Errors
/// What this machine lacks or refused.
pub(super) fn run(once: bool) -> Result<()> {
    if let Some(missing) = namespace::missing() {
        bail!("{missing}");
    }
    let stage = Stage::build().context("the demonstration did not start; nothing of it is left")?;
    stage.introduce()?;
    if once { stage.show() } else { wait() }
}

/// What runs; dropping it takes everything away.
pub(crate) struct Stage {
    node: Running,
    router: Running,
    _stations: Vec<(Ends, Vec<Link>)>,
    namespaces: Namespaces,
}

/// A program that ends with the stage.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Builds it.
    ///
    /// # Errors
    /// What this machine refused; then nothing of it is left.
    pub(crate) fn build() -> Result<Self> {
        let namespaces = Namespaces::new(&NAMESPACES).map_err(anyhow::Error::msg)?;
        wire(&namespaces).map_err(anyhow::Error::msg)?;
        let stations = [
            ("ran", ["ran0", "air0"], ["client", "ue0"], ["core", "core0"]),
            ("core", ["core0", "n6"], ["internet", "net0"], ["ran", "ran0"]),
        ];
        let stations = stations
            .into_iter()
            .map(|(one, own, client, far)| station(&namespaces, one, own, client, far))
            .collect::<Result<Vec<_>>>()?;
        within(&namespaces, "internet", || {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80))?;
            std::thread::Builder::new().name("origin".into()).spawn(move || serve(&listener))?;
            Ok(())
        })?;
        let folder = namespaces.folder();
        let mac = namespaces.interface("edge", "app0").map_err(anyhow::Error::msg)?.0;
        for (name, text) in files(folder, &freshet_router::app::mac_text(mac)) {
            fs::write(folder.join(name), text).with_context(|| name.to_owned())?;
        }
        let node = start(&namespaces, "edge", &["serve", "--config", "node.toml"])?;
        let router = start(&namespaces, "router", &["router", "--config", "router.toml"])?;
        Ok(Self { node, router, _stations: stations, namespaces })
    }

    /// Where a file of its programs is, such as the router's socket.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.namespaces.folder().join(name)
    }

    /// Says how to ask as the client.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn introduce_client(&self) -> Result<()> {
        let client = self.namespaces.name("client");
        say!("as the mobile client ip netns exec {client} curl -si http://{ORIGIN}{PATH}")
    }

    /// Waits until the router has seen that the app is alive.
    ///
    /// # Errors
    /// When it does not become so.
    pub(crate) fn app_is_alive(&self) -> Result<()> {
        self.until("the app is alive", || {
            Ok(self.ask(&json!({"ask": "status"}))?["apps"]["edge"] == true)
        })
    }

    /// Who answers the client, asked once.
    ///
    /// # Errors
    /// When nobody does.
    pub(crate) fn who_answers(&self) -> Result<String> {
        let answer = within(&self.namespaces, "client", get)?;
        let fields = answer.lines().filter_map(|line| line.split_once(": "));
        let mut who = fields.filter(|(name, _)| name.eq_ignore_ascii_case("x-answered-by"));
        who.next().map(|(_, who)| who.to_owned()).context("the answer does not say who gave it")
    }

    fn introduce(&self) -> Result<()> {
        let program = std::env::current_exe().unwrap_or_else(|_| "freshet".into());
        let router = format!("{} router", program.display());
        let socket = format!("--socket {}", self.file("router.sock").display());
        let client = self.namespaces.name("client");
        let [edge, none] = ["edge.json", "none.json"].map(|name| self.file(name));
        say!(
            "A client, {CLIENT}, behind a base station; a core, and behind it an origin, {ORIGIN}; on the\n\
             line between them the router, with a caching node as app, which has the origin's address.\n\n\
             In another terminal, as root:\n\n\
             ask as the client    ip netns exec {client} curl -si http://{ORIGIN}{PATH}\n\
             break out            {router} rules {socket} --set {}\n\
             ask again            X-Answered-By was core and is edge now\n\
             see why              {router} trace {socket} {CLIENT} {ORIGIN}\n\
             look                 {router} status {socket}\n\
             give it back         {router} rules {socket} --set {}\n\n\
             What the router and the node say is in {}. Ctrl-C ends it and leaves nothing.",
            edge.display(),
            none.display(),
            self.file("log").display(),
        )
    }

    /// Asks as the client: without a rule, with one, and without again.
    fn show(&self) -> Result<()> {
        self.is_answered_by("core", "without a rule")?;
        self.app_is_alive()?;
        self.set_rules("edge.json")?;
        self.is_answered_by("edge", "with one")?;
        self.set_rules("none.json")?;
        self.is_answered_by("core", "without it again")
    }

    fn set_rules(&self, rules: &str) -> Result<()> {
        let rules: Value = serde_json::from_str(&fs::read_to_string(self.file(rules))?)?;
        self.ask(&json!({ "ask": "set-rules", "rules": rules })).map(drop)
    }

    fn ask(&self, question: &Value) -> Result<Value> {
        super::ask(
            &super::Ask { socket: self.file("router.sock"), form: FormArguments::TEXT },
            question,
        )
    }

    fn is_answered_by(&self, who: &str, when: &str) -> Result<()> {
        let expected = format!("X-Answered-By: {who}");
        let mut last = String::new();
        self.until(&format!("{when} {who} answers"), || {
            last = within(&self.namespaces, "client", get)?;
            Ok(last.lines().any(|line| line.eq_ignore_ascii_case(&expected)))
        })?;
        say!("\n{when}:")?;
        last.lines().try_for_each(|line| say!("  {line}"))
    }

    /// Tries again until it holds: each try asks somebody, and takes the time that takes.
    fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !holds()? {
            if begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.file("log")).unwrap_or_default();
                bail!("waited in vain until {what}. The log:\n{log}");
            }
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Before the namespaces go: the router takes leave of interfaces that are there.
        for running in [&mut self.node, &mut self.router] {
            let _ = running.0.kill();
        }
    }
}

/// Lays cables and gives addresses.
fn wire(namespaces: &Namespaces) -> Result<(), String> {
    for (ends, mtu) in [
        ([("client", "ue0"), ("ran", "air0")], 1500),
        ([("ran", "ran0"), ("router", "acc0")], WIRE_MTU),
        ([("core", "core0"), ("router", "cor0")], WIRE_MTU),
        ([("core", "n6"), ("internet", "net0")], 1500),
        ([("edge", "app0"), ("router", "leg0")], 1500),
        ([("edge", "back0"), ("internet", "back1")], 1500),
    ] {
        namespaces.cable(ends, mtu)?;
    }
    namespaces.ip("router", "link add br0 type bridge stp_state 0 mcast_snooping 0")?;
    namespaces.ip("router", &format!("link set br0 mtu {WIRE_MTU}"))?;
    for port in ["acc0", "cor0"] {
        namespaces.ip("router", &format!("link set {port} master br0"))?;
    }
    namespaces.ip("router", "link set br0 up")?;
    for (one, addresses) in [
        ("client", vec![format!("{CLIENT}/24 dev ue0")]),
        ("router", vec!["10.99.0.1/24 dev leg0".to_owned()]),
        (
            "internet",
            vec![
                "198.51.100.2/30 dev net0".to_owned(),
                format!("{BEHIND}/30 dev back1"),
                format!("{ORIGIN}/32 dev lo"),
            ],
        ),
        (
            "edge",
            vec![
                "10.99.0.2/24 dev app0".to_owned(),
                "10.98.0.2/30 dev back0".to_owned(),
                format!("{ORIGIN}/32 dev lo"),
            ],
        ),
    ] {
        addresses
            .iter()
            .try_for_each(|address| namespaces.ip(one, &format!("addr add {address}")).map(drop))?;
    }
    // Nobody asks for neighbours through a tunnel.
    for (one, next, device, peer) in [
        ("client", "10.45.0.1", "ue0", ("ran", "air0")),
        ("internet", "198.51.100.1", "net0", ("core", "n6")),
    ] {
        let mac = freshet_router::app::mac_text(namespaces.interface(peer.0, peer.1)?.0);
        namespaces.ip(one, &format!("neigh add {next} lladdr {mac} dev {device} nud permanent"))?;
        namespaces.ip(one, &format!("route add default via {next}"))?;
    }
    namespaces.ip("edge", "route add default via 10.99.0.1").map(drop)
}

/// Makes a namespace one end of the client's tunnel: `own` leads to the wire and to the client or the
/// internet, whose interface is `client`, and the other end of the wire is `far`.
fn station(
    namespaces: &Namespaces,
    one: &str,
    own: [&str; 2],
    client: [&str; 2],
    far: [&str; 2],
) -> Result<(Ends, Vec<Link>)> {
    let find =
        |one: &str, device: &str| namespaces.interface(one, device).map_err(anyhow::Error::msg);
    let [wire, inside] = [find(one, own[0])?, find(one, own[1])?];
    let [client, far] = [find(client[0], client[1])?, find(far[0], far[1])?];
    let is_base_station = one == "ran";
    // Its own number is the second: where it is known by the first.
    let (other, teid) = if is_base_station { (1, TEIDS[0]) } else { (0, TEIDS[1]) };
    let session = Session {
        client: Client::of(mapped(CLIENT.into())).expect("an IPv4 address is one"),
        teids: [0, teid],
        qfi: 9,
        form: Form::GtpContainer,
        path: ends::path([mapped(ENDS[other]), mapped(ENDS[1 - other])], [far.0, wire.0]),
    };
    within(namespaces, one, || {
        let mut ends = Ends::load()?;
        ends.set_out(0, wire.1)?;
        ends.set_out(1, inside.1)?;
        ends.set_station(&session, [client.0, inside.0], is_base_station)?;
        let links =
            vec![ends.attach("into_tunnel", inside.1)?, ends.attach("out_of_tunnel", wire.1)?];
        Ok((ends, links))
    })
}

/// Does something in a namespace, in a thread of its own.
fn within<T: Send>(
    namespaces: &Namespaces,
    one: &str,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let inside = || {
        namespaces.enter(one).map_err(anyhow::Error::msg)?;
        work()
    };
    let done = std::thread::scope(|scope| scope.spawn(inside).join());
    done.map_err(|_| anyhow!("a thread of the demonstration ended early"))?
}

/// Files that the programs and whoever watches need.
fn files(folder: &Path, mac: &str) -> [(&'static str, String); 4] {
    let at = folder.display();
    let rule = json!([{
        "trafficRuleId": "film", "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
        "trafficFilter": [{"dstAddress": [format!("{ORIGIN}/32")], "dstPort": ["80"], "protocol": ["TCP"]}],
        "action": "FORWARD_DECAPSULATED",
        "dstInterface": {"interfaceType": "IP", "dstIpAddress": "10.99.0.2"},
    }]);
    [
        ("edge.json", format!("{rule:#}\n")),
        ("none.json", "[]\n".to_owned()),
        (
            "router.toml",
            format!(
                "wire = \"n3\"\naccess = \"acc0\"\ncore = \"cor0\"\nsocket = \"{at}/router.sock\"\n\
                 pins = \"{at}/bpf/router\"\nstate = \"{at}/router.json\"\n\n[app.edge]\n\
                 kind = \"breakout\"\ninterface = \"leg0\"\nmac = \"{mac}\"\n\
                 addresses = [\"10.99.0.2\"]\nhealth = \"tcp 10.99.0.2:80\"\n"
            ),
        ),
        (
            "node.toml",
            format!(
                "workers = 1\nmemory = \"64MiB\"\n[[listen]]\naddress = \":80\"\n[[origin]]\n\
                 url = \"http://{BEHIND}\"\n[admin]\nlisten = \"off\"\n[[header]]\naction = \"set\"\n\
                 name = \"X-Answered-By\"\nvalue = \"edge\"\n"
            ),
        ),
    ]
}

/// Starts this program in a namespace, and returns when it says that it is ready.
fn start(namespaces: &Namespaces, one: &str, arguments: &[&str]) -> Result<Running> {
    let folder = namespaces.folder();
    let notified = folder.join(format!("{one}.ready"));
    let ready = UnixDatagram::bind(&notified)?;
    ready.set_read_timeout(Some(Duration::from_millis(50)))?;
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command: Command = namespaces.command(one, std::env::current_exe()?);
    command
        .args(arguments)
        .current_dir(folder)
        .env("NOTIFY_SOCKET", &notified)
        .env("RUNTIME_DIRECTORY", folder.join("run"))
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut running = Running(command.spawn()?);
    let begun = Instant::now();
    let mut said = [0; 256];
    loop {
        match ready.recv(&mut said) {
            Ok(bytes) if said[..bytes].starts_with(b"READY=1") => return Ok(running),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if running.0.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            bail!("`freshet {}` did not start: {log}", arguments.join(" "));
        }
    }
}

/// The origin: says who it is and whom it sees, one client after the other.
fn serve(listener: &TcpListener) {
    const HEAD_BYTES_MAX: usize = 8192;
    while let Ok((mut stream, from)) = listener.accept() {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut head = Vec::<u8>::new();
        let mut bytes = [0; 1024];
        while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => head.extend(&bytes[..count]),
                _ => break,
            }
        }
        let body = format!("The origin, asked by {}\n", from.ip());
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
             Cache-Control: max-age=60\r\nX-Answered-By: core\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }
}

/// Asks the origin's address, as the client.
fn get() -> Result<String> {
    const SPAN: Duration = Duration::from_secs(3);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((IpAddr::V4(ORIGIN), 80)), SPAN)?;
    stream.set_read_timeout(Some(SPAN))?;
    write!(stream, "GET {PATH} HTTP/1.1\r\nHost: {ORIGIN}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Until somebody ends it.
fn wait() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        Ok(())
    })
}
