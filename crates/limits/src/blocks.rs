//! Networks that get nothing until a time.

use crate::error::LimitError;
use crate::limits::{BLOCKS_MAX, WHY_BYTES_MAX};
use crate::network::Prefix;
use hashbrown::{Equivalent, HashMap};
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One blocked network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Block {
    /// The network.
    pub network: Prefix,
    /// The only site it is blocked at; `None` for the whole node.
    pub site: Option<Arc<str>>,
    /// Until when, in milliseconds of Unix time.
    pub until_ms: u64,
    /// Who blocked it, and why.
    pub cause: Cause,
}

/// Why a network is blocked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cause {
    /// Somebody said so, with these words.
    Asked(Arc<str>),
    /// It went beyond this limit too often.
    Limit(Arc<str>),
}

/// The list. It is read for each request once it is not empty, and written seldom.
#[derive(Debug, Default)]
pub struct Blocks {
    len: AtomicUsize,
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Place, (u64, Cause), RandomState>,
    /// How many entries there are of each length of prefix: those are looked up.
    lengths: BTreeMap<u8, usize>,
    /// When those that are over were last taken out of a full list.
    cleaned_ms: u64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Place {
    network: Prefix,
    site: Option<Arc<str>>,
}

#[derive(Hash)]
struct Wanted<'a> {
    network: Prefix,
    site: Option<&'a str>,
}

impl Equivalent<Place> for Wanted<'_> {
    fn equivalent(&self, key: &Place) -> bool {
        self.network == key.network && self.site == key.site.as_deref()
    }
}

/// A full list is cleaned of what is over as often as this: it walks all of it.
const CLEAN_EVERY_MS: u64 = 1000;

impl Blocks {
    /// How many there are, with those that are over and not yet taken out.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether nobody is blocked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block that holds for an address, at a site or at connecting (`None`). O(lengths of prefix
    /// in use); a load where the list is empty.
    pub fn find(&self, address: IpAddr, site: Option<&str>, now_ms: u64) -> Option<Block> {
        if self.is_empty() {
            return None;
        }
        let inner = self.read();
        for length in inner.lengths.keys().rev() {
            let network = Prefix::first(address, *length);
            let sites = [None, site];
            for site in &sites[..1 + usize::from(site.is_some())] {
                let wanted = Wanted { network, site: *site };
                if let Some((place, (until_ms, cause))) = inner.entries.get_key_value(&wanted)
                    && now_ms < *until_ms
                {
                    return Some(block(place, *until_ms, cause));
                }
            }
        }
        None
    }

    /// Blocks a network, or changes how long it is blocked. A rule never shortens what is there.
    ///
    /// # Errors
    /// [`LimitError::BlocksFull`]
    pub fn add(&self, block: Block, now_ms: u64) -> Result<(), LimitError> {
        let mut inner = self.write();
        let Block { network, site, until_ms, mut cause } = block;
        if let Cause::Asked(why) = &mut cause
            && why.len() > WHY_BYTES_MAX
        {
            *why = why[..why.floor_char_boundary(WHY_BYTES_MAX)].into();
        }
        let place = Place { network, site };
        if let Some((known, _)) = inner.entries.get(&place)
            && matches!(cause, Cause::Limit(_))
            && *known >= until_ms
        {
            return Ok(());
        }
        if inner.entries.len() >= BLOCKS_MAX && !inner.entries.contains_key(&place) {
            if now_ms.abs_diff(inner.cleaned_ms) >= CLEAN_EVERY_MS {
                inner.cleaned_ms = now_ms;
                inner.clean(now_ms);
            }
            if inner.entries.len() >= BLOCKS_MAX {
                self.len.store(inner.entries.len(), Relaxed);
                return Err(LimitError::BlocksFull);
            }
        }
        if inner.entries.insert(place, (until_ms, cause)).is_none() {
            *inner.lengths.entry(network.length()).or_default() += 1;
        }
        self.len.store(inner.entries.len(), Relaxed);
        Ok(())
    }

    /// Lets a network in again, at one site or, where it was blocked there, at the whole node.
    /// Whether it was blocked.
    pub fn remove(&self, network: Prefix, site: Option<&str>) -> bool {
        let mut inner = self.write();
        let was_there = inner.entries.remove(&Wanted { network, site }).is_some();
        if was_there {
            inner.forget(network.length());
        }
        self.len.store(inner.entries.len(), Relaxed);
        was_there
    }

    /// Takes out what is over.
    pub fn clean(&self, now_ms: u64) {
        if !self.is_empty() {
            let mut inner = self.write();
            inner.clean(now_ms);
            self.len.store(inner.entries.len(), Relaxed);
        }
    }

    /// What holds now, by network.
    pub fn list(&self, now_ms: u64) -> Vec<Block> {
        let inner = self.read();
        let in_force = inner.entries.iter().filter(|(_, (until_ms, _))| now_ms < *until_ms);
        let mut all: Vec<_> =
            in_force.map(|(place, (until_ms, cause))| block(place, *until_ms, cause)).collect();
        all.sort_unstable_by(|a, b| (a.network, &a.site).cmp(&(b.network, &b.site)));
        all
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn clean(&mut self, now_ms: u64) {
        self.entries.retain(|_, (until_ms, _)| now_ms < *until_ms);
        self.lengths.clear();
        for place in self.entries.keys() {
            *self.lengths.entry(place.network.length()).or_default() += 1;
        }
    }

    fn forget(&mut self, length: u8) {
        if let Some(many) = self.lengths.get_mut(&length) {
            *many -= 1;
            if *many == 0 {
                self.lengths.remove(&length);
            }
        }
    }
}

fn block(place: &Place, until_ms: u64, cause: &Cause) -> Block {
    let Place { network, site } = place;
    Block { network: *network, site: site.clone(), until_ms, cause: cause.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(network: &str, site: Option<&str>, until_ms: u64) -> Block {
        let network = network.parse().unwrap();
        Block { network, site: site.map(Into::into), until_ms, cause: Cause::Asked("".into()) }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_holds_for_its_network_its_site_and_its_time() {
        let blocks = Blocks::default();
        blocks.add(asked("192.0.2.0/24", Some("a"), 100), 0).unwrap();
        blocks.add(asked("2001:db8::/32", None, 50), 0).unwrap();
        let client = address("192.0.2.9");
        assert!(blocks.find(client, Some("a"), 99).is_some());
        for (site, now_ms) in [(Some("a"), 100), (Some("b"), 0), (None, 0)] {
            assert_eq!(blocks.find(client, site, now_ms), None, "{site:?} {now_ms}");
        }
        assert!(blocks.find(address("2001:db8::1"), Some("b"), 49).is_some());
        assert!(blocks.find(address("2001:db8::1"), None, 49).is_some());
        assert_eq!(blocks.list(60).len(), 1);
        blocks.clean(60);
        assert_eq!(blocks.len(), 1);
        assert!(!blocks.remove("192.0.2.0/24".parse().unwrap(), None));
        assert!(blocks.remove("192.0.2.0/24".parse().unwrap(), Some("a")));
        assert!(blocks.is_empty());
    }

    #[test]
    fn a_rule_does_not_shorten_what_a_person_said() {
        let blocks = Blocks::default();
        blocks.add(asked("192.0.2.1", None, 1000), 0).unwrap();
        let by_rule = Block { cause: Cause::Limit("l".into()), ..asked("192.0.2.1", None, 10) };
        blocks.add(by_rule, 0).unwrap();
        assert_eq!(blocks.list(0)[0].until_ms, 1000);
        blocks.add(asked("192.0.2.1", None, 5), 0).unwrap();
        assert_eq!(blocks.list(0)[0].until_ms, 5);
    }

    #[test]
    fn a_full_list_takes_no_more_until_some_are_over() {
        let blocks = Blocks::default();
        for number in 0..BLOCKS_MAX as u32 {
            let network = Prefix::from(std::net::Ipv4Addr::from_bits(number));
            let until_ms = if number == 7 { 2000 } else { 9000 };
            let cause = Cause::Limit("l".into());
            blocks.add(Block { network, site: None, until_ms, cause }, 0).unwrap();
        }
        let one_more = || asked("203.0.113.1", None, 9000);
        assert_eq!(blocks.add(one_more(), 1500), Err(LimitError::BlocksFull));
        assert_eq!(blocks.add(one_more(), 2400), Err(LimitError::BlocksFull), "just cleaned");
        assert_eq!(blocks.add(one_more(), 2500), Ok(()));
        assert_eq!(blocks.len(), BLOCKS_MAX);
        // What is there can always be changed.
        assert_eq!(blocks.add(asked("0.0.0.1", None, 1), 2500), Ok(()));
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let blocks = Blocks::default();
        let cause = Cause::Asked("é".repeat(WHY_BYTES_MAX).into());
        blocks.add(Block { cause, ..asked("192.0.2.1", None, 9) }, 0).unwrap();
        let Cause::Asked(why) = &blocks.list(0)[0].cause else { panic!() };
        assert_eq!(why.len(), WHY_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn the_list_is_what_a_walk_over_all_blocks_says(
            steps in proptest::collection::vec(
                (any::<bool>(), 0_u32..16, 24_u8..=32, 0_usize..3, 1_u64..100), 0..60),
            asks in proptest::collection::vec((0_u32..16, 0_usize..3, 0_u64..100), 1..20),
        ) {
            let sites = [None, Some("a"), Some("b")];
            let blocks = Blocks::default();
            let mut model: Vec<Block> = Vec::new();
            for (adds, host, length, site, until_ms) in steps {
                let address = IpAddr::from(std::net::Ipv4Addr::from_bits(host << 4));
                let network = Prefix::first(address, 96 + length);
                let site = sites[site];
                model.retain(|block| !(block.network == network && block.site.as_deref() == site));
                if adds {
                    let cause = Cause::Asked("".into());
                    let block = Block { network, site: site.map(Into::into), until_ms, cause };
                    blocks.add(block.clone(), 0).unwrap();
                    model.push(block);
                } else {
                    blocks.remove(network, site);
                }
            }
            prop_assert_eq!(blocks.len(), model.len());
            for (host, site, now_ms) in asks {
                let address = IpAddr::from(std::net::Ipv4Addr::from_bits(host << 4));
                let expected = model.iter().any(|block| {
                    block.network.contains(address) && now_ms < block.until_ms
                        && (block.site.is_none() || block.site.as_deref() == sites[site])
                });
                prop_assert_eq!(blocks.find(address, sites[site], now_ms).is_some(), expected);
            }
        }
    }
}
