//! A router that hears of its nodes in a fleet, on a real server of NATS.
#![allow(clippy::unwrap_used, reason = "tests")]

mod nats;
mod support;

use freshet_fleet::nats::{Acts, Follower, LinkSettings, NodeSettings};
use freshet_fleet::{Change, Fence, Place};
use nats::Nats;
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::{Process, freshet, program, succeed};

/// A node that says how busy it is, and does nothing else.
struct Busy(u8);

impl Acts for Busy {
    fn restored(&self) -> Option<Place> {
        None
    }

    fn apply(&self, _: &[Change], _: Place) {}

    fn fence(&self, _: Fence) {}

    fn distrust(&self, _: Place, _: bool) {}

    fn load_percent(&self) -> Option<u8> {
        Some(self.0)
    }
}

#[test]
fn a_node_that_is_busy_or_silent_gets_fewer_clients() {
    let (Some(nats), Some(curl)) = (program("nats-server"), program("curl")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start(nats);
    let url = server.url();
    succeed(freshet().args(["fleet", "init", "--server", &url]));
    let join = |node: &str, load| {
        let servers = vec![url.clone()];
        let link = LinkSettings { servers, fleet: "fleet".into(), ..LinkSettings::default() };
        let settings = NodeSettings { link, node: node.into(), version: "1".into() };
        Follower::start(settings, Arc::new(Busy(load))).unwrap()
    };
    let (_busy, idle) = (join("n-1", 100), join("n-2", 5));
    let file = folder.path().join("route.toml");
    let node = |name: &str| {
        format!("[[node]]\nname = \"{name}\"\nregion = \"r\"\nhost = \"{name}.example\"\n")
    };
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[fleet]\nservers = [\"{url}\"]\n[[region]]\nname = \"r\"\n{}{}",
        node("n-1"),
        node("n-2")
    );
    std::fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["route", "--config"]).arg(&file).stdout(Stdio::null());
    let mut router = Process::start(&mut command);
    let admin = router.wait_for(|line| {
        let (_, address) = line.split_once("the admin interface is at ")?;
        Some(address.trim().to_owned())
    });
    // Standing of both nodes: of a list of objects with fields by name.
    let until = |expected: [&str; 2]| loop {
        let url = format!("http://{admin}/v1/nodes");
        let said = succeed(Command::new(&curl).args(["-sf", &url]));
        let all: Vec<&str> = said.split("},").collect();
        if all.iter().zip(expected).all(|(said, expected)| said.contains(expected)) {
            break;
        }
    };
    until(["\"share_percent\":0", "\"share_percent\":100"]);
    drop(idle);
    until(["\"health\":\"up\"", "\"health\":\"suspect\""]);
    drop(server);
    until(["\"share_percent\":100", "\"health\":\"up\""]);
}
