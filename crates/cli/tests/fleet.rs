//! A fleet of two nodes and a real server of NATS, by the commands an operator uses.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod nats;
mod support;

use drill::{Node, Origin, SLOW_BYTES};
use nats::Nats;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{freshet, pid, program, run, succeed};

/// What `Cache-Status` says of an answer.
fn status(address: SocketAddr, path: &str) -> String {
    status_of(ask(address, path))
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // Whatever its port, which is another one after a restart.
    let host = address.ip();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn status_of(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn one_command_purges_all_nodes_and_says_when_all_have() {
    let Some(program) = program("nats-server") else { return };
    let mut nats = Nats::start(program);
    let url = nats.url();
    let fleet = |words: &[&str]| {
        let mut command = freshet();
        command.args(["fleet", words[0], "--server", &url]).args(&words[1..]);
        command
    };
    assert!(!run(&mut fleet(&["purge", "--all"])).status.success());
    assert_eq!(succeed(&mut fleet(&["init"])), "the fleet `fleet` is there\n");
    let origin = Origin::start();
    let start = |name: &str| {
        let text = format!("workers = 1\n[fleet]\nservers = [\"{url}\"]\nnode = \"{name}\"\n");
        // What it says before it is ready nobody hears: the list tells how it is.
        Node::start(&origin, &text, &[])
    };
    let nodes = [start("edge-1"), start("edge-2")];
    while succeed(&mut fleet(&["list"])).matches(" serves").count() < 2 {}
    for node in &nodes {
        assert!(status(node.address, "/object").contains("stored"));
        assert!(status(node.address, "/object").contains("; hit"));
    }
    let said = succeed(&mut fleet(&["purge", "--wait", "--all"]));
    assert_eq!(said, "entry 1: all nodes have carried it out\n");
    for node in &nodes {
        assert!(status(node.address, "/object").contains("fwd=uri-miss"));
        assert!(status(node.address, "/object").contains("; hit"));
    }
    let wrong = run(&mut fleet(&["purge", "--wait", "--all", "--site", "typo"]));
    let said = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(!wrong.status.success() && said.contains("no node has a site `typo`"), "{said}");
    let urls: Vec<_> = nodes.iter().map(|node| format!("http://{}/object", node.address)).collect();
    let said = succeed(&mut fleet(&["purge", "--wait", "--json", &urls[0], &urls[1]]));
    assert!(said.contains("\"outcome\":\"applied\"") && said.contains("\"sequence\":3"), "{said}");
    for node in &nodes {
        assert!(status(node.address, "/object").contains("fwd=uri-miss"));
    }
    // One whose server is gone asks before it answers.
    nats.kill();
    for node in &nodes {
        while !status(node.address, "/object").contains("fwd=stale") {}
    }
    let wrong = run(&mut fleet(&["list"]));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("no server of the fleet can be reached"), "{said}");
    let file = nats.folder.path().join("freshet.toml");
    fs::write(&file, "[fleet]\nservers = [\"x\"]\ncertificate = \"/a\"\n").unwrap();
    let wrong = run(freshet().arg("check").arg(&file));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("fleet.key"), "{wrong:?}");
}

#[test]
fn a_process_that_stood_still_answers_with_nothing_that_was_purged_meanwhile() {
    let Some(program) = program("nats-server") else { return };
    let nats = Nats::start(program);
    succeed(&mut nats.fleet(&["init"]));
    let origin = Origin::start();
    let servers = format!("servers = [\"{}\"]\nnode = \"edge-1\"\n", nats.url());
    let node = Node::start(&origin, &format!("workers = 2\n[fleet]\n{servers}"), &[]);
    while !succeed(&mut nats.fleet(&["list"])).contains(" serves") {}
    let paths: Vec<_> = (0..32).map(|number| format!("/object-{number}")).collect();
    for _ in 0..2 {
        // Some have it already, by the way the fence came down.
        paths.iter().for_each(|path| drop(status(node.address, path)));
        assert!(paths.iter().all(|path| status(node.address, path).contains("; hit")));
        node.signal(Signal::STOP);
        let said = succeed(&mut nats.fleet(&["purge", "--wait", "--all"]));
        assert!(said.contains("but edge-1, which serve nothing stored"), "{said}");
        // They wait for the process: what it does first is to answer them, before it has heard of anything.
        let asked: Vec<_> = paths.iter().map(|path| ask(node.address, path)).collect();
        node.signal(Signal::CONT);
        for (path, stream) in paths.iter().zip(asked) {
            let status = status_of(stream);
            assert!(status.contains("fwd="), "{path}: {status}");
        }
        while !succeed(&mut nats.fleet(&["list"])).contains(" serves") {}
    }
}

#[test]
fn a_node_with_signers_obeys_only_what_their_keys_have_signed() {
    let Some(program) = program("nats-server") else { return };
    let nats = Nats::start(program);
    succeed(&mut nats.fleet(&["init"]));
    let key = nats.folder.path().join("anna.key").display().to_string();
    let public = succeed(freshet().args(["fleet", "key", &key]));
    assert_eq!(succeed(freshet().args(["fleet", "key", &key])), public, "it is made once");
    let origin = Origin::start();
    let text = format!(
        "workers = 1\n[fleet]\nservers = [\"{}\"]\nnode = \"edge-1\"\nsigners = [\"{}\"]\n",
        nats.url(),
        public.trim()
    );
    let node = Node::start(&origin, &text, &[]);
    while !succeed(&mut nats.fleet(&["list"])).contains(" serves") {}
    assert!(status(node.address, "/object").contains("stored"));
    let refused = run(&mut nats.fleet(&["purge", "--wait", "--all"]));
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(!refused.status.success() && said.contains("not carried out by edge-1"), "{said}");
    assert!(said.contains("give --key"), "{said}");
    assert!(status(node.address, "/object").contains("; hit"));
    let said = succeed(&mut nats.fleet(&["purge", "--wait", "--all", "--key", &key]));
    assert_eq!(said, "entry 2: all nodes have carried it out\n");
    assert!(status(node.address, "/object").contains("fwd=uri-miss"));
    let wrong = run(&mut nats.fleet(&["purge", "--all", "--key", "/etc/hostname"]));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("/etc/hostname") && said.contains("64 hexadecimal digits"), "{said}");
}

#[test]
fn who_signs_configurations_goes_on_from_no_strangers() {
    let Some(program) = program("nats-server") else { return };
    let nats = Nats::start(program);
    succeed(&mut nats.fleet(&["init"]));
    let path = |name: &str| nats.folder.path().join(name).display().to_string();
    let keys = [path("anna.key"), path("ben.key")];
    let ben = succeed(freshet().args(["fleet", "key", &keys[1]]));
    succeed(freshet().args(["fleet", "key", &keys[0]]));
    let file = path("freshet.toml");
    fs::write(&file, "[cache]\ngrace = \"1h\"\n").unwrap();
    let push = |more: &[&str]| run(nats.fleet(&["config", "push", &file]).args(more));
    assert!(push(&[]).status.success());
    // What is there was signed by nobody.
    let wrong = push(&["--key", &keys[0]]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("is not signed"), "{said}");
    assert!(said.contains("--adopt"), "{said}");
    assert!(push(&["--key", &keys[1], "--adopt"]).status.success());
    assert!(!push(&["--key", &keys[0]]).status.success());
    assert!(push(&["--key", &keys[0], "--signer", ben.trim()]).status.success());
    let history = succeed(&mut nats.fleet(&["config", "history"]));
    assert_eq!(history.matches("no node says that it has it").count(), 1, "{history}");
    assert_eq!(history.matches("was kept").count(), 2, "{history}");
}

#[test]
fn after_an_upgrade_the_new_process_alone_speaks_for_the_node() {
    let Some(program) = program("nats-server") else { return };
    let nats = Nats::start(program);
    let url = nats.url();
    succeed(freshet().args(["fleet", "init", "--server", &url]));
    let origin = Origin::start();
    let text = format!("workers = 1\n[fleet]\nservers = [\"{url}\"]\nnode = \"edge-1\"\n");
    let mut node = Node::start(&origin, &text, &[]);
    let list = ["fleet", "list", "--server", &url];
    while !succeed(freshet().args(list)).contains(" serves") {}
    // The old process stays for a download.
    let mut download = TcpStream::connect(node.address).unwrap();
    download.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    origin.halves.reach(1);
    node.signal(Signal::USR2);
    let next = node.takes_over();
    node.wait_for("the new process serves");
    while !succeed(freshet().args(list)).contains(" serves") {}
    kill_process(pid(next), Signal::STOP).unwrap();
    let said = run(freshet()
        .args(["fleet", "purge", "--server", &url, "--wait", "--all"])
        .args(["--deadline-ms", "1000"]));
    let told = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(!said.status.success() && told.contains("not carried out yet by edge-1"), "{said:?}");
    kill_process(pid(next), Signal::CONT).unwrap();
    let wait = ["fleet", "purge", "--server", &url, "--wait", "--all"];
    assert!(succeed(freshet().args(wait)).contains("all nodes have carried it out"));
    origin.go_on();
    let mut got = Vec::new();
    download.read_to_end(&mut got).unwrap();
    assert!(got.len() > SLOW_BYTES, "{}", got.len());
}

#[test]
fn what_a_node_doubts_on_its_disks_it_doubts_after_a_restart_too() {
    let Some(program) = program("nats-server") else { return };
    let mut nats = Nats::start(program);
    succeed(&mut nats.fleet(&["init"]));
    let origin = Origin::start();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "workers = 1\n[stores]\nttl_min = \"1s\"\n[[store]]\npath = \"{}\"\nsize = \"32MiB\"\n[fleet]\nservers = [\"{}\"]\n\
         node = \"edge-1\"\nstate = \"{}\"\n",
        place("store"),
        nats.url(),
        place("state")
    );
    let start = |nats: &Nats| {
        let node = Node::start(&origin, &text, &[]);
        while !succeed(&mut nats.fleet(&["list"])).contains(" serves") {}
        node
    };
    let mut node = start(&nats);
    succeed(&mut nats.fleet(&["purge", "--wait", "--tag", "news"]));
    assert!(status(node.address, "/object").contains("stored"));
    node.signal(Signal::TERM);
    node.process.end();
    // As it was left, it is good.
    let mut node = start(&nats);
    assert!(status(node.address, "/object").contains("; hit"));
    node.signal(Signal::TERM);
    node.process.end();
    // The servers lose all they had, so nobody knows what was purged meanwhile.
    nats.kill();
    fs::remove_dir_all(nats.folder.path().join("jetstream")).unwrap();
    nats.run();
    succeed(&mut nats.fleet(&["init"]));
    drop(start(&nats));
    let node = start(&nats);
    assert!(status(node.address, "/object").contains("fwd=stale"));
    assert!(status(node.address, "/object").contains("; hit"));
}

/// Files of an authority and of a certificate for `localhost` that is good until `until`.
fn certificate(folder: &Path, until: (i32, u8, u8)) -> [String; 3] {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let texts =
        [("ca.pem", authority.pem()), ("it.pem", leaf.pem()), ("it.key", key.serialize_pem())];
    texts.map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    })
}

#[test]
fn who_cannot_use_the_servers_says_why_and_serves() {
    let Some(program) = program("nats-server") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [ca, expired, key] = certificate(folder.path(), (2001, 1, 1));
    let origin = Origin::start();
    let tls = ["--tls", "--tlscert", &expired, "--tlskey", &key];
    let nats = Nats::start_with(program.clone(), &tls);
    let says = |text: &str, why: &str| {
        let mut node =
            Node::start(&origin, &format!("workers = 1\n[fleet]\nnode = \"edge\"\n{text}"), &[]);
        if !node.process.said_so_far().contains(why) {
            node.wait_for(why);
        }
        assert!(status(node.address, "/object").contains("stored"));
        // It validates, as it cannot know better, and goes on.
        assert!(status(node.address, "/object").contains("fwd=stale"));
    };
    let url = nats.secure_url();
    let list = run(freshet().args(["fleet", "list", "--server", &url, "--ca", &ca]));
    let said = String::from_utf8_lossy(&list.stderr).into_owned();
    assert!(!list.status.success() && said.contains("expired"), "{said}");
    says(&format!("servers = [\"{url}\"]\nca = \"{ca}\"\n"), "expired");
    // A fleet that nobody has made on these servers.
    let nats = Nats::start(program);
    says(
        &format!("servers = [\"{}\"]\nname = \"other\"\n", nats.url()),
        "there is no fleet `other`",
    );
    succeed(&mut nats.fleet(&["init"]));
    let gone = run(&mut nats.fleet(&["remove", "edge-7"]));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("has no node `edge-7`"), "{gone:?}");
    let purge = run(nats.fleet(&["purge", "--all"]).args(["--fleet", "other"]));
    let said = String::from_utf8_lossy(&purge.stderr).into_owned();
    assert!(!purge.status.success() && said.contains("freshet fleet init"), "{said}");
}

/// How a connection of `openssl s_client` began: `New`, or `Reused` where it was resumed.
fn began(openssl: &Path, address: SocketAddr, version: &str, session: [&str; 2]) -> String {
    let mut command = Command::new(openssl);
    command.args(["s_client", "-connect", &address.to_string(), "-servername", "a.example"]);
    command.args([version, "-ign_eof"]).args(session);
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = streams.spawn().unwrap();
    let request = b"GET /object HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    child.stdin.take().unwrap().write_all(request).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("HTTP/1.1 200"), "{said}");
    let line = said.lines().find(|line| line.contains(", TLSv1."));
    line.unwrap_or_default().split(',').next().unwrap_or_default().to_owned()
}

#[test]
fn sessions_of_one_node_are_resumed_at_another_of_its_fleet() {
    let Some(openssl) = program("openssl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let start = |secret: &str| {
        let path = folder.path().join(secret);
        if !path.exists() {
            fs::write(&path, succeed(freshet().args(["fleet", "secret"]))).unwrap();
        }
        // No server is there: keys need none.
        let text = format!(
            "workers = 1\n[fleet]\nservers = [\"nats://127.0.0.1:1\"]\nnode = \"edge\"\n\
             tickets = true\nsecret = \"{}\"\n",
            path.display()
        );
        Node::start_with_tls(&origin, &text)
    };
    let (one, two, stranger) = (start("ours"), start("ours"), start("theirs"));
    let session = folder.path().join("session");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let begins = |node: &Node, argument: &str| {
            began(&openssl, node.tls_address.unwrap(), version, [argument, session])
        };
        assert_eq!(begins(&one, "-sess_out"), "New", "{version}");
        assert_eq!(begins(&two, "-sess_in"), "Reused", "{version}");
        assert_eq!(begins(&stranger, "-sess_in"), "New", "{version}");
    }
}
