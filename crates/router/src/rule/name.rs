//! Names of servers in rules, and the addresses a resolver gave for them.

use super::AddressRange;
use super::wire::{State, TrafficRule};
use crate::dns;
use crate::packet::AddressOf;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Names that active rules may have in all.
pub const NAMES_MAX: usize = 64;

/// What is known of names; by default there is nobody to ask.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Names {
    /// Whether somebody is there to be asked.
    pub has_resolver: bool,
    /// Addresses of each name that was answered for, in small letters.
    pub known: BTreeMap<String, Vec<IpAddr>>,
}

/// An address that no packet has, so that a name without addresses matches nothing: `::`.
const NOBODY: AddressRange = AddressRange { first: 0, last: 0 };

impl Names {
    /// The ranges of a text, where it is a name.
    ///
    /// # Errors
    /// That nobody could be asked for it.
    pub(super) fn ranges(&self, text: &str) -> Option<Result<Vec<AddressRange>, String>> {
        if !dns::is_name(text) {
            return None;
        }
        if !self.has_resolver {
            return Some(Err(format!(
                "`{text}` is a name, and the configuration has no `resolver` to ask for it"
            )));
        }
        let known = self.known.get(&text.to_ascii_lowercase()).map_or(&[][..], Vec::as_slice);
        let range = |address: &IpAddr| {
            let number = AddressOf::from(*address).0;
            AddressRange { first: number, last: number }
        };
        let ranges: Vec<AddressRange> = known.iter().map(range).collect();
        Some(Ok(if ranges.is_empty() { vec![NOBODY] } else { ranges }))
    }
}

/// All names that active rules have, in small letters.
#[must_use]
pub fn wanted(rules: &[TrafficRule]) -> BTreeSet<String> {
    let filters = rules
        .iter()
        .filter(|rule| rule.state == State::Active)
        .flat_map(|rule| &rule.traffic_filter);
    let texts = filters.flat_map(|one| one.src_address.iter().chain(&one.dst_address));
    let names = texts.map(|text| text.trim()).filter(|text| dns::is_name(text));
    names.map(str::to_ascii_lowercase).collect()
}
