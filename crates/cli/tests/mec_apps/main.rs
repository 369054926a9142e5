//! `freshet mec` runs apps of packages in containers: from an upload to an answer and back to nothing, and
//! through crashes at any moment.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of it is tests, helpers included"
)]

mod hosts;
mod kills;
#[path = "../nats/mod.rs"]
mod nats;
#[cfg(feature = "router")]
mod node;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "router")]
mod tunnel;
mod world;

use serde_json::json;
use support::skip;
use world::{LIVES, World, until};

/// A platform, unless this machine runs no containers.
fn world() -> Option<World> {
    match world::missing() {
        Some(why) => {
            skip::skip(why);
            None
        }
        None => Some(World::start("")),
    }
}

#[test]
fn an_app_of_a_package_answers_and_leaves_nothing() {
    let Some(world) = world() else { return };
    world.bring();
    let instance = world.name();
    let begun = std::time::Instant::now();
    assert_eq!(world.begin(&instance, "instantiate"), 202);
    assert_eq!(world.begin(&instance, "instantiate"), 409);
    assert_eq!(
        world.settled(&instance),
        "COMPLETED",
        "{}",
        world.get("/app_lcm/v1/app_lcm_op_occs")
    );
    println!("instantiated in {} ms", begun.elapsed().as_millis());
    let known = world.get(&format!("{LIVES}/{instance}"));
    assert_eq!(
        known["communicationInterface"]["ipAddresses"][0],
        json!({"host": "10.99.0.2", "port": 80})
    );
    assert_eq!(world.ask_app("http://10.99.0.2/"), instance);
    assert_eq!(world.left(&instance), ["container", "namespace", "files", "groups", "app", "rule"]);
    // It has what its descriptor says, and not more.
    let groups = "/sys/fs/cgroup";
    let name = format!("freshet-mec/mec-{}", &instance[..12]);
    let limit = [
        format!("{groups}/memory/{name}/memory.limit_in_bytes"),
        format!("{groups}/{name}/memory.max"),
    ];
    let limit = limit.iter().find_map(|path| std::fs::read_to_string(path).ok()).unwrap();
    assert_eq!(limit.trim().parse(), Ok(64 << 20));
    // Nothing of it goes to swap, where the kernel counts that: of the first version both are one sum.
    for (file, most) in [
        (format!("{groups}/memory/{name}/memory.memsw.limit_in_bytes"), 64 << 20),
        (format!("{groups}/{name}/memory.swap.max"), 0),
    ] {
        if let Ok(limit) = std::fs::read_to_string(&file) {
            assert_eq!(limit.trim().parse(), Ok(most), "{file}");
        }
    }
    // It makes no namespaces of users, in which it would be root: EPERM, and ENOSYS of what cannot be looked into.
    let calls = world.ask_app("http://10.99.0.2/calls");
    assert_eq!(calls, "clone 1 clone3 38 unshare 1");
    for (what, state) in [("stop", "STOPPED"), ("start", "STARTED")] {
        assert_eq!(world.begin(&instance, what), 202);
        assert_eq!(world.settled(&instance), "COMPLETED");
        assert_eq!(world.state(&instance), state);
        let is_there = world.left(&instance).contains(&"rule".to_owned());
        assert_eq!(is_there, state == "STARTED");
    }
    assert_eq!(world.ask_app("http://10.99.0.2/"), instance);
    assert_eq!(world.begin(&instance, "terminate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
    assert_eq!((world.left(&instance), world.interfaces()), (Vec::new(), 0));
    let deleted = world.call("DELETE", &format!("{LIVES}/{instance}"), b"").unwrap().0;
    assert_eq!(deleted, 204);
}

#[test]
fn an_app_that_ends_by_itself_is_started_again_and_one_that_cannot_start_is_taken_back() {
    let Some(mut world) = world() else { return };
    world.bring();
    let instance = world.name();
    assert_eq!(world.begin(&instance, "instantiate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
    let process = world.folder.path().join("state/apps").join(&instance).join("process");
    let first = std::fs::read_to_string(&process).unwrap();
    let pid = first.split(' ').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("it runs again", || std::fs::read_to_string(&process).is_ok_and(|now| now != first));
    until("it is ready again", || world.left(&instance).contains(&"rule".to_owned()));
    assert_eq!(world.ask_app("http://10.99.0.2/"), instance);
    // A platform that comes back finds it as it is.
    let second = std::fs::read_to_string(&process).unwrap();
    world.again();
    assert_eq!(world.ask_app("http://10.99.0.2/"), instance);
    assert_eq!(std::fs::read_to_string(&process).unwrap(), second);
    // No room for a fifth beside four of 64 MiB in 256; what is refused leaves nothing.
    let others: Vec<String> = (0..4).map(|_| world.name()).collect();
    for one in &others[..3] {
        assert_eq!(world.begin(one, "instantiate"), 202);
    }
    assert_eq!(world.begin(&others[3], "instantiate"), 403);
    for one in &others[..3] {
        assert_eq!(world.settled(one), "COMPLETED");
        assert_eq!(world.begin(one, "terminate"), 202);
    }
    for one in &others {
        world.settled(one);
        assert_eq!(world.left(one), Vec::<String>::new());
    }
    // An image that is gone from the package.
    let image = world.folder.path().join("state/packages");
    let package = std::fs::read_dir(&image).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(package.join("unpacked/image/index.json")).unwrap();
    let broken = &others[3];
    assert_eq!(world.begin(broken, "instantiate"), 202);
    assert_eq!(world.settled(broken), "FAILED_TEMP");
    assert_eq!(
        (world.left(broken), world.state(broken)),
        (Vec::new(), "NOT_INSTANTIATED".to_owned())
    );
    let all = world.get("/app_lcm/v1/app_lcm_op_occs?filter=(eq,operationState,FAILED_TEMP)");
    let why = all[0]["error"]["detail"].as_str().unwrap().to_owned();
    assert!(why.contains("index.json"), "{why}");
    let failed = format!("/app_lcm/v1/app_lcm_op_occs/{}/fail", all[0]["id"].as_str().unwrap());
    let (status, said) = world.post(&failed, &json!(null));
    assert_eq!((status, said["operationState"].as_str()), (200, Some("FAILED")));
    assert_eq!(world.call("DELETE", &format!("{LIVES}/{broken}"), b"").unwrap().0, 204);
}

/// What an app is allocated bounds what it sends, within 5 %, and what the edge router leads to it.
#[test]
fn bandwidth_is_held_to_what_is_allocated() {
    const BYTES: f64 = 3e6;
    const RATE: f64 = 20e6;
    let Some(world) = world() else { return };
    world.bring();
    let instance = world.name();
    assert_eq!(world.begin(&instance, "instantiate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
    let allocate = |direction: &str, rate: f64| {
        let path = "/bwm/v1/bw_allocations";
        let body = json!({
            "appInsId": instance, "requestType": 0, "allocationDirection": direction,
            "fixedAllocation": rate.to_string(),
        });
        let (status, made) = world.post(path, &body);
        assert_eq!(status, 201, "{made}");
        format!("{path}/{}", made["allocationId"].as_str().unwrap())
    };
    // Two of one direction are one.
    let allocated = [allocate("00", RATE / 4.0), allocate("00", RATE * 0.75), allocate("01", 5e6)];
    let rule = format!("{instance}/video");
    assert_eq!(world.limits(), json!([{"rules": [rule], "bits_per_second": 5_000_000}]));
    let name = format!("mec-{}", &instance[..12]);
    let shaped =
        || world::run("ip", &["netns", "exec", &name, "tc", "class", "show", "dev", "eth0"]);
    until("what it sends is shaped", || shaped().contains("rate 20Mbit"));
    let begun = std::time::Instant::now();
    let got = world.ask_app(&format!("http://10.99.0.2/{BYTES}"));
    assert_eq!(got.len() as f64, BYTES);
    // Of 1514 bytes of a frame 1448 are the body's.
    let bits = BYTES * 8.0 * 1514.0 / 1448.0;
    let rate = bits / begun.elapsed().as_secs_f64() / RATE;
    println!("{rate} of the rate");
    // How much less depends on what else the machine does.
    assert!(rate < 1.05, "{rate} of the rate");
    let statistics = ["netns", "exec", &name, "tc", "-s", "qdisc", "show", "dev", "eth0"];
    let statistics = world::run("ip", &statistics);
    let shaper = statistics.split("qdisc ").find(|part| part.starts_with("htb")).unwrap();
    assert!(!shaper.contains("overlimits 0 "), "nothing had to wait: {statistics}");
    for path in allocated {
        assert_eq!(world.call("DELETE", &path, b"").unwrap().0, 204);
    }
    assert_eq!(world.limits(), json!([]));
    until("it is shaped no more", || !shaped().contains("rate"));
    assert_eq!(world.begin(&instance, "terminate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
}

/// What some sessions of an app are allocated bounds them alone, and is told to the edge router with its filter.
#[test]
fn sessions_of_an_app_are_held_to_what_is_for_them() {
    const BYTES: f64 = 1e6;
    const RATE: f64 = 5e6;
    let Some(world) = world() else { return };
    world.bring();
    let instance = world.name();
    assert_eq!(world.begin(&instance, "instantiate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
    let path = "/bwm/v1/bw_allocations";
    let body = json!({
        "appInsId": instance, "requestType": 1, "allocationDirection": "10",
        "fixedAllocation": RATE.to_string(),
        "sessionFilter": [{"sourceIp": "10.99.0.0/24", "sourcePort": "40000-40009", "protocol": "TCP"}],
    });
    let (status, made) = world.post(path, &body);
    assert_eq!(status, 201, "{made}");
    let filter =
        json!([{"srcAddress": ["10.99.0.0/24"], "srcPort": ["40000-40009"], "protocol": ["TCP"]}]);
    let rule = format!("{instance}/video");
    assert_eq!(
        world.limits(),
        json!([{"rules": [rule], "filter": filter, "bits_per_second": 5_000_000}])
    );
    let name = format!("mec-{}", &instance[..12]);
    let shaped =
        |part: &str| world::run("ip", &["netns", "exec", &name, "tc", part, "show", "dev", "eth0"]);
    // What tells the sessions apart comes after their class.
    until("what it sends is told apart", || shaped("filter").contains(" bpf "));
    assert!(shaped("class").contains("rate 5Mbit"), "{}", shaped("class"));
    let took = |more: &[&str]| {
        let begun = std::time::Instant::now();
        let got = world.ask_app_with(&format!("http://10.99.0.2/{BYTES}"), more);
        assert_eq!(got.len() as f64, BYTES);
        begun.elapsed().as_secs_f64()
    };
    let (held, free) =
        (took(&["--local-port", "40000-40009"]), took(&["--local-port", "50000-50009"]));
    // Of 1514 bytes of a frame 1448 are the body's.
    let rate = BYTES * 8.0 * 1514.0 / 1448.0 / held / RATE;
    println!("{rate} of the rate, and {free} s beside it");
    assert!(rate < 1.05, "{rate} of the rate");
    assert!(free < held / 2.0, "{free} s, and {held} s where it is held");
    let statistics = ["netns", "exec", &name, "tc", "-s", "class", "show", "dev", "eth0"];
    let statistics = world::run("ip", &statistics);
    assert!(statistics.contains("class htb 1:10 "), "{statistics}");
    let allocation = format!("{path}/{}", made["allocationId"].as_str().unwrap());
    assert_eq!(world.call("DELETE", &allocation, b"").unwrap().0, 204);
    assert_eq!(world.limits(), json!([]));
    until("it is shaped no more", || !shaped("class").contains("rate"));
    assert_eq!(world.begin(&instance, "terminate"), 202);
    assert_eq!(world.settled(&instance), "COMPLETED");
}
