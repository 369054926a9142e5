//! What becomes of a frame, said plainly: the reference the program in the kernel is held against.
//!
//! It is also what explains a packet to a person: which session it belongs to, which rule it met.

mod settling;

use crate::app::{APPS_MAX, App, Kind};
use crate::gtp::{Form, Wrapping, folded, promised_sum, sum};
use crate::packet::{ETHERNET_BYTES, Fragment, Frame, Packet, TCP, Untouched, parse, parse_packet};
use crate::rule::reference::{entries, first_match};
use crate::rule::{Act, Direction, Profile, Rule, Subject, compile};
use crate::session::learn::{Flow, Sighting};
use crate::session::network::Networks;
use crate::session::{Client, Hop, Session};
use settling::{Settling, tcp_flags};
use std::collections::{BTreeMap, HashMap};

/// Options of a TCP header that are walked over in search of the segment size.
pub const TCP_OPTIONS_MAX: usize = 10;

/// Where a frame came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ingress {
    /// On the wire, from the base stations' side.
    Access,
    /// On the wire, from the core's side.
    Core,
    /// From an app: its number, and which of its interfaces.
    App(u8, u8),
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Out {
    /// Out on the wire, towards the base stations or the core.
    Wire(Direction),
    /// To an app: its number, and which of its interfaces.
    App(u8, u8),
    /// On along the wire, and a copy to an app.
    Tap(Direction, u8),
    /// Nowhere.
    Nowhere,
    /// To this host's own network.
    Host,
    /// Back to the app it came from.
    Back,
}

/// Why.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Reason {
    /// See [`Untouched::NotIp`].
    NotIp = 0,
    /// See [`Untouched::Malformed`].
    Malformed = 1,
    /// See [`Untouched::OuterFragment`].
    OuterFragment = 2,
    /// See [`Untouched::NotTunnel`].
    NotTunnel = 3,
    /// See [`Untouched::TunnelSignal`].
    TunnelSignal = 4,
    /// No session is known for the client.
    NoSession = 5,
    /// The client's session has another tunnel.
    OtherTunnel = 6,
    /// No rule matched.
    NoRule = 7,
    /// A rule lets it pass.
    RulePass = 8,
    /// A rule drops it.
    RuleDrop = 9,
    /// Given to an app in place of the server.
    Breakout = 10,
    /// Given to an in-line app.
    InLine = 11,
    /// Copied to an app.
    Tap = 12,
    /// A rule's app is not alive.
    AppDead = 13,
    /// Above the rule's rate.
    RateLimited = 14,
    /// From an app to a client.
    FromApp = 15,
    /// Out of an in-line app.
    FromInLine = 16,
    /// From an app, and not to a client that has a session.
    ToHost = 17,
    /// From an app, and too long for the tunnel; the app was told.
    TooBig = 18,
    /// The kernel had no room before or behind the packet.
    NoRoom = 19,
}

impl Reason {
    /// All of them, by their number.
    pub const ALL: [Self; 20] = [
        Self::NotIp,
        Self::Malformed,
        Self::OuterFragment,
        Self::NotTunnel,
        Self::TunnelSignal,
        Self::NoSession,
        Self::OtherTunnel,
        Self::NoRule,
        Self::RulePass,
        Self::RuleDrop,
        Self::Breakout,
        Self::InLine,
        Self::Tap,
        Self::AppDead,
        Self::RateLimited,
        Self::FromApp,
        Self::FromInLine,
        Self::ToHost,
        Self::TooBig,
        Self::NoRoom,
    ];

    /// Its name for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not-ip",
            Self::Malformed => "malformed",
            Self::OuterFragment => "outer-fragment",
            Self::NotTunnel => "not-tunnel",
            Self::TunnelSignal => "tunnel-signal",
            Self::NoSession => "no-session",
            Self::OtherTunnel => "other-tunnel",
            Self::NoRule => "no-rule",
            Self::RulePass => "rule-pass",
            Self::RuleDrop => "rule-drop",
            Self::Breakout => "breakout",
            Self::InLine => "in-line",
            Self::Tap => "tap",
            Self::AppDead => "app-dead",
            Self::RateLimited => "rate-limited",
            Self::FromApp => "from-app",
            Self::FromInLine => "from-in-line",
            Self::ToHost => "to-host",
            Self::TooBig => "too-big",
            Self::NoRoom => "no-room",
        }
    }
}

impl From<Untouched> for Reason {
    fn from(why: Untouched) -> Self {
        Self::ALL[why as usize]
    }
}

/// What becomes of a frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Why.
    pub reason: Reason,
    /// Where to.
    pub out: Out,
    /// The number of the rule that matched.
    pub rule: Option<u16>,
    /// The frame as it leaves.
    pub frame: Vec<u8>,
    /// What is to be learnt from it.
    pub sighting: Option<Sighting>,
}

/// What a router is set to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Whether clients' packets are inside GTP-U on the wire.
    pub tunnelled: bool,
    /// Longest IP packet of the wire towards base stations, in bytes.
    pub wire_bytes_max: u16,
}

/// The reference router.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    rules: Vec<Rule>,
    profiles: Vec<Profile>,
    apps: Vec<App>,
    alive: [bool; APPS_MAX],
    /// The host's ends of the apps' interfaces.
    own_macs: Vec<Vec<[u8; 6]>>,
    networks: Networks,
    sessions: BTreeMap<Client, (Session, u16)>,
    fragments: HashMap<(u16, u128, u128, u32, u8), [u16; 2]>,
    settling: Option<Settling>,
}

impl Model {
    /// A router with these apps, all alive, whose interfaces have these addresses; no rules and no
    /// sessions.
    #[must_use]
    pub fn new(settings: Settings, apps: Vec<App>, own_macs: Vec<Vec<[u8; 6]>>) -> Self {
        Self {
            settings,
            rules: Vec::new(),
            profiles: Vec::new(),
            apps,
            alive: [true; APPS_MAX],
            own_macs,
            networks: Networks::default(),
            sessions: BTreeMap::new(),
            fragments: HashMap::new(),
            settling: None,
        }
    }

    /// Replaces all rules, and the profiles clients may have.
    pub fn set_rules(&mut self, rules: Vec<Rule>, profiles: Vec<Profile>) {
        (self.rules, self.profiles) = (rules, profiles);
    }

    /// From now on rules settle, which were these before; `None` is that they do not any more.
    pub fn settle(&mut self, before: Option<Vec<Rule>>) {
        self.settling = before.map(Settling::after);
    }

    /// Says which networks there are.
    pub fn set_networks(&mut self, networks: Networks) {
        self.networks = networks;
    }

    /// Adds or replaces a session, of a client with this profile.
    pub fn set_session(&mut self, session: Session, profile: u16) {
        self.sessions.insert(session.client, (session, profile));
    }

    /// Removes a session.
    pub fn remove_session(&mut self, client: Client) {
        self.sessions.remove(&client);
    }

    /// Says whether an app is alive.
    pub const fn set_alive(&mut self, app: u8, alive: bool) {
        self.alive[app as usize % APPS_MAX] = alive;
    }

    /// What becomes of a frame.
    pub fn decide(&mut self, ingress: Ingress, frame: &[u8]) -> Verdict {
        match ingress {
            Ingress::Access => self.decide_wire(Direction::Uplink, frame),
            Ingress::Core => self.decide_wire(Direction::Downlink, frame),
            Ingress::App(app, leg) => self.decide_app(app, leg, frame),
        }
    }

    fn decide_wire(&mut self, direction: Direction, frame: &[u8]) -> Verdict {
        let untouched = |reason, sighting| Verdict {
            reason,
            out: Out::Wire(direction),
            rule: None,
            frame: frame.to_vec(),
            sighting,
        };
        let parsed = match parse(frame, self.settings.tunnelled) {
            Ok(parsed) => parsed,
            Err(why) => return untouched(why.into(), None),
        };
        let packet = parsed.packet;
        let address = match direction {
            Direction::Uplink => packet.source,
            Direction::Downlink => packet.destination,
        };
        let Some(client) = Client::of(address) else {
            return untouched(Reason::NoSession, None);
        };
        let sighting = Some(Sighting {
            client,
            direction,
            tunnel: parsed.tunnel,
            hop: Hop::from(&parsed.link),
            flow: Flow {
                addresses: [packet.source, packet.destination],
                ports: packet.ports.unwrap_or_default(),
                protocol: packet.protocol,
            },
        });
        // Of all sessions of the address the one whose tunnel this is, in the network the VLAN tells.
        let told = self.networks.of_vlan(&Hop::from(&parsed.link));
        let network = if self.settings.tunnelled { told } else { told.or(Some(0)) };
        let sessions = self.sessions.range(client..=client.within(u16::MAX));
        let sessions = sessions.map(|(_, session)| *session);
        let mut sessions =
            sessions.filter(|(one, _)| network.is_none_or(|number| number == one.client.network));
        let Some(first) = sessions.next() else {
            return untouched(Reason::NoSession, sighting);
        };
        let own = std::iter::once(first)
            .chain(sessions)
            .find(|(session, _)| agreement(session, &parsed, direction).is_own);
        let Some((session, profile)) = own else {
            return untouched(Reason::OtherTunnel, sighting);
        };
        let Agreement { is_news, .. } = agreement(&session, &parsed, direction);
        let sighting = sighting.filter(|_| is_news);
        let ports = self.ports(&packet, session.client.network);
        let subject = Subject {
            version: packet.version,
            addresses: [packet.source, packet.destination],
            ports,
            protocol: packet.protocol,
            traffic_class: packet.traffic_class,
        };
        let nobody = Profile::default();
        let profile = self.profiles.get(usize::from(profile)).unwrap_or(&nobody).clone();
        let find = |rules: &[Rule]| {
            let entries = entries(rules, direction);
            first_match(&entries, direction, &subject, &profile)
                .map(|place| compile::target(&entries[place]))
        };
        let mut found = find(&self.rules);
        if let Some(mut settling) = self.settling.take() {
            if direction == Direction::Uplink && packet.protocol == 6 {
                let key = (session.client.network, subject.addresses, ports.unwrap_or_default());
                let flags = tcp_flags(frame, &packet);
                let before = find(&settling.before);
                found =
                    settling.target(key, flags, found, before, |app| self.alive[usize::from(app)]);
            }
            self.settling = Some(settling);
        }
        let Some(target) = found else {
            return untouched(Reason::NoRule, sighting);
        };
        let rule = Some(target.rule);
        let on_wire = |reason| Verdict { rule, ..untouched(reason, sighting) };
        if target.act == Act::Pass as u8 {
            return on_wire(Reason::RulePass);
        }
        if target.act == Act::Drop as u8 {
            return Verdict { out: Out::Nowhere, ..on_wire(Reason::RuleDrop) };
        }
        if !self.alive[usize::from(target.app)] {
            return on_wire(Reason::AppDead);
        }
        if target.act == Act::Tap as u8 {
            return Verdict { out: Out::Tap(direction, target.app), ..on_wire(Reason::Tap) };
        }
        if target.act == Act::InLine as u8 {
            let out = Out::App(target.app, direction as u8);
            return Verdict { out, ..on_wire(Reason::InLine) };
        }
        let app = usize::from(target.app);
        let mut out = Vec::with_capacity(frame.len());
        out.extend(self.apps[app].legs[0].mac);
        out.extend(self.own_macs[app][0]);
        out.extend(ethertype(packet.version).to_be_bytes());
        out.extend(&frame[packet.at..]);
        if direction == Direction::Uplink {
            let most = self.apps[app].segment_bytes_max[usize::from(packet.version == 6)];
            let moved = packet.at - ETHERNET_BYTES;
            limit_segments(&mut out, &packet, packet.transport_at - moved, moved, most);
        }
        Verdict { out: Out::App(target.app, 0), frame: out, ..on_wire(Reason::Breakout) }
    }

    /// Ports of a packet; those of a later fragment are known from the first.
    fn ports(&mut self, packet: &Packet, network: u16) -> Option<[u16; 2]> {
        let key = |id| (network, packet.source, packet.destination, id, packet.protocol);
        match packet.fragment {
            Fragment::Whole => packet.ports,
            Fragment::First(id) => {
                if let Some(ports) = packet.ports {
                    self.fragments.insert(key(id), ports);
                }
                packet.ports
            }
            Fragment::Later(id) => self.fragments.get(&key(id)).copied(),
        }
    }

    fn decide_app(&self, app: u8, leg: u8, frame: &[u8]) -> Verdict {
        let verdict =
            |reason, out, frame| Verdict { reason, out, rule: None, frame, sighting: None };
        let to_host = || verdict(Reason::ToHost, Out::Host, frame.to_vec());
        match self.apps[usize::from(app)].kind {
            Kind::Tap { .. } => return to_host(),
            Kind::InLine => {
                let to = if leg == 0 { Direction::Downlink } else { Direction::Uplink };
                return verdict(Reason::FromInLine, Out::Wire(to), frame.to_vec());
            }
            Kind::Breakout => {}
        }
        let expected = match frame.get(12..14) {
            Some([0x08, 0x00]) => 4,
            Some([0x86, 0xdd]) => 6,
            _ => return to_host(),
        };
        let Ok(packet) = parse_packet(frame, ETHERNET_BYTES, frame.len(), Some(expected)) else {
            return to_host();
        };
        // Its answers say only an address: the network is the app's.
        let network = self.apps[usize::from(app)].network.unwrap_or_default();
        let client = Client::of(packet.destination).map(|client| client.within(network));
        let Some((session, _)) = client.and_then(|client| self.sessions.get(&client)) else {
            return to_host();
        };
        let outer_version = if session.path.ends[1] >> 32 == 0xffff { 4 } else { 6 };
        let overhead = session.form.overhead_bytes(outer_version);
        let room = usize::from(self.settings.wire_bytes_max).saturating_sub(overhead);
        if packet.bytes > room {
            return match too_big(frame, &packet, room as u16) {
                Some(answer) => verdict(Reason::TooBig, Out::Back, answer),
                None => verdict(Reason::TooBig, Out::Nowhere, frame.to_vec()),
            };
        }
        verdict(Reason::FromApp, Out::Wire(Direction::Downlink), wrap(session, &packet, frame))
    }
}

struct Agreement {
    /// Whether the packet belongs to the session.
    is_own: bool,
    /// Whether it says something new about it.
    is_news: bool,
}

fn agreement(session: &Session, frame: &Frame, direction: Direction) -> Agreement {
    let Some(tunnel) = frame.tunnel else { return Agreement { is_own: true, is_news: false } };
    let [access, core] = session.path.ends;
    let teid = session.teids[direction as usize];
    match direction {
        Direction::Uplink => {
            let is_own = tunnel.teid == teid && tunnel.destination == core;
            Agreement { is_own, is_news: !is_own || tunnel.source != access }
        }
        Direction::Downlink => {
            let is_own =
                tunnel.teid == teid && tunnel.source == core && tunnel.destination == access;
            Agreement { is_own, is_news: !is_own }
        }
    }
}

const fn ethertype(version: u8) -> u16 {
    if version == 4 { 0x0800 } else { 0x86dd }
}

/// The frame that carries an app's packet to a client.
fn wrap(session: &Session, packet: &Packet, frame: &[u8]) -> Vec<u8> {
    let Hop { addresses: [to, from], tags } = session.path.hop;
    let content = &frame[packet.at..packet.at + packet.bytes];
    let [access, core] = session.path.ends;
    let wrapping = Wrapping {
        addresses: [core, access],
        teid: session.teids[1],
        qfi: session.qfi,
        form: session.form,
    };
    let (headers, version) = if session.form == Form::Plain {
        (Vec::new(), packet.version)
    } else {
        let sum = promised_sum(frame, packet).unwrap_or_else(|| folded(sum(content)));
        let headers = wrapping.headers(content, packet.traffic_class, Some(sum));
        (headers, if core >> 32 == 0xffff { 4 } else { 6 })
    };
    let mut out = Vec::with_capacity(frame.len() + 128);
    out.extend(to);
    out.extend(from);
    for [kind, control] in tags.iter().filter(|[kind, _]| *kind != 0) {
        out.extend(kind.to_be_bytes());
        out.extend(control.to_be_bytes());
    }
    out.extend(ethertype(version).to_be_bytes());
    out.extend(headers);
    out.extend(content);
    out
}

/// Tells a client's TCP of smaller segments, where it asks for larger ones: RFC 1624 for the checksum.
fn limit_segments(frame: &mut [u8], packet: &Packet, tcp_at: usize, moved: usize, most: u16) {
    const SYN: u8 = 2;
    let end = packet.at + packet.bytes - moved;
    if most == 0 || packet.protocol != TCP || packet.fragment != Fragment::Whole {
        return;
    }
    let Some(header) = frame.get(tcp_at..tcp_at + 20) else { return };
    let header_end = tcp_at + usize::from(header[12] >> 4) * 4;
    if header[13] & SYN == 0 || tcp_at + 20 > end || header_end > end {
        return;
    }
    let mut at = tcp_at + 20;
    for _ in 0..TCP_OPTIONS_MAX {
        if at + 4 > header_end {
            return;
        }
        match (frame[at], frame[at + 1]) {
            (0, _) => return,
            (1, _) => at += 1,
            (2, 4) => {
                let asked = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
                if asked > most {
                    let is_odd = (at - tcp_at) % 2 == 1;
                    let turned = |value: u16| if is_odd { value.swap_bytes() } else { value };
                    let check = u16::from_be_bytes([frame[tcp_at + 16], frame[tcp_at + 17]]);
                    let changed =
                        u64::from(!check) + u64::from(!turned(asked)) + u64::from(turned(most));
                    frame[tcp_at + 16..tcp_at + 18]
                        .copy_from_slice(&(!folded(changed)).to_be_bytes());
                    frame[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                }
                return;
            }
            (_, length) if length >= 2 => at += usize::from(length),
            _ => return,
        }
    }
}

/// The answer to an app whose packet does not fit: ICMP of RFC 1191, ICMPv6 of RFC 8201. It seems to
/// come from the client, for the router has no address. Nothing for packets that may be fragmented
/// on the way (the app's own host does that) and for those with IP options.
fn too_big(frame: &[u8], packet: &Packet, room: u16) -> Option<Vec<u8>> {
    let ip = &frame[packet.at..];
    let mut out = Vec::with_capacity(128);
    out.extend(&frame[6..12]);
    out.extend(&frame[0..6]);
    out.extend(ethertype(packet.version).to_be_bytes());
    if packet.version == 4 {
        if ip[0] != 0x45 || ip[6] & 0x40 == 0 {
            return None;
        }
        let mut header = [0x45, 0, 0, 56, 0, 0, 0x40, 0, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[12..16].copy_from_slice(&ip[16..20]);
        header[16..20].copy_from_slice(&ip[12..16]);
        let check = !folded(sum(&header));
        header[10..12].copy_from_slice(&check.to_be_bytes());
        out.extend(header);
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend(room.to_be_bytes());
        message.extend(&ip[..28]);
        let check = !folded(sum(&message));
        message[2..4].copy_from_slice(&check.to_be_bytes());
        out.extend(message);
    } else {
        let mut header = vec![0x60, 0, 0, 0, 0, 56, 58, 64];
        header.extend(&ip[24..40]);
        header.extend(&ip[8..24]);
        let mut message = vec![2, 0, 0, 0, 0, 0];
        message.extend(room.to_be_bytes());
        message.extend(&ip[..48]);
        let pseudo = sum(&header[8..40]) + 56 + 58;
        let check = !folded(pseudo + sum(&message));
        message[2..4].copy_from_slice(&check.to_be_bytes());
        out.extend(header);
        out.extend(message);
    }
    Some(out)
}
