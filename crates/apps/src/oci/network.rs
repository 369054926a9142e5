//! The network of an instance: a namespace, and a pair of veth between it and the host. It reaches the
//! host and whoever the host forwards it to. Where another machine's edge router leads packets to it, it has the end of
//! a tunnel besides ([`crate::tunnel`] is the other one), by which it answers in the place of servers.

use super::classes;
use crate::tunnel::{self, Run, WIRE};
use crate::{End, SendsApart, Spec, Wire, device, mac};
use std::path::PathBuf;

/// The interface of an instance beside its host's.
const OWN: &str = "eth0";
/// The table of routes of what it answers in the place of others.
const TABLE: u32 = 77;
/// Slowest rate that packets are held to, in bits per second.
const RATE_BPS_MIN: u64 = 1000;

/// The namespace of an instance.
pub(super) fn path(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// Makes it, where there is none.
pub(super) fn make(spec: &Spec, run: impl Run) -> Result<(), String> {
    let (name, slot) = (spec.name.as_str(), spec.network.slot);
    let (device, host, app) = (device(slot), spec.network.host, spec.network.app);
    run("ip", &["netns", "add", name], None)?;
    let outside = format!(
        "link add {device} address {} type veth peer name {OWN} address {} netns {name}\n\
         address add {host}/30 dev {device}\n\
         link set {device} up\n",
        mac(slot, End::Host),
        mac(slot, End::App)
    );
    run("ip", &["-batch", "-"], Some(&outside))?;
    let mut inside = format!(
        "link set lo up\naddress add {app}/30 dev {OWN}\nlink set {OWN} up\nroute add default via {host}\n"
    );
    for network in &spec.network.answers_for {
        let family = if network.contains(':') { "-6 " } else { "" };
        inside.push_str(&format!("{family}route add local {network} dev lo\n"));
    }
    run("ip", &["-n", name, "-batch", "-"], Some(&inside))?;
    // Frames are handed on without the kernel's notes on them: checksums have to be whole.
    run("ethtool", &["-K", &device, "tx", "off", "gro", "on"], None)?;
    run("ip", &["netns", "exec", name, "ethtool", "-K", OWN, "tx", "off", "gro", "on"], None)?;
    spec.network.wire.as_ref().map_or(Ok(()), |wire| make_wire(spec, wire, run))
}

/// The end of a tunnel, made outside, where its packets go, and moved inside.
fn make_wire(spec: &Spec, wire: &Wire, run: impl Run) -> Result<(), String> {
    let (name, slot) = (spec.name.as_str(), spec.network.slot);
    let passing = tunnel::passing(slot);
    let outside = format!(
        "{}\nlink set {passing} netns {name} name {WIRE} address {}\n",
        tunnel::line(slot, wire.vni, [wire.far, wire.near], wire.mtu),
        mac(slot, End::Wire)
    );
    run("ip", &["-batch", "-"], Some(&outside))?;
    let (own, near) = (Wire::address(slot), Wire::NEAR);
    let mut inside = format!(
        "address add {own} peer {near} dev {WIRE}\nlink set {WIRE} up\n\
         neigh add {near} lladdr {} dev {WIRE} nud permanent\n\
         route add default via {near} dev {WIRE} onlink table {TABLE}\n",
        mac(slot, End::Near)
    );
    for network in spec.network.answers_for.iter().filter(|one| !one.contains(':')) {
        inside.push_str(&format!("rule add from {network} lookup {TABLE}\n"));
    }
    run("ip", &["-n", name, "-batch", "-"], Some(&inside))?;
    run("ip", &["netns", "exec", name, "ethtool", "-K", WIRE, "tx", "off", "gro", "on"], None)
}

/// Interfaces that an instance sends by.
fn interfaces(spec: &Spec) -> impl Iterator<Item = &'static str> {
    [OWN].into_iter().chain(spec.network.wire.as_ref().map(|_| WIRE))
}

/// What an app sends is not shaped: lines of words for `tc`. They fail where it was not.
pub(super) fn unshaped(spec: &Spec) -> Vec<String> {
    interfaces(spec).map(|device| format!("qdisc del dev {device} root")).collect()
}

/// How what an app sends is held to what it may: lines of words for `tc`. It waits in place of being dropped,
/// at most 200 ms. What has no rate of its own is in the first class, or in none. Where it sends by two interfaces each is
/// held to it.
///
/// # Errors
/// Its parts cannot be told apart.
pub(super) fn shape(spec: &Spec) -> Result<String, String> {
    let (all, apart) = (spec.network.sends_bps_max, &spec.network.sends_apart);
    if all.is_none() && apart.is_empty() {
        return Ok(String::new());
    }
    let mut lines = Vec::new();
    for device in interfaces(spec) {
        lines.extend(shape_one(device, all, apart)?);
    }
    Ok(lines.join("\n"))
}

fn shape_one(device: &str, all: Option<u64>, apart: &[SendsApart]) -> Result<Vec<String>, String> {
    let default = u8::from(all.is_some());
    let mut lines = vec![format!("qdisc add dev {device} root handle 1: htb default {default}")];
    let rates = all
        .map(|bps| (classes::ALL, bps))
        .into_iter()
        .chain(apart.iter().enumerate().map(|(place, one)| (classes::of_part(place), one.bps_max)));
    for (class, bps) in rates {
        let bps = bps.max(RATE_BPS_MIN);
        // Two of the longest packets at once, or a tick of a slow clock.
        let (burst, queue) = ((bps / 8 / 250).max(3_200), (bps / 8 / 5).max(32_000));
        lines.push(format!(
            "class add dev {device} parent 1: classid 1:{class:x} htb rate {bps}bit ceil {bps}bit burst {burst} cburst {burst}"
        ));
        lines.push(format!("qdisc add dev {device} parent 1:{class:x} bfifo limit {queue}"));
    }
    if !apart.is_empty() {
        let program = classes::program(apart)?;
        lines.push(format!(
            "filter add dev {device} parent 1: protocol all prio 1 bpf classid 1:{:x} bytecode {program}",
            classes::of_part(0)
        ));
    }
    Ok(lines)
}

/// The words of a line: the last one of a filter is a program, which has spaces.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    let (words, program) = match line.split_once(" bytecode ") {
        Some((words, program)) => (words, Some(program)),
        None => (line, None),
    };
    words.split(' ').chain(program.into_iter().flat_map(|program| ["bytecode", program]))
}

/// Removes it, where there is one.
pub(super) fn remove(spec: &Spec, run: impl Run) -> Result<(), String> {
    // What is in a namespace goes with it, some time after; a name or an identifier that comes again would not be free.
    if spec.network.wire.is_some() {
        // There may be no more of the namespace than its file.
        let _ = tunnel::delete(&["-n", &spec.name], WIRE, &run);
        tunnel::delete(&[], &tunnel::passing(spec.network.slot), &run)?;
    }
    if path(&spec.name).exists() {
        run("ip", &["netns", "delete", &spec.name], None)?;
    }
    tunnel::delete(&[], &device(spec.network.slot), &run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::devices;
    use std::cell::RefCell;

    fn spec(wire: Option<Wire>) -> Spec {
        let apps = tempfile::tempdir().unwrap();
        let mut spec = devices::tests::spec(apps.path(), "mec-one", 0);
        spec.network.slot = 5;
        spec.network.answers_for = vec!["203.0.113.10/32".to_owned(), "2001:db8::/32".to_owned()];
        spec.network.sends_bps_max = Some(8_000_000);
        spec.network.wire = wire;
        spec
    }

    #[test]
    fn an_app_that_packets_are_led_to_from_afar_answers_them_by_a_tunnel() {
        let (near, far) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let wired = spec(Some(Wire { vni: 6, near, far, mtu: 1450 }));
        let of = |spec: &Spec| {
            let said = RefCell::new(String::new());
            make(spec, |program, words, input| {
                let words = words.join(" ");
                said.borrow_mut().push_str(&format!("{program} {words}\n{}", input.unwrap_or("")));
                Ok(())
            })
            .unwrap();
            said.into_inner()
        };
        let said = of(&wired);
        for line in [
            "link add mec5x mtu 1450 type vxlan id 6 local 192.0.2.2 remote 192.0.2.1 dstport 4789 nolearning\n",
            "link set mec5x netns mec-one name wire0 address 02:4d:45:00:05:03\n",
            "address add 169.254.64.5 peer 169.254.128.1 dev wire0\n",
            "neigh add 169.254.128.1 lladdr 02:4d:45:00:05:04 dev wire0 nud permanent\n",
            "rule add from 203.0.113.10/32 lookup 77\n",
        ] {
            assert!(said.contains(line), "{line} {said}");
        }
        assert!(!said.contains("from 2001:"), "{said}");
        let said = of(&spec(None));
        assert!(!said.contains("vxlan") && !said.contains("rule"), "{said}");
    }

    #[test]
    fn an_app_is_held_to_its_rate_on_each_interface_that_it_sends_by() {
        let wire = Wire { vni: 6, near: Wire::NEAR, far: Wire::NEAR, mtu: 1450 };
        for (wire, devices) in [(None, 1), (Some(wire), 2)] {
            let spec = spec(wire);
            let lines = shape(&spec).unwrap();
            assert_eq!(lines.matches(" root handle 1: htb").count(), devices, "{lines}");
            assert_eq!(unshaped(&spec).len(), devices);
        }
    }
}
