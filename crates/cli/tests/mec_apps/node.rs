//! The caching node as a package: from an upload to answers of its cache to a mobile client, and back to the
//! core, while the client asks all the time and no request fails.

use crate::world::{World, run, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FRESHET: &str = env!("CARGO_BIN_EXE_freshet");
/// The origin's address, as `freshet router demo` has it.
pub(crate) const ORIGIN: &str = "203.0.113.10";
/// A request takes as long on no machine.
const PATIENCE: Duration = Duration::from_secs(15);
/// A machine with other work may take an app for dead that is not, or a client for one that has left: then it
/// is done again.
const TRIALS: u32 = 5;

/// A mobile network: that of `freshet router demo`, with a way between apps and the origin besides.
pub(crate) struct Network {
    demo: Child,
    prefix: String,
    pub(crate) socket: PathBuf,
}

impl Network {
    pub(crate) fn start() -> Self {
        let mut demo =
            Command::new(FRESHET).args(["router", "demo"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let said: Vec<String> =
            lines.map(Result::unwrap).take_while(|line| !line.contains("Ctrl-C")).collect();
        let word = |end: &str| {
            let mut words = said.iter().flat_map(|line| line.split_whitespace());
            words.find(|word| word.ends_with(end)).unwrap_or_else(|| panic!("{said:?}"))
        };
        let prefix = word("-client").trim_end_matches("client").to_owned();
        let network = Self { demo, socket: word("router.sock").into(), prefix };
        let [router, internet] = ["router", "internet"].map(|one| network.name(one));
        let ip = |line: &str| run("ip", &line.split_whitespace().collect::<Vec<_>>());
        ip(&format!("-n {router} link add up0 type veth peer name up1 netns {internet}"));
        for (one, device, address) in
            [(&router, "up0", "10.96.0.1/30"), (&internet, "up1", "10.96.0.2/30")]
        {
            ip(&format!("-n {one} addr add {address} dev {device}"));
            ip(&format!("-n {one} link set {device} up"));
        }
        ip(&format!("-n {internet} route add 10.97.0.0/24 via 10.96.0.1"));
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        run("ip", &["netns", "exec", &router, "sh", "-c", forward]);
        network
    }

    pub(crate) fn name(&self, one: &str) -> String {
        format!("{}{one}", self.prefix)
    }

    fn ask(&self, question: &Value) -> Value {
        let stream = UnixStream::connect(&self.socket).unwrap();
        let mut question = question.clone();
        question["version"] = json!(1);
        (&stream).write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["answer"].clone()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.demo);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.demo.wait();
    }
}

/// What a client saw that asks all the time.
#[derive(Default)]
pub(crate) struct Seen {
    /// Who answered, each time it is another than before, and how often.
    pub(crate) answers: Vec<(&'static str, u64)>,
    pub(crate) failures: Vec<String>,
}

/// Asks again and again, each time with a connection of its own.
pub(crate) struct Asker {
    pub(crate) seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Asker {
    pub(crate) fn start(namespace: &str) -> Self {
        let (seen, is_over) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let file = std::fs::File::open(Path::new("/run/netns").join(namespace)).unwrap();
        let (shared, over) = (Arc::clone(&seen), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
            while !over.load(Relaxed) {
                let answer = ask();
                let mut seen = shared.lock().unwrap();
                match answer {
                    Ok(who) => match seen.answers.last_mut() {
                        Some((last, count)) if *last == who => *count += 1,
                        _ => seen.answers.push((who, 1)),
                    },
                    Err(error) => {
                        let place = format!("after {:?}: {error}", seen.answers);
                        seen.failures.push(place);
                    }
                }
            }
        });
        Self { seen, is_over, thread: Some(thread) }
    }

    /// Waits until `who` answers, and has answered for a while.
    pub(crate) fn is_answered_by(&self, who: &str) {
        until(&format!("{who} answers"), || {
            let seen = self.seen.lock().unwrap();
            seen.answers.last().is_some_and(|(last, count)| *last == who && *count > 20)
        });
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Who answers at the origin's address.
fn ask() -> std::io::Result<&'static str> {
    let address: SocketAddr = (ORIGIN.parse::<std::net::Ipv4Addr>().unwrap(), 80).into();
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /film HTTP/1.1\r\nHost: {ORIGIN}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // An app that says its own name is at the edge, too.
    if body.len() == 32 && body.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok("edge");
    }
    if !answer.starts_with("HTTP/1.1 200 ") || !body.starts_with("The origin, asked by ") {
        return Err(std::io::Error::other(answer));
    }
    let is_cached =
        answer.lines().any(|line| line.starts_with("Via: ") && line.contains("freshet"));
    Ok(if is_cached { "edge" } else { "core" })
}

/// A package of the node, signed.
fn package(folder: &Path) -> PathBuf {
    let maker = folder.join("maker").display().to_string();
    run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=maker",
            "-days",
            "2",
            "-keyout",
            &format!("{maker}.key"),
            "-out",
            &format!("{maker}.pem"),
        ],
    );
    let node = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/mec/node");
    let made = Command::new(node)
        .args([&folder.join("node").display().to_string(), ORIGIN, "http://10.96.0.2"])
        .env("FRESHET", FRESHET)
        .env("SIGNER", &maker)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder.join("node.csar")
}

#[test]
fn the_node_as_a_package_answers_at_the_edge_and_no_request_fails() {
    if let Some(why) = crate::world::missing().or_else(freshet_router::kernel::namespace::missing) {
        crate::skip::skip(why);
        return;
    }
    for program in ["openssl", "strip"] {
        if Command::new(program).arg("version").output().is_err() {
            crate::skip::missing(program);
            return;
        }
    }
    let network = Network::start();
    let folder = tempfile::tempdir().unwrap();
    let archive = package(folder.path());
    // What the router sees, and what the operator knows of its base station.
    let radio = "[radio]\nplmn = [\"001\", \"01\"]\nqci = 9\n[radio.station.\"10.3.0.1\"]\n\
                 cell = \"0010100\"\nzone = \"north\"\nposition = [60.17, 24.94]\nradius_m = 500.0\n";
    let maker = folder.path().join("maker.pem").display().to_string();
    let more = format!("{radio}[packages]\nsigners = [\"{maker}\"]\n");
    let world = World::beside(
        folder,
        &network.name("router"),
        &network.socket,
        &crate::world::here("10.97.0.0/24"),
        &more,
    );
    sees_the_clients_bearer(&network, &world);
    world.upload("node", &archive);
    for trial in 1..=TRIALS {
        let asker = Asker::start(&network.name("client"));
        asker.is_answered_by("core");
        let instance = world.name_of("node-d");
        assert_eq!(world.begin(&instance, "instantiate"), 202);
        let settled = world.settled(&instance);
        assert_eq!(settled, "COMPLETED", "{}", world.get("/app_lcm/v1/app_lcm_op_occs"));
        asker.is_answered_by("edge");
        assert_eq!(world.begin(&instance, "leave"), 202);
        assert_eq!(world.settled(&instance), "COMPLETED");
        asker.is_answered_by("core");
        assert_eq!(world.left(&instance), Vec::<String>::new());
        assert_eq!(network.ask(&json!({"ask": "status"}))["added"], json!([]));
        let seen = std::mem::take(&mut *asker.seen.lock().unwrap());
        drop(asker);
        println!("{:?}", seen.answers);
        let order: Vec<&str> = seen.answers.iter().map(|(who, _)| *who).collect();
        let is_good = seen.failures.is_empty() && order == ["core", "edge", "core"];
        assert!(is_good || trial < TRIALS, "{order:?} {:?}", seen.failures);
        if !is_good {
            println!("once more, after {:?}", seen.failures);
            continue;
        }
        return;
    }
}

/// Bearer, cell and zone of the client, as the edge router has them.
fn sees_the_clients_bearer(network: &Network, world: &World) {
    let _asker = Asker::start(&network.name("client"));
    let bearer = || world.get("/rni/v2/queries/s1_bearer_info")["s1UeInfo"][0].clone();
    until("the router has told of the client", || !bearer().is_null());
    let told = bearer();
    assert_eq!(told["associateId"][0]["value"], "10.45.0.2", "{told}");
    let detail = &told["s1BearerInfoDetailed"][0];
    assert_eq!(detail["enbInfo"], json!({"ipAddress": "10.3.0.1", "tunnelId": "200"}), "{told}");
    assert_eq!(detail["sGwInfo"], json!({"ipAddress": "10.3.0.240", "tunnelId": "100"}), "{told}");
    let users = world.get("/location/v3/queries/users?zoneId=north");
    let user = &users["userList"]["user"][0];
    assert_eq!(
        (&user["accessPointId"], &user["zoneId"]),
        (&json!("0010100"), &json!("north")),
        "{users}"
    );
}
