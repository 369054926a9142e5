//! Messages of PFCP, byte by byte as TS 29.244 lays them out.

#![allow(dead_code, reason = "tests, of which each uses a part of this")]

pub(crate) const SMF: [u8; 4] = [192, 0, 2, 1];
pub(crate) const UPF: [u8; 4] = [192, 0, 2, 2];

pub(crate) fn element(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

pub(crate) fn group(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    element(kind, &parts.concat())
}

pub(crate) fn message(kind: u8, seid: u64, sequence: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    let mut message = vec![0x21, kind];
    message.extend((content.len() as u16 + 12).to_be_bytes());
    message.extend(seid.to_be_bytes());
    message.extend(&sequence.to_be_bytes()[1..]);
    message.push(0);
    message.extend(content);
    message
}

/// A message that is of no session.
pub(crate) fn node_message(kind: u8, sequence: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    let mut message = vec![0x20, kind];
    message.extend((content.len() as u16 + 4).to_be_bytes());
    message.extend(&sequence.to_be_bytes()[1..]);
    message.push(0);
    message.extend(content);
    message
}

pub(crate) fn uplink_rule(f_teid: &[u8]) -> Vec<u8> {
    uplink_rule_with(f_teid, &[])
}

/// As [`uplink_rule`], with more elements that say which packets it is for.
pub(crate) fn uplink_rule_with(f_teid: &[u8], more: &[Vec<u8>]) -> Vec<u8> {
    let mut pdi = vec![
        element(20, &[0]),
        element(21, f_teid),
        element(93, &[2, 10, 45, 0, 2]),
        element(124, &[9]),
    ];
    pdi.extend_from_slice(more);
    group(1, &[element(56, &[0, 1]), group(2, &pdi), element(108, &[0, 0, 0, 1])])
}

/// A rule for packets from the data network of this name.
pub(crate) fn downlink_rule(instance: &[u8]) -> Vec<u8> {
    let pdi = [element(20, &[1]), element(22, instance), element(93, &[6, 10, 45, 0, 2])];
    group(1, &[element(56, &[0, 2]), group(2, &pdi), element(108, &[0, 0, 0, 2])])
}

pub(crate) fn downlink_action(kind: u16, inner: u16, with_interface: bool, teid: u8) -> Vec<u8> {
    downlink_to([10, 0, 0, 1], kind, inner, with_interface, teid)
}

pub(crate) fn downlink_to(
    [a, b, c, d]: [u8; 4],
    kind: u16,
    inner: u16,
    with_interface: bool,
    teid: u8,
) -> Vec<u8> {
    let mut forwarding = vec![element(84, &[1, 0, 0, 0, 0, teid, a, b, c, d])];
    if with_interface {
        forwarding.push(element(42, &[0]));
    }
    group(kind, &[element(108, &[0, 0, 0, 2]), group(inner, &forwarding)])
}

pub(crate) fn f_seid(seid: u64) -> Vec<u8> {
    element(57, &[&[2][..], &seid.to_be_bytes(), &UPF].concat())
}
