//! Which class of its queue a packet of an app is in: a program of the classic packet filter (BPF), which looks for
//! the first part whose filter accepts it, as it goes or the other way.
//!
//! Later fragments have no ports, and the headers of options that IPv6 may have before those of a protocol are not
//! looked behind: such packets are in no part that asks for ports.

use crate::SendsApart;
use freshet_router::packet::{mapped, unmapped};
use freshet_router::rule::check;
use freshet_router::rule::{AddressRange, Filter};
use std::ops::RangeInclusive;

/// The class of what is in no part.
pub(super) const ALL: u16 = 1;
/// That of the first part.
const FIRST: u16 = 0x10;
/// The queue's own number, which its classes have above theirs.
const QUEUE: u32 = 1 << 16;
/// Longest program (BPF_MAXINSNS).
const STEPS_MAX: usize = 4096;

/// The class of a part.
pub(super) fn of_part(place: usize) -> u16 {
    FIRST + u16::try_from(place).unwrap_or(u16::MAX - FIRST)
}

// linux/bpf_common.h: class, size and mode, or what is done.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_AT_X: u16 = 0x48;
const X_IS_HEADER: u16 = 0xb1;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_ABOVE: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Bytes before a packet: Ethernet's.
const AT: u32 = 14;
/// Protocols that have ports in their first four bytes: TCP, UDP, SCTP.
const WITH_PORTS: [u32; 3] = [6, 17, 132];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Step {
    code: u16,
    if_so: u8,
    if_not: u8,
    value: u32,
}

#[derive(Debug, Default)]
struct Program(Vec<Step>);

/// Jumps that lead to where a part's filter has not accepted.
type Jumps = Vec<usize>;

impl Program {
    fn step(&mut self, code: u16, value: u32) {
        self.0.push(Step { code, if_so: 0, if_not: 0, value });
    }

    /// Goes on where the value is in one of the ranges, else to where the jump will lead.
    fn among(&mut self, ranges: &[(u32, u32)], jumps: &mut Jumps) {
        let mut found = Vec::new();
        for (first, last) in ranges {
            if first == last {
                self.0.push(Step { code: IF_EQUAL, if_so: 0, if_not: 1, value: *first });
            } else {
                self.0.push(Step { code: IF_AT_LEAST, if_so: 0, if_not: 2, value: *first });
                self.0.push(Step { code: IF_ABOVE, if_so: 1, if_not: 0, value: *last });
            }
            found.push(self.0.len());
            self.step(JUMP, 0);
        }
        jumps.push(self.0.len());
        self.step(JUMP, 0);
        self.lead_here(found);
    }

    fn lead_here(&mut self, jumps: Jumps) {
        let here = self.0.len();
        for place in jumps {
            self.0[place].value = (here - place - 1) as u32;
        }
    }

    /// Goes on with the next filter unless this one accepts the packet.
    fn filter(&mut self, filter: &Filter, version: u32, class: u16) {
        let Some(ranges) = of_version(filter, version) else { return };
        let mut jumps = Jumps::new();
        self.step(LOAD_BYTE, AT);
        self.step(AND, 0xf0);
        self.among(&[(version << 4, version << 4)], &mut jumps);
        let (protocol, addresses) = if version == 4 { (9, [12, 16]) } else { (6, [8, 24]) };
        for (ranges, at) in ranges.iter().zip(addresses).filter(|(ranges, _)| !ranges.is_empty()) {
            match version {
                4 => {
                    let ranges: Vec<_> =
                        ranges.iter().map(|one| (one.first as u32, one.last as u32)).collect();
                    self.step(LOAD_WORD, AT + at);
                    self.among(&ranges, &mut jumps);
                }
                _ => self.prefixes(ranges, AT + at, &mut jumps),
            }
        }
        if !filter.protocols.is_empty() {
            let ranges: Vec<_> =
                filter.protocols.iter().map(|one| (u32::from(*one), u32::from(*one))).collect();
            self.step(LOAD_BYTE, AT + protocol);
            self.among(&ranges, &mut jumps);
        }
        if filter.ports.iter().any(|ranges| !ranges.is_empty()) {
            self.step(LOAD_BYTE, AT + protocol);
            self.among(&WITH_PORTS.map(|one| (one, one)), &mut jumps);
            if version == 4 {
                self.step(LOAD_HALF, AT + 6);
                self.step(AND, 0x1fff);
                self.among(&[(0, 0)], &mut jumps);
                self.step(X_IS_HEADER, AT);
            }
            for (ranges, at) in filter.ports.iter().zip([0, 2]).filter(|(one, _)| !one.is_empty()) {
                match version {
                    4 => self.step(LOAD_HALF_AT_X, AT + at),
                    _ => self.step(LOAD_HALF, AT + 40 + at),
                }
                let range =
                    |one: &RangeInclusive<u16>| ((*one.start()).into(), (*one.end()).into());
                self.among(&ranges.iter().map(range).collect::<Vec<_>>(), &mut jumps);
            }
        }
        self.step(RETURN, QUEUE | u32::from(class));
        self.lead_here(jumps);
    }

    /// As [`Program::among`], of prefixes of IPv6.
    fn prefixes(&mut self, ranges: &[AddressRange], at: u32, jumps: &mut Jumps) {
        let mut found = Jumps::new();
        for range in ranges {
            let mut others = Jumps::new();
            for word in 0..4 {
                let of = |address: u128| (address >> (96 - 32 * word)) as u32;
                let (first, last) = (of(range.first), of(range.last));
                if (first, last) != (0, u32::MAX) {
                    self.step(LOAD_WORD, at + 4 * word);
                    self.among(&[(first, last)], &mut others);
                }
            }
            found.push(self.0.len());
            self.step(JUMP, 0);
            self.lead_here(others);
        }
        jumps.push(self.0.len());
        self.step(JUMP, 0);
        self.lead_here(found);
    }
}

/// The addresses that a filter asks for in packets of a version; none where it accepts no packet of it. As for the
/// router, IPv4 is in the place in IPv6 that it is mapped to.
fn of_version(filter: &Filter, version: u32) -> Option<[Vec<AddressRange>; 2]> {
    let all_of_ipv4 = AddressRange { first: mapped(0), last: mapped(u32::MAX) };
    let of = |side: &Vec<AddressRange>| {
        let within = |one: &AddressRange| match version {
            4 => one.and(&all_of_ipv4),
            _ => (!one.is_ipv4()).then_some(*one),
        };
        let some: Vec<_> = side.iter().filter_map(within).collect();
        (side.is_empty() || !some.is_empty()).then_some(some)
    };
    Some([of(&filter.addresses[0])?, of(&filter.addresses[1])?])
}

/// Whether a range is a prefix: its addresses differ in their last bits alone.
fn is_prefix(range: &AddressRange) -> bool {
    let free = range.first ^ range.last;
    free & free.wrapping_add(1) == 0 && range.first & free == 0
}

/// The program, as `tc` takes it.
///
/// # Errors
/// A filter that cannot be one, or too many.
pub(super) fn program(parts: &[SendsApart]) -> Result<String, String> {
    let steps = steps(parts)?;
    let shown = steps
        .iter()
        .map(|step| format!(",{} {} {} {}", step.code, step.if_so, step.if_not, step.value));
    Ok(format!("{}{}", steps.len(), shown.collect::<String>()))
}

fn steps(parts: &[SendsApart]) -> Result<Vec<Step>, String> {
    let mut program = Program::default();
    for (place, part) in parts.iter().enumerate() {
        let filters = check::parts(&part.filter, "filter").map_err(|mistakes| {
            mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })?;
        for filter in filters {
            let is_told_apart =
                |one: &AddressRange| unmapped(one.first).is_some() || is_prefix(one);
            if !filter.addresses.iter().flatten().all(is_told_apart) {
                return Err("filter: addresses of IPv6 must be prefixes".to_owned());
            }
            for (filter, version) in
                [(&filter, 4), (&filter, 6), (&filter.reversed(), 4), (&filter.reversed(), 6)]
            {
                program.filter(filter, version, of_part(place));
            }
        }
    }
    program.step(RETURN, 0);
    if program.0.len() > STEPS_MAX {
        return Err("what an app sends has too many parts".to_owned());
    }
    Ok(program.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_router::rule::reference::matches;
    use freshet_router::rule::wire::TrafficFilter;
    use freshet_router::rule::{Direction, Profile, Subject};

    /// What the kernel does with a program and a frame (net/core/filter.c): beyond its end nothing is found.
    fn run(steps: &[Step], frame: &[u8]) -> u32 {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
        loop {
            let step = steps[at];
            at += 1;
            let load = |from: u32, bytes: usize| -> Option<u32> {
                let from = from as usize;
                let bytes = frame.get(from..from + bytes)?;
                Some(bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
            };
            let loaded = match step.code {
                LOAD_WORD => load(step.value, 4),
                LOAD_HALF => load(step.value, 2),
                LOAD_BYTE => load(step.value, 1),
                LOAD_HALF_AT_X => load(x + step.value, 2),
                X_IS_HEADER => {
                    let Some(first) = load(step.value, 1) else { return 0 };
                    x = (first & 15) * 4;
                    continue;
                }
                AND => Some(a & step.value),
                JUMP => {
                    at += step.value as usize;
                    continue;
                }
                RETURN => return step.value,
                code => {
                    let holds = match code {
                        IF_EQUAL => a == step.value,
                        IF_ABOVE => a > step.value,
                        IF_AT_LEAST => a >= step.value,
                        _ => panic!("{code:#x} is no step"),
                    };
                    at += usize::from(if holds { step.if_so } else { step.if_not });
                    continue;
                }
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
        }
    }

    fn frame(subject: &Subject, options: usize, is_later: bool) -> Vec<u8> {
        let mut frame = vec![0; AT as usize];
        let ports = subject.ports.unwrap_or_default();
        if subject.version == 4 {
            frame.extend([0x45 + options as u8, 0, 0, 0, 0, 0, 0, u8::from(is_later), 64]);
            frame.extend([subject.protocol, 0, 0]);
            for address in subject.addresses {
                frame.extend((address as u32).to_be_bytes());
            }
            frame.extend(vec![0; options * 4]);
        } else {
            frame.extend([0x60, 0, 0, 0, 0, 0, subject.protocol, 64]);
            for address in subject.addresses {
                frame.extend(address.to_be_bytes());
            }
        }
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0; 20]);
        frame
    }

    /// The next of numbers that look like random ones.
    fn below(state: &mut u64, end: u64) -> usize {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 33) % end) as usize
    }

    fn some(state: &mut u64, list: &[&str]) -> Vec<String> {
        let many = below(state, 5).saturating_sub(2);
        (0..many).map(|_| list[below(state, list.len() as u64)].to_owned()).collect()
    }

    const ADDRESSES: [&str; 8] = [
        "10.45.0.2",
        "10.45.0.0/16",
        "203.0.113.0/25",
        "0.0.0.0/0",
        "2001:db8::1",
        "2001:db8::/49",
        "2001:db8:0:8000::/49",
        "::/0",
    ];

    #[test]
    fn the_program_finds_the_first_part_that_accepts() {
        let state = &mut 7;
        let hosts: Vec<u128> =
            [0x0a2d_0002, 0x0a2d_0003, 0xcb00_7101, 0xcb00_71ff].map(mapped).into();
        let six = [1_u128, 2, 0x8000 << 64, 0xffff << 64].map(|low| 0x2001_0db8 << 96 | low);
        let mut in_parts = 0;
        for _ in 0..300 {
            let one =
                |state: &mut u64, list: &[&str]| some(state, list).into_iter().take(1).collect();
            let part = |state: &mut u64| TrafficFilter {
                src_address: one(state, &ADDRESSES),
                dst_address: one(state, &ADDRESSES),
                src_port: some(state, &["80", "443", "8000-8080"]),
                dst_port: some(state, &["80", "443", "8000-8080"]),
                protocol: some(state, &["TCP", "UDP", "ICMP", "ICMPv6"]),
                ..TrafficFilter::default()
            };
            let parts: Vec<SendsApart> = (0..3)
                .map(|_| SendsApart { filter: vec![part(state), part(state)], bps_max: 1 })
                .map(|mut part| {
                    part.filter.retain(|filter| *filter != TrafficFilter::default());
                    part
                })
                .collect();
            let steps = steps(&parts).unwrap();
            for _ in 0..100 {
                let version = [4, 6][below(state, 2)];
                let hosts = if version == 4 { &hosts[..] } else { &six[..] };
                let addresses = [hosts[below(state, 4)], hosts[below(state, 4)]];
                let protocol = [1, 6, 6, 17, 58][below(state, 5)];
                let is_later = version == 4 && below(state, 4) == 0;
                let ports = [(); 2].map(|()| [80, 443, 8040, 9][below(state, 4)]);
                let ports = (matches!(protocol, 6 | 17) && !is_later).then_some(ports);
                let subject = Subject { version, addresses, ports, protocol, traffic_class: 0 };
                let accepts = |filter: &Filter| {
                    let nobody = Profile::default();
                    let accepts = |one| matches(one, Direction::Downlink, &subject, &nobody);
                    accepts(filter) || accepts(&filter.reversed())
                };
                let of_part =
                    |part: &SendsApart| check::parts(&part.filter, "").unwrap().iter().any(accepts);
                let meant = parts.iter().position(of_part);
                let class = meant.map_or(0, |place| QUEUE | u32::from(super::of_part(place)));
                let frame = frame(&subject, below(state, 3), is_later);
                assert_eq!(run(&steps, &frame), class, "{subject:?} {parts:#?}");
                in_parts += usize::from(meant.is_some());
            }
        }
        assert!((3000..27000).contains(&in_parts), "{in_parts} of 30000 are in parts");
    }

    /// As many as an app may have, each with all there may be.
    #[test]
    fn the_longest_program_has_room() {
        use crate::limits::{SESSION_FILTERS_PER_APP_MAX, SESSION_PORTS_MAX};
        let ports: Vec<String> =
            (0..SESSION_PORTS_MAX).map(|port| format!("{port}-{}", port + 9)).collect();
        let filter = |number: usize| TrafficFilter {
            src_address: vec![format!("2001:db8::{number:x}")],
            dst_address: vec!["2001:db8:1:2:3:4:5:6".to_owned()],
            src_port: ports.clone(),
            dst_port: ports.clone(),
            protocol: vec!["TCP".to_owned()],
            ..TrafficFilter::default()
        };
        let part = |filter| SendsApart { filter: vec![filter], bps_max: 1 };
        let parts: Vec<_> = (0..SESSION_FILTERS_PER_APP_MAX).map(|one| part(filter(one))).collect();
        assert!(program(&parts).is_ok());
        let of_both = |filter: TrafficFilter| {
            part(TrafficFilter { src_address: Vec::new(), dst_address: Vec::new(), ..filter })
        };
        let parts: Vec<_> =
            (0..SESSION_FILTERS_PER_APP_MAX).map(|one| of_both(filter(one))).collect();
        assert!(program(&parts).is_ok());
    }

    #[test]
    fn what_a_host_is_told_and_cannot_do_it_says() {
        let of = |address: &str| {
            let filter =
                TrafficFilter { src_address: vec![address.to_owned()], ..TrafficFilter::default() };
            program(&[SendsApart { filter: vec![filter], bps_max: 1 }])
        };
        assert!(of("2001:db8::1-2001:db8::5").unwrap_err().contains("must be prefixes"));
        assert!(of("there").unwrap_err().contains("no address"));
        assert!(of("10.0.0.1-10.0.0.9").is_ok());
    }
}
