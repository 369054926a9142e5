//! Packets of an edge router to an instance on another machine: the router's end.
//!
//! ```text
//! the router's machine                                      the other one
//! router ─XDP→ mecN ═veth═ mecNw ─┐                         the instance's namespace
//!                          mecNb, a bridge ─ mecNx ~~ VXLAN ~~ wire0
//! ```
//!
//! The router has an interface as of an instance beside it. Its programs cannot send into a tunnel, which a bridge of two
//! ports does.

use crate::program::output;
use crate::{End, Spec, Wire, device, mac};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// Runs a program with words and input.
pub(crate) trait Run: Fn(&str, &[&str], Option<&str>) -> Result<(), String> {}
impl<F: Fn(&str, &[&str], Option<&str>) -> Result<(), String>> Run for F {}

/// An instance's end of its tunnel.
pub(crate) const WIRE: &str = "wire0";
/// The port of VXLAN (RFC 7348, section 5).
const PORT: u16 = 4789;
/// Longest time a command may take, in seconds.
const COMMAND_S_MAX: u32 = 10;

/// The end of a tunnel that is not the app's, by its name; where that is made, the app's has it, too.
pub(crate) fn passing(slot: u32) -> String {
    format!("{}x", device(slot))
}

/// A line for `ip` that makes an end of a tunnel between two addresses, its own first.
pub(crate) fn line(slot: u32, vni: u32, [own, other]: [Ipv4Addr; 2], mtu: u16) -> String {
    format!(
        "link add {} mtu {mtu} type vxlan id {vni} local {own} remote {other} dstport {PORT} nolearning",
        passing(slot)
    )
}

/// Makes the router's end, in place of what is left of one, where there is none that is whole.
pub(crate) fn near(spec: &Spec, run: impl Run) -> Result<(), String> {
    let Some(wire) = &spec.network.wire else { return Ok(()) };
    let (slot, mtu) = (spec.network.slot, wire.mtu);
    // It is made last.
    if is_there(&passing(slot)) {
        return Ok(());
    }
    near_gone(spec, &run)?;
    let device = device(slot);
    let (port, bridge) = (format!("{device}w"), format!("{device}b"));
    let (own, app) = (Wire::NEAR, Wire::address(slot));
    let lines = format!(
        "link add {bridge} mtu {mtu} type bridge stp_state 0 mcast_snooping 0\n\
         link set {bridge} up\n\
         link add {device} address {} mtu {mtu} type veth peer name {port} mtu {mtu}\n\
         link set {port} master {bridge} up\n\
         address add {own} peer {app} dev {device}\n\
         link set {device} up\n\
         neigh add {app} lladdr {} dev {device} nud permanent\n",
        mac(slot, End::Near),
        mac(slot, End::Wire)
    );
    run("ip", &["-batch", "-"], Some(&lines))?;
    // Frames are handed on without the kernel's notes on them: checksums have to be whole.
    for end in [&device, &port] {
        run("ethtool", &["-K", end, "tx", "off", "gro", "on"], None)?;
    }
    let line = line(slot, wire.vni, [wire.near, wire.far], mtu);
    let lines = format!("{}\n", line.replace(" type ", &format!(" master {bridge} up type ")));
    run("ip", &["-batch", "-"], Some(&lines))
}

/// Removes the router's end, where there is one.
pub(crate) fn near_gone(spec: &Spec, run: impl Run) -> Result<(), String> {
    let device = device(spec.network.slot);
    // It is made first, and removed last. Without it the interface is that of an instance of this machine.
    let bridge = format!("{device}b");
    if !is_there(&bridge) {
        return Ok(());
    }
    [passing(spec.network.slot), device, bridge].iter().try_for_each(|one| delete(&[], one, &run))
}

/// Removes an interface, where there is one.
pub(crate) fn delete(place: &[&str], device: &str, run: &impl Run) -> Result<(), String> {
    match run("ip", &[place, &["link", "delete", device]].concat(), None) {
        Err(error) if !error.contains("Cannot find device") => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is an interface: in the namespace of this process, which what is mounted at /sys need not be of.
fn is_there(device: &str) -> bool {
    Path::new("/proc/sys/net/ipv4/conf").join(device).exists()
}

/// Runs a program of this machine's.
pub(crate) fn command(program: &str, words: &[&str], input: Option<&str>) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &COMMAND_S_MAX.to_string(), program]).args(words);
    output(command, program, words, input).map(drop)
}
