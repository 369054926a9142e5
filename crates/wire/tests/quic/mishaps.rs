//! What happens to a connection besides what becomes of each datagram: nothing comes through for a while, the
//! network gives the client another port, the client goes to another network, a machine sleeps.

use crate::world::{Dice, World};
use std::net::SocketAddr;
use std::time::Duration;

/// The most that happen to one connection, and when the last does.
const MISHAPS_MAX: u64 = 4;
const LAST_MS: u64 = 3000;

/// How long nothing comes through, and how long a machine sleeps, at most. Both sides wait longer.
const SILENCE_MS_MAX: u64 = 4000;
const SLEEP_MS_MAX: u64 = 4000;

/// How often a client says something that its network has given another port: it does not know that, and nothing else
/// would show where it is now.
const SPEAKS_EVERY: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
enum Mishap {
    Silence,
    SilenceEnds,
    Rebinding,
    Move,
    Sleep(Duration),
}

/// What is still to happen to a connection, by when: the last first.
pub(crate) struct Mishaps {
    left: Vec<(Duration, Mishap)>,
    /// When the client speaks next, once it has another port.
    speaks: Option<Duration>,
}

/// How often each kind happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) silences: u32,
    pub(crate) moves: u32,
    pub(crate) sleeps: u32,
}

impl Mishaps {
    /// Those of a seed, which may be none.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let mut mishaps = Vec::new();
        for _ in 0..dice.below(MISHAPS_MAX + 1) {
            let at = Duration::from_millis(dice.below(LAST_MS));
            let mishap = match dice.below(4) {
                0 => {
                    let end = at + Duration::from_millis(1 + dice.below(SILENCE_MS_MAX));
                    mishaps.push((end, Mishap::SilenceEnds));
                    Mishap::Silence
                }
                1 => Mishap::Rebinding,
                2 => Mishap::Move,
                _ => Mishap::Sleep(Duration::from_millis(1 + dice.below(SLEEP_MS_MAX))),
            };
            mishaps.push((at, mishap));
        }
        mishaps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self { left: mishaps, speaks: None }
    }

    /// Has those happen whose time has come.
    pub(crate) fn happen(&mut self, world: &mut World, counts: &mut Counts) {
        while let Some((_, mishap)) = self.left.pop_if(|(at, _)| *at <= world.now) {
            world.tell(format_args!("{mishap:?}"));
            match mishap {
                Mishap::Silence => {
                    world.is_cut = true;
                    counts.silences += 1;
                }
                Mishap::SilenceEnds => world.is_cut = false,
                Mishap::Rebinding | Mishap::Move => {
                    let is_known = world.server.as_ref().is_some_and(|it| it.is_established());
                    if world.client.is_handshaking() || !is_known {
                        continue;
                    }
                    counts.moves += 1;
                    world.client_address = next(world.client_address, mishap);
                    if matches!(mishap, Mishap::Move) {
                        world.client.local_address_changed();
                    } else {
                        self.speaks = Some(world.now + SPEAKS_EVERY);
                    }
                }
                Mishap::Sleep(time) => {
                    world.now += time;
                    counts.sleeps += 1;
                }
            }
        }
        if self.speaks.is_some_and(|at| at <= world.now) {
            self.speaks = Some(world.now + SPEAKS_EVERY);
            world.client.ping();
        }
        let next = self.left.last().map(|(at, _)| *at);
        world.alarm = [next, self.speaks].into_iter().flatten().min();
    }
}

/// Where a client is next: at another port, or in another network.
fn next(address: SocketAddr, mishap: Mishap) -> SocketAddr {
    match (mishap, address) {
        (Mishap::Move, SocketAddr::V4(address)) => {
            (std::net::Ipv4Addr::from_bits(address.ip().to_bits() + 0x100), address.port()).into()
        }
        _ => (address.ip(), address.port() + 1).into(),
    }
}
