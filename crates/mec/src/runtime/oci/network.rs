//! The network of an instance: a namespace, and a pair of veth between it and the host. It reaches the
//! host and whoever the host forwards it to.

use super::super::{End, Spec, device, mac};
use std::path::PathBuf;

/// Runs a program with words and input.
pub(super) trait Run: Fn(&str, &[&str], Option<&str>) -> Result<(), String> {}
impl<F: Fn(&str, &[&str], Option<&str>) -> Result<(), String>> Run for F {}

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
