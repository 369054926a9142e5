//! Hosts of their own that run apps for a platform, over a real server of NATS: two on this machine, each with
//! containers and namespaces that the other does not see, which are killed, cut off, and come back.

use crate::nats::Nats;
use crate::world::{LIVES, World, run, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A kind of accelerator, and a device that no container has by itself.
const ACCELERATOR: &str = "example.com/fpga";
const DEVICE: &str = "/dev/kmsg";
/// After how much silence of a host its apps come to another.
const MOVE_AFTER_S: u64 = 20;

/// The way from a host to the servers, which can be cut.
struct Way {
    port: u16,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Self { port, is_cut: Arc::default(), open: Arc::default() };
        let (is_cut, open) = (Arc::clone(&way.is_cut), Arc::clone(&way.open));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(server.trim_start_matches("nats://")) else {
                    continue;
                };
                for (mut from, mut to) in [(&near, &far), (&far, &near)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    std::thread::spawn(move || {
                        let _ = copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.lock().unwrap().extend([near, far]);
            }
        });
        way
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// A host: a place for containers of its own, and the program in it.
pub(crate) struct Host {
    name: &'static str,
    folder: tempfile::TempDir,
    /// Where it has the network of the others.
    way: Option<Way>,
    /// Keeps the place.
    holder: Child,
    agent: Option<Child>,
}

impl Host {
    /// The host has one accelerator.
    fn start(name: &'static str, server: String) -> Self {
        let way = Way::to(server);
        let address = format!("127.0.0.1:{}", way.port);
        let mut host = Self::hold(name, &["--mount"], |_| address);
        host.way = Some(way);
        host
    }

    /// A host with a network of its own. `connect` is given the process that has it, and gives the address of the
    /// servers.
    pub(crate) fn start_apart(name: &'static str, connect: impl FnOnce(u32) -> String) -> Self {
        Self::hold(name, &["--mount", "--net"], connect)
    }

    fn hold(name: &'static str, own: &[&str], connect: impl FnOnce(u32) -> String) -> Self {
        let hold = "mount -t tmpfs tmpfs /run && echo ready && exec sleep infinity";
        let mut holder = Command::new("unshare");
        holder.args(own).args(["sh", "-c", hold]).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        let (folder, server) = (tempfile::tempdir().unwrap(), connect(holder.id()));
        let config = format!(
            "name = \"{name}\"\nstate = \"{}/state\"\n[packages]\nunsigned = true\n\
             [nats]\nservers = [\"nats://{server}\"]\n[accelerators]\n\"{ACCELERATOR}\" = [[\"{DEVICE}\"]]\n",
            folder.path().display(),
        );
        std::fs::write(folder.path().join("host.toml"), config).unwrap();
        let mut host = Self { name, folder, way: None, holder, agent: None };
        host.again();
        host
    }

    fn way(&self) -> &Way {
        self.way.as_ref().unwrap()
    }

    /// Ends all of it, as a failure of its power does.
    pub(crate) fn die(&mut self) {
        self.kill();
        for name in self.containers() {
            let _ = self.inside("crun").args(["delete", "--force", &name]).output();
            let _ = self.inside("ip").args(["netns", "delete", &name]).output();
        }
    }

    /// Starts the program on what the last one left.
    fn again(&mut self) {
        self.kill();
        let said = self.folder.path().join("said");
        let said = std::fs::File::options().create(true).append(true).open(said).unwrap();
        let config = self.folder.path().join("host.toml");
        let mut agent = self.inside(env!("CARGO_BIN_EXE_freshet"));
        agent.args(["mec", "host", "--config"]).arg(config);
        agent.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        agent.env("NOTIFY_SOCKET", self.notified()).env("WATCHDOG_USEC", "2000000");
        self.agent = Some(agent.spawn().unwrap());
    }

    /// Where the program tells systemd how it is.
    fn notified(&self) -> PathBuf {
        self.folder.path().join("notified")
    }

    fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
    }

    /// A program at this host's place.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let of = |kind: &str| format!("/proc/{}/ns/{kind}", self.holder.id());
        command
            .args([format!("--mount={}", of("mnt")), format!("--net={}", of("net"))])
            .arg(program);
        command
    }

    /// Has its shell do something.
    pub(crate) fn run(&self, line: &str) {
        let done = self.inside("sh").args(["-c", line]).status().unwrap();
        assert!(done.success(), "{line}");
    }

    /// Containers here that run.
    fn containers(&self) -> Vec<String> {
        let output = self.inside("crun").args(["list", "--quiet"]).output().unwrap();
        let mut all: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        all.sort();
        all
    }

    /// The process of an app, as the host knows it.
    fn process(&self, instance: &str) -> Option<String> {
        let path = self.folder.path().join("state/apps").join(instance).join("process");
        std::fs::read_to_string(path).ok()
    }

    /// Whether nothing is left of any app: files, namespaces, packages.
    pub(crate) fn is_empty(&self) -> bool {
        let count = |below: &str, but: &str| {
            let all = std::fs::read_dir(self.folder.path().join(below)).unwrap();
            all.filter(|one| one.as_ref().unwrap().file_name() != but).count()
        };
        let namespaces = self.inside("ip").args(["netns", "list"]).output().unwrap().stdout;
        self.containers().is_empty()
            && namespaces.is_empty()
            && count("state/apps", "lock") == 0
            && count("state/packages", "") == 0
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.die();
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        if std::thread::panicking() {
            let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
            println!("the host {} said:\n{said}", self.name);
        }
    }
}

/// Tests of hosts lead the same addresses to theirs, one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A platform beside servers of NATS, in the network namespace that this is, with a name.
fn platform(nats: &Nats) -> World {
    let folder = tempfile::tempdir().unwrap();
    let namespace = format!("freshet-main-{}", std::process::id());
    run("ip", &["netns", "attach", &namespace, &std::process::id().to_string()]);
    let runtime = format!(
        "network = \"10.98.0.0/16\"\nmove_after_s = {MOVE_AFTER_S}\n\
         [runtime.nats]\nservers = [\"{}\"]\n\
         [runtime.hosts.north]\ncpus = 1.0\nmemory_mib = 256\nnetwork = \"10.98.1.0/24\"\nzone = \"one\"\n\
         accelerators = {{ \"{ACCELERATOR}\" = 1 }}\n\
         [runtime.hosts.south]\ncpus = 0.5\nmemory_mib = 256\nnetwork = \"10.98.2.0/24\"\nzone = \"two\"\n",
        nats.url()
    );
    let router = folder.path().join("router.sock");
    drop(crate::world::stand_in(&router));
    let mut world =
        World::beside(folder, &namespace, &router, &runtime, "[packages]\nunsigned = true\n");
    world.is_own = true;
    world
}

/// Brings the package of an app that no packets are led to, and that asks for so many accelerators.
fn bring(world: &World, accelerators: u64) {
    let archive = world.pack();
    let folder = archive.with_extension("");
    let path = folder.join("appd.json");
    let mut descriptor: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    descriptor["appTrafficRule"] = json!([]);
    descriptor["osContainerDescriptor"][0]["extendedResourceRequests"] =
        json!([{ ACCELERATOR: accelerators }]);
    std::fs::write(&path, descriptor.to_string()).unwrap();
    let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/mec/pack");
    run(pack, &[folder.to_str().unwrap(), "/server"]);
    world.upload("hello", &archive);
}

/// Instantiates an app, as soon as there are hosts for it.
pub(crate) fn instantiate(world: &World, wanted: &Value) -> String {
    let instance = world.name();
    let body = json!({ "selectedMECHostInfo": [{ "hostId": wanted }] });
    let target = format!("{LIVES}/{instance}/instantiate");
    until("there is a host", || world.post(&target, &body).0 == 202);
    settled(world, &instance);
    instance
}

pub(crate) fn settled(world: &World, instance: &str) {
    let state = world.settled(instance);
    assert_eq!(state, "COMPLETED", "{}", world.get("/app_lcm/v1/app_lcm_op_occs"));
}

fn answers(world: &World, instance: &str) -> bool {
    world.ask_app(&format!("http://{}/", world.address(instance))) == instance
}

fn name(instance: &str) -> String {
    format!("mec-{}", &instance[..12])
}

#[test]
fn apps_go_on_whoever_is_killed_and_come_to_another_host_once_theirs_is_lost() {
    if let Some(why) = crate::world::missing() {
        return crate::skip::skip(why);
    }
    let Some(program) = crate::support::program("nats-server") else { return };
    let _alone = alone();
    let mut nats = Nats::start(program);
    let mut world = platform(&nats);
    let (mut north, south) = (Host::start("north", nats.url()), Host::start("south", nats.url()));
    bring(&world, 0);
    // It comes where most is left, and another one to the zone that it wants.
    let first = instantiate(&world, &json!({}));
    let second = instantiate(&world, &json!({ "zone": "two" }));
    assert!(world.address(&first).starts_with("10.98.1."));
    assert!(world.address(&second).starts_with("10.98.2."));
    assert!(answers(&world, &first) && answers(&world, &second));
    assert_eq!((north.containers(), south.containers()), (vec![name(&first)], vec![name(&second)]));
    // Whoever is killed, apps go on as they are.
    let before = (north.process(&first), south.process(&second));
    assert!(before.0.is_some() && before.1.is_some());
    world.again();
    north.again();
    nats.kill();
    assert!(answers(&world, &first) && answers(&world, &second));
    nats.run();
    // What is asked for while something is away is done when it is there.
    assert_eq!(world.begin(&second, "stop"), 202);
    settled(&world, &second);
    assert_eq!(south.containers(), Vec::<String>::new());
    assert_eq!(world.begin(&second, "start"), 202);
    settled(&world, &second);
    assert!(answers(&world, &first) && answers(&world, &second));
    assert_eq!(north.process(&first), before.0);
    // A platform that is killed at some moment of an operation goes on with it.
    for pause_ms in [5, 40, 90, 200, 400, 800] {
        let third = world.name();
        let target = format!("{LIVES}/{third}/instantiate");
        let body = json!({ "selectedMECHostInfo": [{ "hostName": "north", "hostId": {} }] });
        until("there is a host", || world.post(&target, &body).0 == 202);
        std::thread::sleep(Duration::from_millis(pause_ms));
        world.again();
        settled(&world, &third);
        assert!(answers(&world, &third), "killed after {pause_ms} ms");
        assert_eq!(world.begin(&third, "terminate"), 202);
        std::thread::sleep(Duration::from_millis(pause_ms));
        world.again();
        settled(&world, &third);
        until("nothing is left of it", || north.containers() == [name(&first)]);
    }
    // A host that is cut off ends its apps, and then they come to another: there are never two of one.
    let begun = Instant::now();
    north.way().cut();
    let mut ended = None;
    until("it comes to the other host", || {
        let (there, here) = (north.containers(), south.containers());
        let (there, here) = (there.contains(&name(&first)), here.contains(&name(&first)));
        assert!(!(there && here), "there are two of it");
        if !there {
            ended.get_or_insert_with(|| begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(100));
        here
    });
    println!("ended after {ended:?}, at the other host after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= Duration::from_secs(MOVE_AFTER_S));
    until("it is ready there", || world.address(&first).starts_with("10.98.2."));
    settled(&world, &first);
    assert!(answers(&world, &first) && answers(&world, &second));
    // When it is back it runs nothing of it. Of what two hosts on one machine share, control groups, it can remove
    // the app's own when the other has ended it, and gets new apps then.
    north.way().heal();
    for instance in [&first, &second] {
        assert_eq!(north.containers(), Vec::<String>::new());
        assert!(answers(&world, instance));
        assert_eq!(world.begin(instance, "terminate"), 202);
        settled(&world, instance);
    }
    until("nothing is left", || north.is_empty() && south.is_empty());
    let third = instantiate(&world, &json!({ "zone": "one" }));
    assert!(world.address(&third).starts_with("10.98.1.") && answers(&world, &third));
    assert_eq!(world.begin(&third, "terminate"), 202);
    settled(&world, &third);
    until("nothing is left", || north.is_empty() && south.is_empty());
}

#[test]
fn an_accelerator_is_of_one_app_at_a_time() {
    if let Some(why) = crate::world::missing() {
        return crate::skip::skip(why);
    }
    let Some(program) = crate::support::program("nats-server") else { return };
    let _alone = alone();
    let nats = Nats::start(program);
    let world = platform(&nats);
    let north = Host::start("north", nats.url());
    bring(&world, 1);
    let first = instantiate(&world, &json!({}));
    assert!(answers(&world, &first));
    let process = north.process(&first).unwrap();
    let (process, _) = process.split_once(' ').unwrap();
    let inside = format!("/proc/{process}/root{DEVICE}");
    assert!(std::fs::metadata(&inside).unwrap().file_type().is_char_device(), "{inside}");
    let second = world.name();
    let target = format!("{LIVES}/{second}/instantiate");
    let body = json!({ "selectedMECHostInfo": [{ "hostId": {} }] });
    let (status, said) = world.post(&target, &body);
    let why = format!("it asks for 1 {ACCELERATOR}, and 0 of 1 are left");
    assert!(status == 403 && said.to_string().contains(&why), "{status} {said}");
    assert_eq!(world.begin(&first, "terminate"), 202);
    settled(&world, &first);
    assert_eq!(world.post(&target, &body).0, 202);
    settled(&world, &second);
    assert!(answers(&world, &second));
    assert_eq!(world.begin(&second, "terminate"), 202);
    settled(&world, &second);
    until("nothing is left", || north.is_empty());
}

#[test]
fn a_host_says_that_it_goes_on_while_no_server_answers() {
    if let Some(why) = crate::world::missing() {
        return crate::skip::skip(why);
    }
    // Nobody listens there.
    let mut host = Host::start("north", "nats://127.0.0.1:9".to_owned());
    let notified = UnixDatagram::bind(host.notified()).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let says = || {
        let mut said = [0; 64];
        notified.recv(&mut said).is_ok_and(|bytes| said.starts_with(b"WATCHDOG=1") && bytes > 0)
    };
    host.again();
    // After the word that it is ready.
    until("it says so", says);
    assert!(says() && says());
    let agent = host.agent.as_ref().unwrap().id().to_string();
    run("kill", &["-STOP", &agent]);
    // What was said before.
    while says() {}
    run("kill", &["-CONT", &agent]);
    assert!(says());
}
