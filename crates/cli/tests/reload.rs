//! Reading the configuration again while requests are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod support;

use drill::{Load, Node, Origin};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use support::{PATIENCE, Process, freshet, ready, run};

#[test]
fn no_request_fails_while_the_configuration_is_read_again() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 4, 2);
    load.go_on(200);
    let before = node.descriptors();
    for index in 1..=5 {
        node.configure(&format!("workers = 2\n[cache]\ngrace = \"{index}s\"\n"));
        node.signal(Signal::HUP);
        node.wait_for("the configuration was read again");
        load.go_on(200);
    }
    // Connections of the load come and go: as many as it has threads.
    node.settle(before + 6);
    load.finish();
}

#[test]
fn a_wrong_file_changes_nothing() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 2, 1);
    for wrong in ["nonsense", "workers = 2\n[cache]\ngrase = \"1s\"\n", "[log]\nformat = \"%Z\"\n"]
    {
        node.configure(wrong);
        node.signal(Signal::HUP);
        node.wait_for("nothing was changed");
        load.go_on(50);
    }
    node.configure("workers = 3\n");
    node.signal(Signal::HUP);
    node.wait_for("workers has changed; that takes effect with an upgrade");
    node.wait_for("the configuration was read again");
    load.finish();
}

#[test]
fn a_log_is_rotated_by_usr1_also_where_the_configuration_is_broken() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let text = format!(
        "memory = \"64MiB\"\nworkers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n[admin]\n\
         listen = \"off\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n\
         [log]\naccess = {:?}\nformat = \"%U\"\n",
        at("access.log")
    );
    fs::write(at("freshet.toml"), text).unwrap();
    let mut command = freshet();
    command.arg("serve").arg("--config").arg(at("freshet.toml"));
    let mut node = Process::start(command.env("RUNTIME_DIRECTORY", home.path()));
    let address = node.wait_for(|line| {
        let rest = line.strip_prefix("listening  http://")?;
        Some(rest.split(['/', ' ']).next()?.to_owned())
    });
    ready(&mut node);
    fs::rename(at("access.log"), at("access.log.1")).unwrap();
    fs::write(at("freshet.toml"), "nonsense").unwrap();
    node.signal(Signal::USR1);
    node.wait_for(|line| line.contains("the access log was opened anew").then_some(()));
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    socket.read_to_string(&mut String::new()).unwrap();
    // As nginx is told to end when its requests have.
    node.signal(Signal::QUIT);
    assert!(support::is_clean(node.end().0));
    assert_eq!(fs::read_to_string(at("access.log")).unwrap(), "/a\n");
    assert_eq!(fs::read_to_string(at("access.log.1")).unwrap(), "");
}

#[test]
fn the_command_tells_how_a_reload_went_also_without_an_admin_interface() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("freshet.toml");
    for admin in ["off", "127.0.0.1:0"] {
        let configuration = |rest: &str| {
            let text = format!(
                "memory = \"64MiB\"\nworkers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
                 [[origin]]\nurl = \"http://127.0.0.1:1\"\n[admin]\nlisten = \"{admin}\"\n{rest}"
            );
            fs::write(&file, text).unwrap();
        };
        configuration("");
        let mut node = Process::start(
            freshet().arg("serve").arg("--config").arg(&file).env("RUNTIME_DIRECTORY", home.path()),
        );
        ready(&mut node);
        let reload = || run(freshet().arg("reload").env("RUNTIME_DIRECTORY", home.path()));
        let good = reload();
        assert!(good.status.success(), "{good:?}");
        let said = String::from_utf8_lossy(&good.stdout);
        assert!(said.contains("was read again") && !said.contains("waiting"), "{good:?}");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("workers = 1", "workers = 2")).unwrap();
        let said = String::from_utf8(reload().stdout).unwrap();
        assert!(said.contains("waiting for an upgrade or a restart: workers\n"), "{said}");
        // It goes on waiting, until it is as it was at the start.
        let said = String::from_utf8(reload().stdout).unwrap();
        assert!(said.contains("waiting for an upgrade or a restart: workers\n"), "{said}");
        fs::write(&file, text).unwrap();
        let said = String::from_utf8(reload().stdout).unwrap();
        assert!(said.contains("was read again") && !said.contains("waiting"), "{said}");
        configuration("[cache]\ngrase = \"1s\"\n");
        let wrong = reload();
        assert!(!wrong.status.success(), "{wrong:?}");
        let said = String::from_utf8_lossy(&wrong.stderr);
        assert!(said.contains("did you mean `grace`?") && said.contains("nothing was changed"));
        configuration("");
        assert!(reload().status.success());
        let stopped = run(freshet().arg("stop").env("RUNTIME_DIRECTORY", home.path()));
        let said = String::from_utf8_lossy(&stopped.stdout).into_owned();
        assert!(stopped.status.success() && said.ends_with(" has ended\n"), "{stopped:?}");
        assert!(support::is_clean(node.end().0));
    }
}

#[test]
fn the_service_manager_learns_of_reloads_and_of_what_they_came_to() {
    let origin = Origin::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    let mut next = || {
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).trim().to_owned()
    };
    let node = Node::start(&origin, "workers = 1\n", &[("NOTIFY_SOCKET", path)]);
    assert_eq!(next(), "READY=1");
    for (configuration, status) in [
        ("workers = 1\n", "STATUS=Serving."),
        ("nonsense\n", "STATUS=Serving; the last reload changed nothing: "),
        ("workers = 1\n", "STATUS=Serving."),
    ] {
        node.configure(configuration);
        node.signal(Signal::HUP);
        let begins = next();
        // systemd compares the time with that of the signal it sent.
        assert!(begins.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{begins}");
        let ends = next();
        assert!(ends.starts_with(&format!("READY=1\n{status}")), "{ends}");
    }
}

#[test]
fn a_second_node_does_not_come_between_a_first_and_its_clients() {
    let origin = Origin::start();
    let node = Node::start(&origin, "workers = 2\n", &[]);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("freshet.toml");
    let text = format!(
        "memory = \"64MiB\"\nworkers = 2\n[[listen]]\naddress = \"{}\"\n[admin]\nlisten = \"off\"\n\
         [[origin]]\nurl = \"http://127.0.0.1:1\"\n",
        node.address
    );
    fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.arg("serve").arg("--config").arg(&file).env("RUNTIME_DIRECTORY", home.path());
    let ended = run(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("in use"), "{said}");
    drop(node);
}
