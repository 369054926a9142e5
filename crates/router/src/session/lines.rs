//! Sessions as the kernel looks them up: lines of 32 bytes in an open table, so that a look-up
//! touches one cache line, now and then the next.
//!
//! Clients of one address, in several networks, begin in one place: the kernel knows only the address
//! until a line's tunnel agrees with the packet's.
//!
//! Only this side writes. A line is replaced while the kernel may be reading it, so that each carries
//! a checksum over itself; a line that does not agree with it is a miss for that one packet. Lines
//! never move: one that is removed stays marked as long as others may lie behind it.

use super::{Client, Session};
use crate::gtp::Form;
use std::collections::HashMap;

/// Bytes of a line.
pub const LINE_BYTES: usize = 32;
/// Lines looked at for one client. At a quarter full, one in a thousand million would need 32 where an
/// address is one client's, and one in some ten thousand all of these where it is sixteen's.
pub const PROBES_MAX: usize = 128;
/// Lines there are for each session.
pub const SPREAD: usize = 4;

const EMPTY: u64 = 0;
const REMOVED: u64 = 1;
const FACTORS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];

/// A line to be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Write {
    /// Its place.
    pub slot: u32,
    /// What it will hold.
    pub line: [u8; LINE_BYTES],
}

/// What a line says besides the session's own values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Numbers {
    /// Its path.
    pub path: u16,
    /// Its profile.
    pub profile: u16,
    /// Where its usage is counted.
    pub usage: u32,
}

/// The table's keys, as the kernel has them.
#[derive(Debug)]
pub struct Lines {
    keys: Vec<u64>,
    slots: HashMap<Client, u32>,
    seed: u64,
}

impl Lines {
    /// A table for `sessions` sessions. `seed` keeps others from choosing who meets whom in it.
    #[must_use]
    pub fn new(sessions: usize, seed: u64) -> Self {
        let lines = lines_for(sessions);
        Self { keys: vec![EMPTY; lines], slots: HashMap::new(), seed }
    }

    /// The line for a session, new or replaced; nothing when its part of the table is full.
    pub fn put(&mut self, session: &Session, numbers: Numbers) -> Option<Write> {
        let line = encode(session, numbers);
        if let Some(slot) = self.slots.get(&session.client) {
            return Some(Write { slot: *slot, line });
        }
        let slot = self.places(session.client).find(|slot| self.keys[*slot] <= REMOVED)?;
        self.keys[slot] = session.client.address;
        self.slots.insert(session.client, slot as u32);
        Some(Write { slot: slot as u32, line })
    }

    /// Takes over a line as it was found in the kernel; what it holds, if it holds a session.
    pub fn adopt(&mut self, slot: u32, line: &[u8; LINE_BYTES]) -> Option<Found> {
        let found = decode(line);
        let word: [u8; 8] = line[..8].try_into().expect("eight bytes");
        self.keys[slot as usize] = match u64::from_ne_bytes(word) {
            key if key <= REMOVED || found.is_some() => key,
            _ => REMOVED,
        };
        let found = found?;
        self.slots.insert(found.client, slot);
        Some(found)
    }

    /// The lines to write so that a session is no longer found.
    pub fn remove(&mut self, client: Client) -> Vec<Write> {
        let Some(slot) = self.slots.remove(&client) else { return Vec::new() };
        let mut slot = slot as usize;
        let next = (slot + 1) % self.keys.len();
        if self.keys[next] != EMPTY {
            self.keys[slot] = REMOVED;
            return vec![Write { slot: slot as u32, line: marked(REMOVED) }];
        }
        // Nothing lies behind: this line and the removed ones before it are free.
        let mut writes = Vec::new();
        self.keys[slot] = REMOVED;
        while self.keys[slot] == REMOVED {
            self.keys[slot] = EMPTY;
            writes.push(Write { slot: slot as u32, line: marked(EMPTY) });
            slot = (slot + self.keys.len() - 1) % self.keys.len();
        }
        writes
    }

    /// The line of a client, found as the kernel finds it.
    #[must_use]
    pub fn find(&self, client: Client) -> Option<u32> {
        for slot in self.places(client) {
            match self.keys[slot] {
                EMPTY => return None,
                _ if self.slots.get(&client) == Some(&(slot as u32)) => return Some(slot as u32),
                _ => {}
            }
        }
        None
    }

    fn places(&self, client: Client) -> impl Iterator<Item = usize> + use<> {
        let (start, lines) = (hash(client.address, self.seed) as usize, self.keys.len());
        (0..PROBES_MAX).map(move |step| (start.wrapping_add(step)) & (lines - 1))
    }
}

/// Lines of a table for so many sessions: a power of two.
#[must_use]
pub const fn lines_for(sessions: usize) -> usize {
    let lines = (sessions * SPREAD).next_power_of_two();
    if lines < PROBES_MAX * 2 { PROBES_MAX * 2 } else { lines }
}

/// Where the look-up of a key begins.
#[must_use]
pub const fn hash(key: u64, seed: u64) -> u64 {
    let mixed = (key ^ seed).wrapping_mul(FACTORS[0]);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(FACTORS[3]);
    mixed ^ mixed >> 32
}

/// A number that other text hardly has.
#[must_use]
pub fn hash_text(text: &str) -> u64 {
    text.bytes()
        .fold(text.len() as u64, |sum, byte| hash(sum << 8 ^ u64::from(byte) ^ sum >> 56, 0))
}

fn marked(key: u64) -> [u8; LINE_BYTES] {
    let mut line = [0; LINE_BYTES];
    line[..8].copy_from_slice(&key.to_ne_bytes());
    line
}

/// What a line holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// Whose session.
    pub client: Client,
    /// Identifiers of the tunnels from and to the client.
    pub teids: [u32; 2],
    /// QoS flow.
    pub qfi: u8,
    /// How its packets are wrapped.
    pub form: Form,
    /// What else it says.
    pub numbers: Numbers,
}

/// Reads a line; nothing where it holds no session, or half of one.
#[must_use]
pub fn decode(line: &[u8; LINE_BYTES]) -> Option<Found> {
    let word = |place: usize| {
        let word: [u8; 8] = line[place * 8..][..8].try_into().expect("eight bytes");
        u64::from_ne_bytes(word)
    };
    let words = [word(0), word(1), word(2), word(3) & 0xffff_ffff];
    if words[0] <= REMOVED || checksum(&words) != (word(3) >> 32) as u32 {
        return None;
    }
    Some(Found {
        client: Client { address: words[0], network: (words[3] >> 16) as u16 },
        teids: [words[1] as u32, (words[1] >> 32) as u32],
        qfi: words[3] as u8,
        form: match words[3] >> 8 & 0xff {
            0 => Form::Plain,
            1 => Form::Gtp,
            _ => Form::GtpContainer,
        },
        numbers: Numbers {
            path: (words[2] >> 32) as u16,
            profile: (words[2] >> 48) as u16,
            usage: words[2] as u32,
        },
    })
}

fn checksum(words: &[u64; 4]) -> u32 {
    let sum = words.iter().zip(FACTORS).map(|(word, factor)| word.wrapping_mul(factor));
    (sum.fold(0_u64, u64::wrapping_add) >> 32) as u32
}

fn encode(session: &Session, numbers: Numbers) -> [u8; LINE_BYTES] {
    let [up, down] = session.teids;
    let (path, profile) = (u64::from(numbers.path), u64::from(numbers.profile));
    let words = [
        session.client.address,
        u64::from(up) | u64::from(down) << 32,
        u64::from(numbers.usage) | path << 32 | profile << 48,
        u64::from(session.qfi)
            | (session.form as u64) << 8
            | u64::from(session.client.network) << 16,
    ];
    let mut line = [0; LINE_BYTES];
    for (place, word) in words.into_iter().enumerate() {
        line[place * 8..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    line[28..].copy_from_slice(&checksum(&words).to_ne_bytes());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Hop, Path};
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Two numbers that follow each other are one address in two networks.
    fn client(number: u64) -> Client {
        Client { address: 2 + number / 2, network: (number % 2) as u16 }
    }

    fn session(number: u64) -> Session {
        let hop = Hop { addresses: [[0; 6]; 2], tags: [[0; 2]; 2] };
        let path = Path { ends: [0; 2], hop };
        let client = client(number);
        Session { client, teids: [1, 2], qfi: 3, form: Form::Gtp, path }
    }

    proptest! {
        #[test]
        fn what_was_put_is_found_and_what_was_removed_is_not(
            steps in prop::collection::vec((2_u64..60, any::<bool>()), 1..400),
        ) {
            let mut lines = Lines::new(16, 7);
            let mut written = vec![0_u64; lines.keys.len()];
            let mut there = HashSet::new();
            let mut held = vec![marked(EMPTY); lines.keys.len()];
            for (number, puts) in steps {
                if puts && (there.contains(&number) || there.len() < 16) {
                    let write = lines.put(&session(number), Numbers::default());
                    let write = write.expect("a quarter full always has room here");
                    written[write.slot as usize] = client(number).address;
                    held[write.slot as usize] = write.line;
                    there.insert(number);
                } else if !puts {
                    for write in lines.remove(client(number)) {
                        let key = write.line[..8].try_into().expect("eight bytes");
                        written[write.slot as usize] = u64::from_ne_bytes(key);
                        held[write.slot as usize] = write.line;
                    }
                    there.remove(&number);
                }
                prop_assert_eq!(&written, &lines.keys);
                for number in 2..60 {
                    let found = lines.find(client(number));
                    prop_assert_eq!(found.is_some(), there.contains(&number));
                    let line = found.and_then(|slot| decode(&held[slot as usize]));
                    prop_assert_eq!(line.map(|line| line.client), found.map(|_| client(number)));
                }
            }
            // Who takes over finds the same.
            let mut taken = Lines::new(16, 7);
            for (slot, key) in lines.keys.iter().enumerate() {
                prop_assert_eq!(taken.adopt(slot as u32, &held[slot]).is_some(), *key > REMOVED);
            }
            prop_assert_eq!(&taken.keys, &lines.keys);
            prop_assert_eq!(&taken.slots, &lines.slots);
            for number in there {
                lines.remove(client(number));
            }
            let removed_only = lines.keys.iter().all(|key| *key <= REMOVED);
            prop_assert!(removed_only);
        }
    }
}
