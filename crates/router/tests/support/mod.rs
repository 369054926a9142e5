//! A small world of clients, servers, rules and frames, made from a seed: small, so that rules match
//! and clients meet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use freshet_router::app::{App, Kind, Leg};
use freshet_router::gtp::{Form, Wrapping};
use freshet_router::model::{Ingress, Model, Settings};
use freshet_router::packet::mapped;
use freshet_router::rule::{Act, AddressRange, Filter, Part, Profile, Rule};
use freshet_router::session::network::{Network, Networks};
use freshet_router::session::{Client, Hop, Path, Session};

/// Numbers that depend on the seed alone (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

const PORTS: [u16; 6] = [53, 80, 443, 2152, 8080, 65535];
const PROTOCOLS: [u8; 6] = [1, 6, 6, 17, 17, 132];
const TAGS: [&str; 3] = ["gold", "van", "lab"];

pub fn client_address(random: &mut Random) -> u128 {
    if random.one_in(3) {
        (0x2001_0db8_0000_0001 + u128::from(random.below(4))) << 64 | u128::from(random.below(3))
    } else {
        mapped(0x0a2d_0001 + random.below(8) as u32)
    }
}

pub fn server_address(random: &mut Random, version: u8) -> u128 {
    if version == 6 {
        0x2001_0db8_ffff_0000_0000_0000_0000_0000 | u128::from(random.below(5))
    } else {
        mapped(random.of(&[0xcb00_710a_u32, 0xcb00_710b, 0xcb00_7200, 0x0808_0808, 0xffff_ffff, 0]))
    }
}

fn range(random: &mut Random, around: u128) -> AddressRange {
    let is_ipv4 = around >> 32 == 0xffff;
    let bits = if is_ipv4 {
        random.of(&[0, 0, 4, 8, 13, 16, 24, 32])
    } else {
        random.of(&[0, 1, 64, 80, 128])
    };
    let host = if bits == 128 { u128::MAX } else { (1_u128 << bits) - 1 };
    let (first, last) = (around & !host, around | host);
    if random.one_in(4) && first < around {
        AddressRange { first, last: around }
    } else {
        AddressRange { first, last }
    }
}

fn some<T>(random: &mut Random, make: impl Fn(&mut Random) -> T) -> Vec<T> {
    let count = if random.one_in(2) { 0 } else { 1 + random.below(2) };
    (0..count).map(|_| make(random)).collect()
}

fn any_address(random: &mut Random) -> u128 {
    if random.one_in(2) {
        return client_address(random);
    }
    let version = random.of(&[4, 4, 6]);
    server_address(random, version)
}

fn filter(random: &mut Random) -> Filter {
    let addresses = |random: &mut Random| {
        some(random, |random| {
            let around = any_address(random);
            range(random, around)
        })
    };
    let ports = |random: &mut Random| {
        if random.one_in(2) {
            return Vec::new();
        }
        some(random, |random| {
            let first = random.of(&PORTS);
            first..=random.of(&[first, first.saturating_add(9), u16::MAX])
        })
    };
    let tunnels = |random: &mut Random| {
        if random.one_in(4) {
            some(random, |random| {
                let end = end(random.below(4), random.one_in(3));
                range(random, end)
            })
        } else {
            Vec::new()
        }
    };
    Filter {
        addresses: [addresses(random), addresses(random)],
        ports: [ports(random), ports(random)],
        protocols: if random.one_in(2) {
            some(random, |random| random.of(&PROTOCOLS))
        } else {
            Vec::new()
        },
        tags: if random.one_in(4) {
            some(random, |random| random.of(&TAGS).to_owned())
        } else {
            Vec::new()
        },
        tunnels: [tunnels(random), tunnels(random)],
        dscp: random.one_in(8).then(|| random.of(&[0, 46])),
        traffic_class: random.one_in(8).then(|| random.of(&[0, 184])),
        network: None,
    }
}

/// A rule that every packet of a client matches, and its answers.
pub fn rule_for_all(act: Act, app: Option<u8>) -> Rule {
    Rule {
        id: "all".to_owned(),
        number: 0,
        is_flow: true,
        priority: 0,
        filters: vec![Filter::default()],
        act,
        app,
        is_active: true,
        limiter: 0,
        parts: Vec::new(),
    }
}

/// Packets of a rule with limiters of their own.
fn parts(random: &mut Random) -> Vec<Part> {
    let many = random.below(8).saturating_sub(5);
    let part = |number: u64| {
        let filter = filter(random);
        let (addresses, ports, protocols) = (filter.addresses, filter.ports, filter.protocols);
        let filter = Filter { addresses, ports, protocols, ..Filter::default() };
        Part { filter, limiter: number as u8 + 1 }
    };
    (0..many).map(part).collect()
}

/// A set of rules as [`freshet_router::rule::check`] would let through.
pub fn rules(random: &mut Random, most: u64, apps: &[App]) -> Vec<Rule> {
    (0..random.below(most + 1))
        .map(|number| {
            let app = random.below(apps.len() as u64) as u8;
            let (act, app) = match random.below(4) {
                0 => (random.of(&[Act::Pass, Act::Drop]), None),
                _ => match apps[usize::from(app)].kind {
                    Kind::Breakout => (Act::Breakout, Some(app)),
                    Kind::InLine => (Act::InLine, Some(app)),
                    Kind::Tap { .. } => (Act::Tap, Some(app)),
                },
            };
            let network = app.and_then(|app| apps[usize::from(app)].network);
            let mut filters: Vec<Filter> =
                (0..=random.below(3) / 2).map(|_| filter(random)).collect();
            filters.iter_mut().for_each(|filter| filter.network = network);
            Rule {
                id: format!("r{number}"),
                number: number as u16,
                is_flow: random.one_in(2),
                priority: random.below(4) as u8,
                filters,
                act,
                app,
                is_active: !random.one_in(8),
                limiter: 0,
                parts: parts(random),
            }
        })
        .collect()
}

pub fn profiles() -> Vec<Profile> {
    let mut profiles = vec![Profile::default()];
    for tags in 0..8 {
        for ends in 0..4 {
            let tags = (0..3).filter(|tag| tags >> tag & 1 == 1);
            let mut tags: Vec<String> = tags.map(|tag| TAGS[tag].to_owned()).collect();
            tags.sort_unstable();
            let is_ipv6 = ends == 3;
            let tunnel = Some([end(ends % 2, is_ipv6), end(2 + ends / 2, is_ipv6)]);
            for network in 0..3 {
                profiles.push(Profile { tags: tags.clone(), tunnel, network });
            }
        }
    }
    profiles
}

/// Two networks, of which the wire tells one by a VLAN.
pub fn networks() -> Networks {
    let network = |name: &str, vlans: &[u16]| Network {
        name: name.to_owned(),
        vlans: vlans.to_vec(),
        ..Network::default()
    };
    Networks::new(vec![network("enterprise", &[5]), network("police", &[])]).unwrap()
}

/// Base stations are 0 and 1, cores 2 and 3.
pub fn end(number: u64, is_ipv6: bool) -> u128 {
    if is_ipv6 {
        0xfd00_0000_0000_0000_0000_0000_0000_0000 | u128::from(number)
    } else {
        mapped(0x0a00_0001 + number as u32)
    }
}

pub fn apps() -> Vec<App> {
    let app = |number: u8, kind| App {
        name: format!("app{number}"),
        kind,
        legs: (0..if kind == Kind::InLine { 2 } else { 1 })
            .map(|leg| Leg {
                interface: format!("leg{number}{leg}"),
                mac: [2, 1, 0, 0, number, leg],
            })
            .collect(),
        addresses: Vec::new(),
        network: None,
        segment_bytes_max: [1300, 1280],
    };
    vec![
        app(0, Kind::Breakout),
        app(1, Kind::InLine),
        app(2, Kind::Tap { decapsulated: false }),
        app(3, Kind::Tap { decapsulated: true }),
        app(4, Kind::Breakout),
    ]
}

pub fn own_macs() -> Vec<Vec<[u8; 6]>> {
    let legs = |(number, app): (usize, App)| {
        (0..app.legs.len()).map(|leg| [2, 2, 0, 0, number as u8, leg as u8]).collect()
    };
    apps().into_iter().enumerate().map(legs).collect()
}

pub fn settings(tunnelled: bool) -> Settings {
    Settings { tunnelled, wire_bytes_max: 1500 }
}

pub fn session(random: &mut Random, client: Client, tunnelled: bool) -> Session {
    let hop = Hop {
        addresses: [[2, 3, 0, 0, 0, random.below(2) as u8], [2, 3, 0, 0, 1, random.below(2) as u8]],
        tags: random.of(&[
            [[0; 2]; 2],
            [[0; 2]; 2],
            [[0x8100, 5], [0; 2]],
            [[0x88a8, 7], [0x8100, 9]],
        ]),
    };
    if !tunnelled {
        let path = Path { ends: [0; 2], hop };
        return Session { client, teids: [0; 2], qfi: 0, form: Form::Plain, path };
    }
    let is_ipv6 = random.one_in(3);
    let ends = [end(random.below(2), is_ipv6), end(2 + random.below(2), is_ipv6)];
    let form = random.of(&[Form::Gtp, Form::GtpContainer]);
    let teids = [1 + random.below(1 << 32) as u32, random.next() as u32];
    let qfi = if form == Form::GtpContainer { random.below(64) as u8 } else { 0 };
    Session { client, teids, qfi, form, path: Path { ends, hop } }
}

/// A model with apps, rules and sessions; and all of them, sessions with their profiles.
pub struct World {
    pub model: Model,
    pub apps: Vec<App>,
    pub rules: Vec<Rule>,
    pub sessions: Vec<(Session, u16)>,
}

/// Apps of these networks.
pub fn apps_in(random: &mut Random, networks: &Networks) -> Vec<App> {
    let mut apps = apps();
    for app in apps.iter_mut().filter(|_| !networks.is_empty()) {
        if app.kind == Kind::Breakout || random.one_in(2) {
            app.network = Some(random.below(3) as u16);
        }
    }
    apps
}

/// A world in which addresses are unique in networks alone, if there are any.
pub fn world(random: &mut Random, tunnelled: bool, networks: &Networks) -> World {
    let apps = apps_in(random, networks);
    let mut model = Model::new(settings(tunnelled), apps.clone(), own_macs());
    model.set_networks(networks.clone());
    let most = random.of(&[3, 20, 100]);
    let rules = rules(random, most, &apps);
    model.set_rules(rules.clone(), profiles());
    let mut sessions: Vec<(Session, u16)> = Vec::new();
    for _ in 0..random.below(if networks.is_empty() { 10 } else { 16 }) {
        let client = Client::of(client_address(random)).unwrap();
        let mut session = session(random, client, tunnelled);
        if !networks.is_empty() {
            // What told it may know more than the wire, or something else.
            let told = networks.of_vlan(&session.path.hop).filter(|_| !random.one_in(8));
            let any = random.below(3) as u16;
            session.client = client.within(told.unwrap_or(any));
        }
        if sessions.iter().any(|(one, _)| one.client == session.client) {
            continue;
        }
        // Profiles are in order of networks.
        let many = profiles().len() as u64 / 3;
        let profile = random.below(many) as u16 * 3 + 1 + session.client.network;
        sessions.push((session, if random.one_in(33) { 0 } else { profile }));
    }
    for (session, profile) in &sessions {
        model.set_session(*session, *profile);
    }
    World { model, apps, rules, sessions }
}

pub fn checksum(bytes: &[u8], start: u64) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let mut sum = start + words.sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet with right checksums from one address to another.
pub fn packet(random: &mut Random, from: u128, to: u128) -> Vec<u8> {
    let is_ipv6 = from >> 32 != 0xffff;
    let protocol = match random.of(&PROTOCOLS) {
        1 if is_ipv6 => 58,
        other => other,
    };
    let mut transport = Vec::new();
    if matches!(protocol, 6 | 17 | 132) {
        transport.extend(random.of(&PORTS).to_be_bytes());
        transport.extend(random.of(&PORTS).to_be_bytes());
    }
    let payload_bytes = random.of(&[0, 1, 8, 33, 200, 1300, 1440]);
    match protocol {
        6 => {
            let options: &[u8] = random.of(&[
                &[][..],
                &[2, 4, 5, 180],
                &[1, 2, 4, 5, 100, 1, 1, 0],
                &[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 255, 255],
            ]);
            transport.extend([0; 8]);
            transport.extend([
                (5 + options.len() as u8 / 4) << 4,
                random.of(&[0x10, 0x02, 0x12]),
                0,
                0,
                0,
                0,
                0,
                0,
            ]);
            transport.extend(options);
        }
        17 => transport.extend([0; 4]),
        _ => transport.extend([0; 8]),
    }
    transport.extend((0..payload_bytes).map(|_| random.next() as u8));
    if protocol == 17 {
        let length = transport.len() as u16;
        transport[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let (from_bytes, to_bytes): (Vec<u8>, Vec<u8>) = if is_ipv6 {
        (from.to_be_bytes().to_vec(), to.to_be_bytes().to_vec())
    } else {
        ((from as u32).to_be_bytes().to_vec(), (to as u32).to_be_bytes().to_vec())
    };
    let place = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    if protocol != 132 {
        let pseudo: Vec<u8> = [from_bytes.clone(), to_bytes.clone()].concat();
        let pseudo = if protocol == 1 {
            0
        } else {
            u64::from(!checksum(&pseudo, 0)) + transport.len() as u64 + u64::from(protocol)
        };
        let check = checksum(&transport, pseudo);
        transport[place..place + 2].copy_from_slice(&check.to_be_bytes());
    }
    let class = random.of(&[0, 0, 184, 3]);
    let fragment = random.below(8);
    let mut packet = Vec::new();
    if is_ipv6 {
        let mut extensions = Vec::new();
        let mut next = protocol;
        if fragment < 2 {
            let place: u16 = if fragment == 0 { 1 } else { 8 * 3 };
            extensions.extend([next, 0]);
            extensions.extend(place.to_be_bytes());
            extensions.extend((random.below(3) as u32).to_be_bytes());
            next = 44;
        }
        for _ in 0..random.below(10).saturating_sub(6) {
            let mut header = vec![next, 0, 1, 4, 0, 0, 0, 0];
            header.extend(&extensions);
            (extensions, next) = (header, random.of(&[0, 60, 43]));
        }
        packet.extend((0x6000_0000_u32 | u32::from(class) << 20).to_be_bytes());
        packet.extend(((extensions.len() + transport.len()) as u16).to_be_bytes());
        packet.extend([next, 64]);
        packet.extend(from_bytes);
        packet.extend(to_bytes);
        packet.extend(extensions);
    } else {
        let options = if random.one_in(10) { 4 } else { 0 };
        let place: u16 = match fragment {
            0 => 0x2000,
            1 => 3,
            2 => 0x2003,
            _ => random.of(&[0, 0x4000]),
        };
        packet.extend([0x45 + options / 4, class]);
        packet.extend((20 + u16::from(options) + transport.len() as u16).to_be_bytes());
        packet.extend((random.below(3) as u16).to_be_bytes());
        packet.extend(place.to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
        packet.extend(from_bytes);
        packet.extend(to_bytes);
        packet.extend(vec![1; usize::from(options)]);
        let check = checksum(&packet, 0);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    }
    packet.extend(transport);
    packet
}

/// A frame of the wire or of an app, mostly good, and where it comes in.
pub fn frame(
    random: &mut Random,
    tunnelled: bool,
    sessions: &[(Session, u16)],
) -> (Ingress, Vec<u8>) {
    let ingress = match random.below(8) {
        0..4 => Ingress::Access,
        4 | 5 => Ingress::Core,
        6 => Ingress::App(random.of(&[0, 4]), 0),
        _ => random.of(&[Ingress::App(1, 0), Ingress::App(1, 1)]),
    };
    let client = client_address(random);
    let version = if client >> 32 == 0xffff { 4 } else { 6 };
    let server = server_address(random, version);
    let (from, to) = if ingress == Ingress::Access { (client, server) } else { (server, client) };
    let packet = packet(random, from, to);
    let address = Client::of(client).unwrap().address;
    let known: Vec<Session> = sessions
        .iter()
        .map(|(session, _)| *session)
        .filter(|session| session.client.address == address)
        .collect();
    let session = match known.len() as u64 {
        many @ 1.. if !random.one_in(10) => known[random.below(many) as usize],
        _ => session(random, Client::of(client).unwrap(), tunnelled),
    };
    let mut frame = Vec::new();
    frame.extend(session.path.hop.addresses.concat());
    let tags = session.path.hop.tags;
    if !matches!(ingress, Ingress::App(..)) {
        for [kind, control] in tags.iter().filter(|[kind, _]| *kind != 0) {
            frame.extend(kind.to_be_bytes());
            frame.extend(control.to_be_bytes());
        }
    }
    let wraps = tunnelled && !matches!(ingress, Ingress::App(0 | 4, _));
    let outer_version = if session.path.ends[0] >> 32 == 0xffff { 4 } else { 6 };
    let shown_version = if wraps { outer_version } else { version };
    frame.extend(if shown_version == 4 { [8, 0] } else { [0x86, 0xdd] });
    if wraps {
        let [access, core] = session.path.ends;
        let is_up = ingress == Ingress::Access;
        let mut access = access;
        if random.one_in(12) {
            access = end(random.below(2), outer_version == 6);
        }
        let wrapping = Wrapping {
            addresses: if is_up { [access, core] } else { [core, access] },
            teid: session.teids[usize::from(!is_up)],
            qfi: session.qfi,
            form: session.form,
        };
        frame.extend(wrapping.headers(&packet, 0, None));
        frame.extend(packet);
        if random.one_in(12) {
            vary_tunnel(random, &mut frame, outer_version);
        }
    } else {
        frame.extend(packet);
    }
    match random.below(24) {
        0 => frame.truncate(14 + random.below(frame.len() as u64 - 13) as usize),
        1 => frame.extend(vec![0; random.below(40) as usize]),
        2..4 => {
            let end = random.of(&[64, 130]).min(frame.len() as u64);
            let place = 12 + random.below(end - 12) as usize;
            frame[place] ^= 1 << random.below(8);
        }
        _ => {}
    }
    (ingress, frame)
}

/// Other forms of GTP-U: a sequence number, more extension headers, signals.
fn vary_tunnel(random: &mut Random, frame: &mut Vec<u8>, outer_version: u8) {
    let ip_at =
        (12..=20).step_by(4).find(|at| matches!(frame[*at..*at + 2], [8, 0] | [0x86, 0xdd]));
    let Some(ip_at) = ip_at.map(|at| at + 2) else { return };
    let udp_at = ip_at + if outer_version == 4 { 20 } else { 40 };
    let gtp_at = udp_at + 8;
    match random.below(4) {
        0 => frame[gtp_at + 1] = random.of(&[1, 2, 26, 254]),
        1 => frame[udp_at + 3] ^= 1,
        _ => {
            // An extension header of another kind in front, also too many of them.
            let is_plain = frame[gtp_at] & 7 == 0;
            let mut next = if is_plain { 0 } else { frame[gtp_at + 11] };
            let mut added = Vec::new();
            for _ in 0..1 + random.below(5) {
                let words = 1 + random.below(2) as usize;
                let mut header = vec![words as u8];
                header.resize(words * 4 - 1, 0);
                header.push(next);
                header.extend(&added);
                (added, next) = (header, random.of(&[0x20, 0x40, 0x21, 0x81, 0xc0]));
            }
            let at = gtp_at + if is_plain { 8 } else { 12 };
            if is_plain {
                let mut optional = vec![0, 1, 0, next];
                optional.extend(&added);
                added = optional;
            } else {
                frame[gtp_at + 11] = next;
            }
            frame[gtp_at] |= 6;
            let more = added.len() as u16;
            frame.splice(at..at, added);
            let mut grow = |place: usize| {
                let value = u16::from_be_bytes([frame[place], frame[place + 1]]).wrapping_add(more);
                frame[place..place + 2].copy_from_slice(&value.to_be_bytes());
            };
            grow(gtp_at + 2);
            grow(udp_at + 4);
            grow(ip_at + if outer_version == 4 { 2 } else { 4 });
        }
    }
}
