//! Frames the programs make, read by tshark: what it calls malformed or a wrong checksum is a mistake.

use crate::equality::{kernel_says, load, options, set_up};
use crate::support::{self, Random};
use freshet_router::model::Ingress;
use freshet_router::packet::mapped;
use freshet_router::rule::{Act, Filter, Rule};
use freshet_router::session::Client;
use std::collections::HashMap;
use std::process::Command;

/// A file of frames as libpcap writes them.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn every_frame_is_understood_by_tshark() {
    if Command::new("tshark").arg("--version").output().is_err() {
        crate::skip::missing("tshark");
        return;
    }
    let Some(mut programs) = load(&options(true)) else { return };
    let mut frames = Vec::new();
    let mut expected = HashMap::<&str, usize>::new();
    for seed in 0..40 {
        let mut random = Random(seed);
        let addresses = [mapped(0x0a2d_0002), 0x2001_0db8_0045_0001_0000_0000_0000_0002];
        let session_of = |random: &mut Random, address| {
            (support::session(random, Client::of(address).unwrap(), true), 0)
        };
        let sessions = addresses.map(|address| session_of(&mut random, address));
        let rule = Rule {
            id: "all".to_owned(),
            number: 0,
            is_flow: true,
            priority: 0,
            filters: vec![Filter::default()],
            act: Act::Breakout,
            app: Some(0),
            is_active: true,
            limiter: 0,
        };
        set_up(&mut programs, &[rule], &sessions);
        for address in addresses {
            let version = if address == addresses[0] { 4 } else { 6 };
            let server = support::server_address(&mut random, version);
            let mut down = vec![2, 1, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0];
            down.extend(if version == 4 { [8, 0] } else { [0x86, 0xdd] });
            down.extend(support::packet(&mut random, server, address));
            let (action, told, frame) = kernel_says(&mut programs, Ingress::App(0, 0), &down);
            let kind = match action {
                4 => "wrapped",
                3 => "too big",
                _ => continue,
            };
            assert_eq!(told.reason, if kind == "wrapped" { 15 } else { 18 });
            *expected.entry(kind).or_default() += 1;
            frames.push(frame);
        }
        for slot in 0..64 {
            let write = freshet_router::session::lines::Write { slot, line: [0; 32] };
            programs.set_line(&write).unwrap();
        }
    }
    assert!(expected["wrapped"] > 30, "{expected:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, capture(&frames)).unwrap();
    let output = Command::new("tshark")
        .args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"])
        .args(["-T", "fields", "-E", "occurrence=a"])
        .args(["-e", "frame.protocols", "-e", "_ws.malformed", "-e", "ip.checksum.status"])
        .args([
            "-e",
            "udp.checksum.status",
            "-e",
            "icmpv6.checksum.status",
            "-e",
            "icmp.checksum.status",
        ])
        .arg("-r")
        .arg(&path)
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.lines().count(), frames.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (number, line) in shown.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let is_wrapped = fields[0].contains("udp:gtp");
        assert!(is_wrapped || fields[0].contains("icmp"), "frame {number}: {line}");
        // The client's payload is random: only what is around it has to make sense.
        let inner = fields[0].split_once(":gtp:").map_or(0, |(_, inner)| inner.split(':').count());
        let has_payload = inner > 2 || fields[0].contains("sctp");
        assert!(has_payload || fields[1].is_empty(), "frame {number} is malformed: {line}");
        // 0 is bad, 1 good, 2 not checked. The outer one comes first; what is inside is the client's.
        for field in &fields[2..] {
            let outer = field.split(',').next().unwrap_or_default();
            assert_ne!(outer, "0", "frame {number} has a wrong checksum: {line}");
        }
    }
}
