//! Frames the programs make, read by tshark: what it calls malformed or a wrong checksum is a mistake.

use crate::equality::{forget_sessions, kernel_says, load, options, set_up};
use crate::support::{self, Random};
use aya::programs::{TestRun, TestRunOptions};
use freshet_router::gtp::{self, Wrapping};
use freshet_router::kernel::{Object, Options, Programs};
use freshet_router::model::Ingress;
use freshet_router::packet::{mapped, parse};
use freshet_router::rule::Act;
use freshet_router::session::{Client, Session};
use std::collections::BTreeMap;
use std::process::Command;

const ADDRESSES: [u128; 2] = [mapped(0x0a2d_0002), 0x2001_0db8_0045_0001_0000_0000_0000_0002];
const WORLDS: u64 = 150;
/// What is dissected: nothing behind the transport, where the packets of this world have random bytes.
const PROTOCOLS: [&str; 13] = [
    "frame",
    "eth",
    "ethertype",
    "vlan",
    "ieee8021ad",
    "ip",
    "ipv6",
    "udp",
    "tcp",
    "icmp",
    "icmpv6",
    "gtp",
    "data",
];
/// 0 is wrong, 1 right, 2 not checked, as in a fragment, 3 not there, 4 not there where it must be.
const CHECKSUMS: [&str; 5] = [
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
];

/// A file of frames as libpcap writes them.
fn capture(frames: &[Made]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for Made { frame, .. } in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// A frame a program made.
struct Made {
    /// What it is.
    kind: &'static str,
    /// The protocols in front of the client's packet.
    front: String,
    frame: Vec<u8>,
}

/// The link of a session, and what is around the client's packet, as tshark names them.
fn front(session: &Session) -> String {
    let tags = session.path.hop.tags.iter().filter(|[kind, _]| *kind != 0);
    let tags: String = tags
        .map(|[kind, _]| if *kind == 0x88a8 { "ieee8021ad:ethertype:" } else { "vlan:ethertype:" })
        .collect();
    let outer = if session.path.ends[0] >> 32 == 0xffff { "ip" } else { "ipv6" };
    format!("eth:ethertype:{tags}{outer}:udp:gtp:")
}

/// A frame that carries a packet of the client, or one to it, in the session's tunnel.
fn on_the_wire(session: &Session, is_up: bool, packet: &[u8]) -> Vec<u8> {
    let [access, core] = session.path.ends;
    let wrapping = Wrapping {
        addresses: if is_up { [access, core] } else { [core, access] },
        teid: session.teids[usize::from(!is_up)],
        qfi: session.qfi,
        form: session.form,
    };
    let mut frame = session.path.hop.addresses.concat();
    for [kind, control] in session.path.hop.tags.iter().filter(|[kind, _]| *kind != 0) {
        frame.extend([kind.to_be_bytes(), control.to_be_bytes()].concat());
    }
    frame.extend(if access >> 32 == 0xffff { [8, 0] } else { [0x86, 0xdd] });
    frame.extend(wrapping.headers(packet, 0, None));
    frame.extend(packet);
    frame
}

/// A packet whose own ports do not say that it is a tunnel's.
fn plain_packet(random: &mut Random, from: u128, to: u128) -> Vec<u8> {
    loop {
        let packet = support::packet(random, from, to);
        let kind = if from >> 32 == 0xffff { [8, 0] } else { [0x86, 0xdd] };
        let frame = [&[0; 12][..], &kind, &packet].concat();
        let ports = parse(&frame, false).unwrap().packet.ports;
        if ports.is_none_or(|ports| !ports.contains(&gtp::PORT)) {
            return packet;
        }
    }
}

/// What becomes of a copy behind the map of taps.
fn unwrapped_copy(gauge: &mut Programs, frame: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4096];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        ..TestRunOptions::default()
    };
    let result = gauge.program("tap_copy").unwrap().test_run(options).unwrap();
    out.truncate(result.data_size_out as usize);
    out
}

/// Everything the programs make of packets of clients and apps, over all forms of tunnels.
fn made(programs: &mut Programs, gauge: &mut Programs) -> Vec<Made> {
    let mut made = Vec::new();
    for seed in 0..WORLDS {
        let mut random = Random(seed);
        let sessions = ADDRESSES
            .map(|address| (support::session(&mut random, Client::of(address).unwrap(), true), 0));
        for (act, app) in [(Act::Breakout, 0), (Act::Tap, 2)] {
            let rule = support::rule_for_all(act, Some(app));
            set_up(programs, &support::apps(), &[rule], &sessions);
            for (address, (session, _)) in ADDRESSES.into_iter().zip(&sessions) {
                let (version, name) = if address >> 32 == 0xffff { (4, "ip") } else { (6, "ipv6") };
                let server = support::server_address(&mut random, version);
                let packet = plain_packet(&mut random, address, server);
                let up = on_the_wire(session, true, &packet);
                let (action, _, frame) = kernel_says(programs, Ingress::Access, &up);
                assert_eq!(action, 4);
                let plain = format!("eth:ethertype:{name}");
                if act == Act::Tap {
                    assert_eq!(
                        frame, up,
                        "a tap's packet goes on as it came, and so does its copy"
                    );
                    made.push(Made { kind: "tap", front: front(session), frame });
                    let frame = unwrapped_copy(gauge, &up);
                    assert_eq!(frame[14..], packet);
                    made.push(Made { kind: "tap without tunnel", front: plain, frame });
                    continue;
                }
                made.push(Made { kind: "out of the tunnel", front: plain.clone(), frame });
                let mut down = vec![2, 1, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0];
                down.extend(if version == 4 { [8, 0] } else { [0x86, 0xdd] });
                down.extend(plain_packet(&mut random, server, address));
                let (action, told, frame) = kernel_says(programs, Ingress::App(0, 0), &down);
                let (kind, front, reason) = match action {
                    4 => ("into the tunnel", format!("{}{name}", front(session)), 15),
                    3 => ("too big", plain, 18),
                    _ => continue,
                };
                assert_eq!(told.reason, reason);
                made.push(Made { kind, front, frame });
            }
        }
        forget_sessions(programs);
    }
    made
}

/// Writes a configuration for tshark in which only these protocols are dissected.
fn disable_all_but(protocols: &[&str], folder: &std::path::Path) {
    let listed = Command::new("tshark").args(["-G", "protocols"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.split('\t').nth(2));
    let others: Vec<&str> = names.filter(|name| !protocols.contains(name)).collect();
    assert!(others.len() > 500, "tshark knows {} protocols", others.len());
    std::fs::create_dir(folder.join("wireshark")).unwrap();
    std::fs::write(folder.join("wireshark/disabled_protos"), others.join("\n") + "\n").unwrap();
}

#[test]
fn every_frame_is_understood_by_tshark() {
    if Command::new("tshark").arg("--version").output().is_err() {
        crate::skip::missing("tshark");
        return;
    }
    let Some(mut programs) = load(&options(true)) else { return };
    let mut gauge = Programs::load(&Options { object: Object::Gauge, ..options(true) }).unwrap();
    gauge.set_tap_macs(1, Some([[2, 1, 0, 0, 0, 3], [2, 2, 0, 0, 0, 3]])).unwrap();
    let frames = made(&mut programs, &mut gauge);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, capture(&frames)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields", "-E", "occurrence=a"]);
    disable_all_but(&PROTOCOLS, folder.path());
    tshark.env("XDG_CONFIG_HOME", folder.path());
    // Fragments of this world do not make a packet.
    for off in ["ip.defragment:FALSE", "ipv6.defragment:FALSE"] {
        tshark.args(["-o", off]);
    }
    for on in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{on}.check_checksum:TRUE")]);
    }
    for field in ["frame.protocols", "_ws.malformed", "_ws.expert.message"] {
        tshark.args(["-e", field]);
    }
    for field in CHECKSUMS {
        tshark.args(["-e", field]);
    }
    let output = tshark.arg("-r").arg(&path).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.lines().count(), frames.len(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut seen = BTreeMap::<_, u32>::new();
    let mut checked = [0; CHECKSUMS.len()];
    for (made, line) in frames.iter().zip(shown.lines()) {
        let what = || format!("{}: {line}: {:02x?}", made.kind, made.frame);
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields[0].starts_with(&made.front), "{} expected: {}", made.front, what());
        assert!(fields[1].is_empty(), "malformed: {}", what());
        for (checked, field) in checked.iter_mut().zip(&fields[3..]) {
            // What is copied is as wrong as it came: here without a checksum, over IPv6 too.
            let wrong = if made.kind == "tap" { "0" } else { "04" };
            assert!(
                !field.split(',').any(|one| wrong.contains(one) && !one.is_empty()),
                "checksum: {}",
                what()
            );
            *checked += u32::from(field.split(',').any(|status| status == "1"));
        }
        *seen.entry((made.kind, made.front.as_str())).or_default() += 1;
    }
    eprintln!("right checksums: {checked:?}");
    assert!(checked.iter().all(|many| *many > 20), "{checked:?}");
    // Both versions inside, both outside, three kinds of links: for all that has a tunnel and a link.
    let fronts = |kind: &str| seen.keys().filter(|(one, _)| *one == kind).count();
    assert_eq!(fronts("tap"), 6, "{seen:#?}");
    assert_eq!(fronts("into the tunnel"), 12, "{seen:#?}");
    for plain in ["out of the tunnel", "tap without tunnel", "too big"] {
        assert_eq!(fronts(plain), 2, "{seen:#?}");
    }
}
