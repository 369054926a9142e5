//! The network of an instance: a namespace, and a pair of veth between it and the host. It reaches the
//! host and whoever the host forwards it to.

use super::classes;
use crate::{End, Spec, device, mac};
use std::path::PathBuf;

/// Runs a program with words and input.
pub(super) trait Run: Fn(&str, &[&str], Option<&str>) -> Result<(), String> {}
impl<F: Fn(&str, &[&str], Option<&str>) -> Result<(), String>> Run for F {}

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
        "link add {device} address {} type veth peer name eth0 address {} netns {name}\n\
         address add {host}/30 dev {device}\n\
         link set {device} up\n",
        mac(slot, End::Host),
        mac(slot, End::App)
    );
    run("ip", &["-batch", "-"], Some(&outside))?;
    let mut inside = format!(
        "link set lo up\naddress add {app}/30 dev eth0\nlink set eth0 up\nroute add default via {host}\n"
    );
    for network in &spec.network.answers_for {
        let family = if network.contains(':') { "-6 " } else { "" };
        inside.push_str(&format!("{family}route add local {network} dev lo\n"));
    }
    run("ip", &["-n", name, "-batch", "-"], Some(&inside))?;
    // Frames are handed on without the kernel's notes on them: checksums have to be whole.
    run("ethtool", &["-K", &device, "tx", "off", "gro", "on"], None)?;
    run("ip", &["netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off", "gro", "on"], None)
}

/// What an app sends is not shaped: words for `tc`. It fails where it was not.
pub(super) const UNSHAPED: &str = "qdisc del dev eth0 root";

/// How what an app sends is held to what it may: lines of words for `tc`. It waits in place of being dropped,
/// at most 200 ms. What has no rate of its own is in the first class, or in none.
///
/// # Errors
/// Its parts cannot be told apart.
pub(super) fn shape(spec: &Spec) -> Result<String, String> {
    let (all, apart) = (spec.network.sends_bps_max, &spec.network.sends_apart);
    if all.is_none() && apart.is_empty() {
        return Ok(String::new());
    }
    let mut lines =
        vec![format!("qdisc add dev eth0 root handle 1: htb default {}", u8::from(all.is_some()))];
    let rates = all
        .map(|bps| (classes::ALL, bps))
        .into_iter()
        .chain(apart.iter().enumerate().map(|(place, one)| (classes::of_part(place), one.bps_max)));
    for (class, bps) in rates {
        let bps = bps.max(RATE_BPS_MIN);
        // Two of the longest packets at once, or a tick of a slow clock.
        let (burst, queue) = ((bps / 8 / 250).max(3_200), (bps / 8 / 5).max(32_000));
        lines.push(format!(
            "class add dev eth0 parent 1: classid 1:{class:x} htb rate {bps}bit ceil {bps}bit burst {burst} cburst {burst}"
        ));
        lines.push(format!("qdisc add dev eth0 parent 1:{class:x} bfifo limit {queue}"));
    }
    if !apart.is_empty() {
        let program = classes::program(apart)?;
        lines.push(format!(
            "filter add dev eth0 parent 1: protocol all prio 1 bpf classid 1:{:x} bytecode {program}",
            classes::of_part(0)
        ));
    }
    Ok(lines.join("\n"))
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
    if path(&spec.name).exists() {
        run("ip", &["netns", "delete", &spec.name], None)?;
    }
    // The pair goes with the namespace, some time after; a name that comes again would not be free.
    let device = device(spec.network.slot);
    match run("ip", &["link", "delete", &device], None) {
        Err(error) if !error.contains("Cannot find device") => Err(error),
        _ => Ok(()),
    }
}
