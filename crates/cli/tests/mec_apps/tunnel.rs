//! A mobile client is served by an app on another machine than its edge router: two hosts with networks of their own,
//! over a real server of NATS and the real router. Tunnels have links of their own, which are cut.

use crate::hosts::{Host, alone, instantiate, settled};
use crate::nats::Nats;
use crate::node::{Asker, Network, ORIGIN};
use crate::world::{World, run, until};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that are sent each way for a figure: more than the buffers on the way.
const BYTES: usize = 24_000_000;
const UNSIGNED: &str = "[packages]\nunsigned = true\n";

fn ip(line: &str) -> String {
    run("ip", &line.split_whitespace().collect::<Vec<_>>())
}

/// Connects a host's network with that of the router's machine, by a link for all and one for tunnels.
fn connect(network: &Network, number: u8, host: u32) {
    let router = network.name("router");
    for (kind, net) in [("u", 94), ("t", 95)] {
        let [near, far] = [1, 2].map(|end| format!("10.{net}.{number}.{end}/30"));
        ip(&format!(
            "-n {router} link add {kind}{number} type veth peer name {kind}0 netns {host}"
        ));
        ip(&format!("-n {router} addr add {near} dev {kind}{number}"));
        ip(&format!("-n {router} link set {kind}{number} up"));
        let inside = format!(
            "ip link set lo up; ip addr add {far} dev {kind}0; ip link set {kind}0 up; \
             echo 1 >/proc/sys/net/ipv4/ip_forward"
        );
        run("nsenter", &[&format!("--net=/proc/{host}/ns/net"), "sh", "-c", &inside]);
    }
    let out = format!("ip route add default via 10.94.{number}.1");
    run("nsenter", &[&format!("--net=/proc/{host}/ns/net"), "sh", "-c", &out]);
    ip(&format!("-n {router} route add 10.93.{number}.0/24 via 10.94.{number}.2"));
}

/// A server of NATS on the router's machine, for all that reach that.
fn nats(network: &Network, folder: &Path, program: &Path) -> Nats {
    let script = folder.join("nats-server");
    let text = format!(
        "#!/bin/sh\nexec nsenter --net=/run/netns/{} {} \"$@\"\n",
        network.name("router"),
        program.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    Nats::start_with(script, &["-a", "0.0.0.0"])
}

/// Mbit/s of what a client gets from an app in the place of the origin, and of what it sends.
fn rates(network: &Network) -> [f64; 2] {
    let file = File::open(Path::new("/run/netns").join(network.name("client"))).unwrap();
    let measure = move || {
        let kind = rustix::thread::LinkNameSpaceType::Network;
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
        let took = |request: String, body: &[u8]| {
            let mut stream = TcpStream::connect((ORIGIN, 80)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            let begun = Instant::now();
            stream.write_all(request.as_bytes()).unwrap();
            stream.write_all(body).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            (answer.len(), BYTES as f64 * 8e-6 / begun.elapsed().as_secs_f64())
        };
        let (bytes, down) = took(format!("GET /{BYTES} HTTP/1.1\r\n\r\n"), b"");
        assert!(bytes > BYTES, "{bytes} came");
        let (_, up) = took("POST / HTTP/1.1\r\n\r\n".to_owned(), &vec![0; BYTES]);
        [down, up]
    };
    std::thread::spawn(measure).join().unwrap()
}

#[test]
fn a_client_is_served_by_an_app_on_another_host() {
    if let Some(why) = crate::world::missing().or_else(freshet_router::kernel::namespace::missing) {
        return crate::skip::skip(why);
    }
    let Some(program) = crate::support::program("nats-server") else { return };
    let _alone = alone();
    let network = Network::start();
    let router = network.name("router");
    ip(&format!("-n {} route add 10.93.0.0/16 via 10.96.0.1", network.name("internet")));
    // Beside the router, for comparison.
    let local = {
        let folder = tempfile::tempdir().unwrap();
        let runtime = crate::world::here("10.97.0.0/24");
        let world = World::beside(folder, &router, &network.socket, &runtime, UNSIGNED);
        world.bring();
        let instance = world.name();
        assert_eq!(world.begin(&instance, "instantiate"), 202);
        settled(&world, &instance);
        let asker = Asker::start(&network.name("client"));
        asker.is_answered_by("edge");
        drop(asker);
        let rates = rates(&network);
        assert_eq!(world.begin(&instance, "terminate"), 202);
        settled(&world, &instance);
        rates
    };
    let folder = tempfile::tempdir().unwrap();
    let nats = nats(&network, folder.path(), &program);
    let runtime = format!(
        "network = \"10.93.0.0/16\"\nmove_after_s = 20\ntunnel = \"10.95.1.1\"\n\
         [runtime.nats]\nservers = [\"{}\"]\n\
         [runtime.hosts.north]\ncpus = 1.0\nmemory_mib = 256\nnetwork = \"10.93.1.0/24\"\ntunnel = \"10.95.1.2\"\n\
         [runtime.hosts.south]\ncpus = 0.5\nmemory_mib = 256\nnetwork = \"10.93.2.0/24\"\ntunnel = \"10.95.2.2\"\n\
         [runtime.hosts.west]\ncpus = 9.0\nmemory_mib = 256\nnetwork = \"10.93.3.0/24\"\n",
        nats.url()
    );
    let world = World::beside(folder, &router, &network.socket, &runtime, UNSIGNED);
    let port = nats.url().rsplit(':').next().unwrap().to_owned();
    let [mut north, south] = [("north", 1), ("south", 2)].map(|(name, number)| {
        Host::start_apart(name, |process| {
            connect(&network, number, process);
            format!("10.94.{number}.1:{port}")
        })
    });
    // Of the second host as well, packets come from the one address that the platform tells of.
    south.run("ip route add 10.95.1.0/30 via 10.95.2.1");
    world.bring();
    let asker = Asker::start(&network.name("client"));
    asker.is_answered_by("core");
    let instance = instantiate(&world, &json!({}));
    assert!(world.address(&instance).starts_with("10.93.1."));
    asker.is_answered_by("edge");
    assert_eq!(asker.seen.lock().unwrap().failures, Vec::<String>::new());
    // A tunnel that is cut is an app that is gone, whatever else leads to its host.
    let cut = Instant::now();
    ip(&format!("-n {router} link set t1 down"));
    asker.is_answered_by("core");
    println!("at the core {:?} after the tunnel was cut", cut.elapsed());
    asker.seen.lock().unwrap().failures.clear();
    ip(&format!("-n {router} link set t1 up"));
    asker.is_answered_by("edge");
    assert_eq!(asker.seen.lock().unwrap().failures, Vec::<String>::new());
    drop(asker);
    let tunnelled = rates(&network);
    println!(
        "Mbit/s to a client and from it: {local:.0?} beside the router, {tunnelled:.0?} by a tunnel"
    );
    let asker = Asker::start(&network.name("client"));
    asker.is_answered_by("edge");
    let killed = Instant::now();
    north.die();
    asker.is_answered_by("core");
    asker.seen.lock().unwrap().failures.clear();
    until("it comes to the other host", || world.address(&instance).starts_with("10.93.2."));
    settled(&world, &instance);
    asker.is_answered_by("edge");
    println!("at the edge again {:?} after the host was lost", killed.elapsed());
    assert_eq!(world.begin(&instance, "leave"), 202);
    settled(&world, &instance);
    asker.is_answered_by("core");
    assert_eq!(asker.seen.lock().unwrap().failures, Vec::<String>::new());
    let links = ip(&format!("-n {router} -o link show"));
    assert!(!links.contains(": mec"), "{links}");
    until("nothing is left", || south.is_empty());
}
