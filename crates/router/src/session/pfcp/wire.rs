//! How messages of PFCP are written: heads, elements within elements, and what the elements read here have.

use super::many::Set;
use crate::packet::mapped;
use crate::session::Client;
use crate::session::network::NAME_BYTES_MAX;

/// Longest name of a node, in bytes: one of DNS, and its kind.
const NODE_BYTES_MAX: usize = 256;
/// A flag of the head of a message: another one follows in the same packet.
const FOLLOWED: u8 = 4;

/// Kinds of elements.
pub(super) mod element {
    pub(in crate::session::pfcp) const CREATE_PDR: u16 = 1;
    pub(in crate::session::pfcp) const PDI: u16 = 2;
    pub(in crate::session::pfcp) const CREATE_FAR: u16 = 3;
    pub(in crate::session::pfcp) const FORWARDING: u16 = 4;
    pub(in crate::session::pfcp) const CREATE_QER: u16 = 7;
    pub(in crate::session::pfcp) const CREATED_PDR: u16 = 8;
    pub(in crate::session::pfcp) const UPDATE_PDR: u16 = 9;
    pub(in crate::session::pfcp) const UPDATE_FAR: u16 = 10;
    pub(in crate::session::pfcp) const UPDATE_FORWARDING: u16 = 11;
    pub(in crate::session::pfcp) const REMOVE_PDR: u16 = 15;
    pub(in crate::session::pfcp) const REMOVE_FAR: u16 = 16;
    pub(in crate::session::pfcp) const CAUSE: u16 = 19;
    pub(in crate::session::pfcp) const SOURCE_INTERFACE: u16 = 20;
    pub(in crate::session::pfcp) const F_TEID: u16 = 21;
    pub(in crate::session::pfcp) const NETWORK_INSTANCE: u16 = 22;
    pub(in crate::session::pfcp) const DESTINATION_INTERFACE: u16 = 42;
    pub(in crate::session::pfcp) const PDR_ID: u16 = 56;
    pub(in crate::session::pfcp) const F_SEID: u16 = 57;
    pub(in crate::session::pfcp) const NODE: u16 = 60;
    pub(in crate::session::pfcp) const SETS: u16 = 65;
    pub(in crate::session::pfcp) const OUTER_HEADER_CREATION: u16 = 84;
    pub(in crate::session::pfcp) const UE_ADDRESS: u16 = 93;
    pub(in crate::session::pfcp) const RECOVERY_TIME_STAMP: u16 = 96;
    pub(in crate::session::pfcp) const FAR_ID: u16 = 108;
    pub(in crate::session::pfcp) const QFI: u16 = 124;
    pub(in crate::session::pfcp) const SET_UP_FLAGS: u16 = 184;
}

pub(super) struct Message<'a> {
    pub(super) kind: u8,
    pub(super) seid: u64,
    pub(super) sequence: u32,
    pub(super) elements: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a message, and gives what comes after it where it says that another one follows (§7.2.2.1).
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, Option<&'a [u8]>)> {
        let (flags, kind) = (*bytes.first()?, *bytes.get(1)?);
        let length = usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
        let (whole, after) = bytes.get(4..)?.split_at_checked(length)?;
        let after = Some(after).filter(|_| flags & FOLLOWED != 0);
        if flags >> 5 != 1 {
            return None;
        }
        let (seid, rest) =
            if flags & 1 == 1 { (be(whole.get(..8)?), whole.get(8..)?) } else { (0, whole) };
        let sequence = be(rest.get(..3)?) as u32;
        let elements = rest.get(4..)?;
        is_whole(elements).then_some((Self { kind, seid, sequence, elements }, after))
    }
}

pub(super) fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (kind, length) = (be(rest.get(..2)?) as u16, be(rest.get(2..4)?) as usize);
        let value = rest.get(4..4 + length)?;
        rest = &rest[4 + length..];
        Some((kind, value))
    })
}

/// Whether the elements fill the list.
pub(super) fn is_whole(list: &[u8]) -> bool {
    elements(list).map(|(_, value)| 4 + value.len()).sum::<usize>() == list.len()
}

pub(super) fn find(list: &[u8], wanted: u16) -> Option<&[u8]> {
    elements(list).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn address4(bytes: &[u8]) -> Option<u128> {
    Some(mapped(be(bytes.get(..4)?) as u32))
}

fn address6(bytes: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(bytes.get(..16)?.try_into().ok()?))
}

/// F-TEID, §8.2.3. The outer nothing is an error, the inner one that the user plane is to choose.
pub(super) fn f_teid(value: &[u8]) -> Option<Option<(u32, u128)>> {
    let flags = *value.first()?;
    if flags & 4 != 0 {
        return Some(None);
    }
    let teid = be(value.get(1..5)?) as u32;
    let address =
        if flags & 1 != 0 { address4(value.get(5..)?)? } else { address6(value.get(5..)?)? };
    Some(Some((teid, address)))
}

/// Outer Header Creation, §8.2.56; the inner nothing is one without GTP-U.
pub(super) fn outer_header(value: &[u8]) -> Option<Option<(u32, u128)>> {
    let kinds = *value.first()?;
    if kinds & 3 == 0 {
        return Some(None);
    }
    let teid = be(value.get(2..6)?) as u32;
    let address =
        if kinds & 1 != 0 { address4(value.get(6..)?)? } else { address6(value.get(6..)?)? };
    Some(Some((teid, address)))
}

/// Network Instance, §8.2.4: a name, or one in labels (TS 23.003, §9.1). What is neither tells nothing.
pub(super) fn instance_of(value: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    let mut rest = value;
    while let Some((length, more)) = rest.split_first() {
        let Some((label, after)) = more.split_at_checked(usize::from(*length)) else { break };
        if label.is_empty() || !label.iter().all(u8::is_ascii_graphic) {
            break;
        }
        labels.push(label);
        rest = after;
    }
    let text = if rest.is_empty() { labels.join(&b'.') } else { value.to_vec() };
    let text = String::from_utf8(text).ok()?;
    (!text.is_empty() && text.len() <= NAME_BYTES_MAX).then_some(text)
}

/// UE IP Address, §8.2.62: an address of each version at most.
pub(super) fn clients(value: &[u8]) -> Option<Vec<Client>> {
    let flags = *value.first()?;
    let (mut found, mut at) = (Vec::new(), 1);
    if flags & 2 != 0 {
        found.extend(Client::of(address4(value.get(at..)?)?));
        at += 4;
    }
    if flags & 1 != 0 {
        found.extend(Client::of(address6(value.get(at..)?)?));
    }
    Some(found)
}

/// Control plane's or user plane's F-SEID, §8.2.37.
pub(super) fn seid_of(list: &[u8]) -> Option<u64> {
    Some(be(find(list, element::F_SEID)?.get(1..9)?))
}

/// Node ID, §8.2.38: an address or a name, as it is.
pub(super) fn node_of(list: &[u8]) -> Option<&[u8]> {
    find(list, element::NODE).filter(|value| (2..=NODE_BYTES_MAX).contains(&value.len()))
}

/// FQ-CSID, §8.2.50: sets of a node. One of a kind that is not known names none.
pub(super) fn sets_of(value: &[u8]) -> Option<Vec<Set>> {
    let (first, rest) = value.split_first()?;
    let (kind, many) = (first >> 4, usize::from(first & 15));
    let address_bytes = match kind {
        0 | 2 => 4,
        1 => 16,
        _ => return Some(Vec::new()),
    };
    let (address, numbers) = rest.split_at_checked(address_bytes)?;
    let mut node = [0; 17];
    node[0] = kind;
    node[1..=address_bytes].copy_from_slice(address);
    let numbers = numbers.get(..many * 2)?.chunks_exact(2);
    Some(numbers.map(|number| Set { node, number: be(number) as u16 }).collect())
}
