//! Machines that join a fleet with tokens, by servers of NATS that let nobody else in.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod nats;
mod support;

use drill::{Node, Origin};
use nats::Nats;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Process, freshet, program, run, succeed};

/// A fleet with an issuer, whose server shows and asks for certificates.
struct Fleet {
    folder: tempfile::TempDir,
    server: String,
    nats: Nats,
    issuer: Option<Process>,
}

impl Fleet {
    /// One whose nodes' certificates hold for `life`; nothing where there is no server of NATS.
    fn start(life: &str) -> Option<Self> {
        let program = program("nats-server")?;
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = format!("tls://127.0.0.1:{port}");
        let issuer = folder.path().join("issuer");
        let files = issuer.join("servers/127.0.0.1");
        let mut command = freshet();
        command.args(["fleet", "issuer", "init", "--fleet", "tv", "--server", &server]);
        succeed(command.arg(&issuer).arg("--servers-folder").arg(&files));
        let nats = Nats::start_including(program, port, &files);
        let mut fleet = Self { folder, server, nats, issuer: None };
        succeed(&mut fleet.operator(&["init"]));
        fleet.answer(life);
        Some(fleet)
    }

    /// Has the issuer answer.
    fn answer(&mut self, life: &str) {
        let mut command = freshet();
        command.args(["fleet", "issuer", "run", "--life", life]).arg(self.path("issuer"));
        let mut process = Process::start(command.stdout(Stdio::null()));
        process.wait_for(|line| line.contains("answers for the issuing key").then_some(()));
        self.issuer = Some(process);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that an operator gives.
    fn operator(&self, words: &[&str]) -> Command {
        let mut command = freshet();
        command.arg("fleet").args(words).arg("--identity").arg(self.path("issuer/operator"));
        command
    }

    fn token(&self, node: &str, more: &[&str]) -> PathBuf {
        let mut command = freshet();
        command.args(["fleet", "token"]).arg(self.path("issuer")).arg(node).args(more);
        let path = self.path(&format!("{node}.token"));
        fs::write(&path, succeed(&mut command)).unwrap();
        path
    }

    /// A machine that joins, with its folder and its file.
    fn join(&self, machine: &str, token: &Path) -> Command {
        let mut command = freshet();
        command.args(["fleet", "join", "--token"]).arg(token);
        command.arg("--identity").arg(self.path(machine));
        command.arg("--config").arg(self.path(&format!("{machine}-config")));
        command.arg("--write").arg(self.path(&format!("{machine}.toml")));
        command
    }

    /// Has a machine join; what its file says.
    fn joined(&self, machine: &str, more: &[&str]) -> String {
        succeed(&mut self.join(machine, &self.token(machine, more)));
        fs::read_to_string(self.path(&format!("{machine}.toml"))).unwrap()
    }

    /// What a machine gets that asks who belongs to the fleet.
    fn list_as(&self, machine: &str) -> Output {
        let mut command = freshet();
        run(command.args(["fleet", "list", "--identity"]).arg(self.path(machine)))
    }

    fn serves(&self, node: &str) {
        let is_its = |line: &str| line.starts_with(node) && line.ends_with(" serves");
        while !succeed(&mut self.operator(&["list"])).lines().any(is_its) {}
    }
}

fn why(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_machine_joins_with_a_token_and_gets_what_its_group_runs() {
    let Some(fleet) = Fleet::start("30d") else { return };
    let origin = Origin::start();
    let text = fleet.joined("edge-1", &["--group", "edges", "--label", "berlin"]);
    let node = Node::start(&origin, &format!("workers = 1\n{text}"), &[]);
    fleet.serves("edge-1");
    // It has the fleet's secret.
    let edges = fleet.path("edges");
    fs::create_dir(&edges).unwrap();
    fs::write(edges.join("freshet.toml"), "[cache]\ngrace = \"1h\"\n").unwrap();
    let (edges, secret) = (edges.display().to_string(), fleet.path("issuer/secret"));
    let mut push = fleet.operator(&["config", "push", &edges, "--group", "edges", "--hold", "1s"]);
    let said = succeed(push.arg("--canary").arg("berlin").arg("--secret").arg(secret));
    assert!(said.contains("all nodes keep it"), "{said}");
    let said = succeed(&mut fleet.operator(&["purge", "--wait", "--all"]));
    assert_eq!(said, "entry 1: all nodes have carried it out\n");
    // Its certificate says nothing to others, and makes no log and no words.
    let as_node = |words: &[&str]| {
        let mut command = freshet();
        command.arg("fleet").args(words).arg("--identity").arg(fleet.path("edge-1"));
        run(&mut command)
    };
    assert!(as_node(&["list"]).status.success());
    let secret = fleet.path("issuer/secret").display().to_string();
    for words in [
        &["purge", "--all"][..],
        &["purge", "--wait", "--all"],
        &["remove", "edge-1"],
        &["drain", "edge-1"],
        &["upgrade"],
        &["config", "push", &edges, "--group", "edges", "--secret", &secret],
    ] {
        let said = why(&as_node(words));
        assert!(said.contains("this identity may not do that: an operator's is needed"), "{said}");
    }
    drop(node);
    let mut stranger = freshet();
    stranger.args(["fleet", "list", "--fleet", "tv", "--server", &fleet.server]);
    let said = why(&run(stranger.arg("--ca").arg(fleet.path("issuer/ca.pem"))));
    assert!(said.contains("no server of the fleet can be reached"), "{said}");
}

#[test]
fn a_token_is_good_for_one_machine_for_its_time_and_while_somebody_answers() {
    let Some(mut fleet) = Fleet::start("30d") else { return };
    let token = fleet.token("edge-1", &[]);
    // Many at once.
    let machines: Vec<_> = (0..6).map(|number| format!("machine-{number}")).collect();
    let joins: Vec<_> = machines
        .iter()
        .map(|name| fleet.join(name, &token).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    let ends: Vec<_> = joins.into_iter().map(|join| join.wait_with_output().unwrap()).collect();
    let (well, wrong): (Vec<_>, Vec<_>) = ends.iter().partition(|end| end.status.success());
    assert_eq!(well.len(), 1, "{ends:?}");
    assert!(wrong.iter().all(|end| why(end).contains("was used already")), "{wrong:?}");
    // Who has joined is told so, and nothing is left of the second time.
    let winner = &machines[ends.iter().position(|end| end.status.success()).unwrap()];
    let said = why(&run(&mut fleet.join(winner, &token)));
    assert!(
        said.contains("was used already") && said.contains("this machine has joined"),
        "{said}"
    );
    assert!(!fleet.path(winner).join("joining").exists());
    // Cut short where it has no answer, it goes on with the same token and key.
    fleet.issuer.take();
    let token = fleet.token("edge-3", &[]);
    let said = why(&run(&mut fleet.join("edge-3", &token)));
    assert!(said.contains("freshet fleet issuer run"), "{said}");
    let key = fs::read(fleet.path("edge-3/joining/key.pem")).unwrap();
    fleet.answer("30d");
    succeed(&mut fleet.join("edge-3", &token));
    let shown = fs::read_to_string(fleet.path("edge-3/identity.pem")).unwrap();
    assert!(shown.ends_with(std::str::from_utf8(&key).unwrap()));
    assert!(!fleet.path("edge-3/joining").exists());
    let mut renew = freshet();
    renew.args(["fleet", "renew", "--identity"]).arg(fleet.path("edge-3"));
    assert!(succeed(&mut renew).ends_with(" holds for 29 days\n"));
    let renewed = fs::read_to_string(fleet.path("edge-3/identity.pem")).unwrap();
    assert!(renewed != shown && renewed.ends_with(std::str::from_utf8(&key).unwrap()));
    let mut second = freshet();
    second.args(["fleet", "issuer", "run"]).arg(fleet.path("issuer"));
    let said = why(&run(&mut second));
    assert!(said.contains("another process answers"), "{said}");
}

#[test]
fn a_node_renews_its_certificate_until_it_is_removed() {
    let Some(mut fleet) = Fleet::start("9s") else { return };
    let origin = Origin::start();
    let text = fleet.joined("edge-1", &[]);
    let mut node = Node::start(&origin, &format!("workers = 1\n{text}"), &[]);
    fleet.serves("edge-1");
    let shown = || fs::read(fleet.path("edge-1/identity.pem")).unwrap();
    let first = shown();
    while shown() == first {}
    // Longer than one holds, servers and all: who comes back has what is good then.
    let second = shown();
    while shown() == second {}
    fleet.nats.kill();
    fleet.nats.run();
    fleet.serves("edge-1");
    let said = succeed(&mut fleet.operator(&["purge", "--wait", "--all"]));
    assert!(said.contains("all nodes have carried it out"), "{said}");
    let said = succeed(&mut fleet.operator(&["remove", "edge-1"]));
    assert!(said.contains("edge-1.nodes.tv.internal"), "{said}");
    node.wait_for("`edge-1` was removed from the fleet");
    let token = fleet.token("edge-1", &[]);
    let said = why(&run(&mut fleet.join("again", &token)));
    assert!(
        said.contains("was removed from the fleet; the name is free again in 90 days"),
        "{said}"
    );
}

#[test]
fn what_a_node_says_without_its_identity_is_not_believed_and_everybody_is_told_why() {
    let Some(fleet) = Fleet::start("30d") else { return };
    let origin = Origin::start();
    let shows = |name: &str| fleet.path("edge-1").join(name).display().to_string();
    let identity = format!("identity = {:?}\n", fleet.path("edge-1").display().to_string());
    let (pair, ca) = (shows("identity.pem"), shows("ca.pem"));
    let files = format!("ca = {ca:?}\ncertificate = {pair:?}\nkey = {pair:?}\n");
    let text = fleet.joined("edge-1", &[]);
    assert!(text.contains(&identity), "{text}");
    let text = format!("workers = 1\n{}", text.replace(&identity, &files));
    let _node = Node::start(&origin, &text, &[]);
    let is_not_signed = |said: &str| said.contains("edge-1") && said.contains("not signed");
    while !is_not_signed(&succeed(&mut fleet.operator(&["list"]))) {}
    let purge = ["purge", "--wait", "--all", "--deadline-ms", "500", "--json"];
    let purged = run(&mut fleet.operator(&purge));
    let said = String::from_utf8(purged.stdout).unwrap();
    assert!(said.contains(r#""disbelieved":{"edge-1":"not signed"},"nodes":["edge-1"]"#), "{said}");
    assert!(said.contains(r#""outcome":"waiting""#) && !purged.status.success(), "{said}");
    let said = why(&run(&mut fleet.operator(&["drain", "edge-1"])));
    assert!(is_not_signed(&said), "{said}");
    // It obeys all the same.
    let said = run(&mut fleet.operator(&["purge", "--wait", "--all"]));
    let said = [said.stdout, said.stderr].map(|said| String::from_utf8(said).unwrap());
    assert!(said[0].contains("all nodes have carried it out but edge-1"), "{said:?}");
    assert!(is_not_signed(&said[1]), "{said:?}");
}

#[test]
fn a_removed_machine_does_nothing_at_servers_that_have_the_line_for_it() {
    let Some(mut fleet) = Fleet::start("30d") else { return };
    let origin = Origin::start();
    let text = fleet.joined("edge-1", &[]);
    fleet.joined("edge-2", &[]);
    let mut node = Node::start(&origin, &format!("workers = 1\n{text}"), &[]);
    fleet.serves("edge-1");
    let said = succeed(&mut fleet.operator(&["remove", "edge-1"]));
    // Its certificate is good for servers yet.
    assert!(fleet.list_as("edge-1").status.success());
    let line = said.lines().find(|line| line.contains("{ user:")).expect("it prints the line");
    let file = fleet.path("issuer/servers/127.0.0.1/fleet.conf");
    let users = "    users = [\n";
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(users), "{text}");
    fs::write(&file, text.replace(users, &format!("{users}  {line}\n"))).unwrap();
    fleet.nats.reload();
    // The connection it has is worth as little as a new one, and nobody else's is touched.
    node.wait_for("cut off from the fleet");
    assert!(why(&fleet.list_as("edge-1")).contains("the servers of the fleet"));
    assert!(fleet.list_as("edge-2").status.success());
    let purged = run(&mut fleet.operator(&["purge", "--wait", "--all"]));
    let said = String::from_utf8(purged.stdout).unwrap();
    assert!(!purged.status.success() && said.contains("no node is in the list"), "{said}");
}

/// What a parent answers to who shows it the certificate of a machine: a status, 0 where there is none.
fn shown(curl: &Path, fleet: &Fleet, parent: SocketAddr, machine: &str) -> u32 {
    let identity = fleet.path(machine).join("identity.pem");
    let name = "parent-1.nodes.tv.internal";
    let mut command = Command::new(curl);
    command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]);
    command
        .arg(fleet.path("issuer/ca.pem"))
        .arg("--cert")
        .arg(&identity)
        .arg("--key")
        .arg(identity);
    command.arg("--connect-to").arg(format!("{name}:443:{parent}"));
    let output = run(command.arg(format!("https://{name}/object")));
    String::from_utf8_lossy(&output.stdout).parse().unwrap()
}

#[test]
fn certificates_hold_between_tiers_and_those_of_removed_nodes_do_not() {
    let Some(curl) = program("curl") else { return };
    let Some(fleet) = Fleet::start("15s") else { return };
    let origin = Origin::start();
    let text = fleet.joined("parent-1", &[]);
    let own = fleet.path("parent-1");
    let own = own.display();
    let certificate = format!("cert = \"{own}/identity.pem\"\nkey = \"{own}/identity.pem\"\n");
    let text = format!(
        "workers = 1\n{text}[[certificate]]\n{certificate}[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n\
         client_ca = \"{own}/ca.pem\"\nclient_certificates = \"required\"\n[[origin]]\nurl = \"http://{}\"\n",
        origin.address
    );
    let file = fleet.path("parent.toml");
    fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--memory", "64MiB", "--access-log", "off", "--config"]).arg(&file);
    let mut parent = Process::start(command.env("RUNTIME_DIRECTORY", fleet.folder.path()));
    let address = parent.wait_for(|line| {
        let rest = line.strip_prefix("listening  https://")?;
        Some(rest.split_whitespace().next()?.parse().unwrap())
    });
    fleet.serves("parent-1");
    fleet.joined("edge-1", &[]);
    assert_eq!(shown(&curl, &fleet, address, "edge-1"), 200);
    let begun = Instant::now();
    succeed(&mut fleet.operator(&["remove", "edge-1"]));
    while shown(&curl, &fleet, address, "edge-1") == 200 {}
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(shown(&curl, &fleet, address, "edge-1"), 403);
    // The parent's own has ended by now, and it shows the next.
    let first = fs::read(fleet.path("parent-1/identity.pem")).unwrap();
    while fs::read(fleet.path("parent-1/identity.pem")).unwrap() == first
        || begun.elapsed() < Duration::from_secs(16)
    {}
    fleet.joined("edge-2", &[]);
    assert_eq!(shown(&curl, &fleet, address, "edge-2"), 200);
}
