//! Apps at the edge: what may be given packets, and where it is.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use thiserror::Error;

/// Apps a router may have.
pub const APPS_MAX: usize = 64;
/// Interfaces of all apps together: two of each.
pub const LEGS_MAX: usize = 2 * APPS_MAX;
/// Apps of kind tap among them.
pub const TAPS_MAX: usize = 8;

/// How an app gets packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Without tunnel, in place of the server.
    Breakout,
    /// As they came, in on one interface and out on the other.
    InLine,
    /// Copies.
    Tap {
        /// Without tunnel.
        decapsulated: bool,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Breakout => "for breakout",
            Self::InLine => "in-line",
            Self::Tap { decapsulated: false } => "a tap",
            Self::Tap { decapsulated: true } => "a tap without tunnels",
        })
    }
}

/// An interface towards an app.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leg {
    /// The host's end, by name.
    pub interface: String,
    /// The app's own address behind it.
    pub mac: [u8; 6],
}

/// An app.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct App {
    /// Its name in the configuration.
    pub name: String,
    /// How it gets packets.
    pub kind: Kind,
    /// One interface, or for in-line apps two: the client's side and the core's.
    pub legs: Vec<Leg>,
    /// Addresses rules may name it by.
    pub addresses: Vec<IpAddr>,
    /// The network whose clients it gets alone, 0 being the one without a name. An app for breakout has
    /// one where there are networks: what it answers says only an address.
    pub network: Option<u16>,
    /// Largest segment a client's TCP may be told the app takes, for IPv4 and IPv6; 0 leaves it.
    pub segment_bytes_max: [u16; 2],
}

/// Apps by their numbers, by which rules and the kernel know them: a number is an app's for as long as
/// there is that app.
#[derive(Clone, Debug, Default)]
pub struct Apps {
    places: Vec<Option<App>>,
    /// Numbers of taps, by their places among taps.
    taps: [Option<u8>; TAPS_MAX],
}

/// That there are as many apps, or taps, as there may be.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TooMany {
    /// Apps.
    #[error("{APPS_MAX} apps are the most")]
    Apps,
    /// Taps among them.
    #[error("{TAPS_MAX} taps are the most")]
    Taps,
}

/// Who has which number, to be given the same ones by another process.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Numbered {
    /// Names of apps, by number.
    pub apps: Vec<Option<String>>,
    /// Names of taps, by their places among taps.
    pub taps: Vec<Option<String>>,
}

impl Apps {
    /// These apps, of which those that had a number have it again.
    ///
    /// # Errors
    /// That they are too many.
    pub fn restored(apps: Vec<App>, known: &Numbered) -> Result<Self, TooMany> {
        let mut all = Self::default();
        let place = |list: &[Option<String>], app: &App, most: usize| {
            let had = |one: &Option<String>| one.as_ref() == Some(&app.name);
            list.iter().take(most).position(had)
        };
        let (known_ones, others): (Vec<_>, Vec<_>) =
            apps.into_iter().partition(|app| place(&known.apps, app, APPS_MAX).is_some());
        for app in known_ones {
            let number = place(&known.apps, &app, APPS_MAX).unwrap_or_default();
            if matches!(app.kind, Kind::Tap { .. })
                && let Some(slot) =
                    place(&known.taps, &app, TAPS_MAX).and_then(|at| all.taps.get_mut(at))
            {
                *slot = Some(number as u8);
            }
            if all.places.len() <= number {
                all.places.resize(number + 1, None);
            }
            all.places[number] = Some(app);
        }
        for app in others {
            all.put(app)?;
        }
        for number in 0..all.places.len() {
            all.give_tap(number as u8)?;
        }
        Ok(all)
    }

    /// Puts an app in place of the one of its name, or has one more; gives its number.
    ///
    /// # Errors
    /// That there are too many; then nothing has changed.
    pub fn put(&mut self, app: App) -> Result<u8, TooMany> {
        let free = || self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        let number = self.number(&app.name).map_or_else(free, usize::from);
        if number >= APPS_MAX {
            return Err(TooMany::Apps);
        }
        let is_tap = matches!(app.kind, Kind::Tap { .. });
        if is_tap && self.tap(number as u8).is_none() && self.taps.iter().all(Option::is_some) {
            return Err(TooMany::Taps);
        }
        if self.places.len() <= number {
            self.places.resize(number + 1, None);
        }
        self.places[number] = Some(app);
        self.give_tap(number as u8)?;
        Ok(number as u8)
    }

    /// Gives an app a place among taps if it is one, and takes it back if it is none.
    fn give_tap(&mut self, number: u8) -> Result<(), TooMany> {
        let is_tap = self.get(number).is_some_and(|app| matches!(app.kind, Kind::Tap { .. }));
        match (is_tap, self.tap(number)) {
            (true, None) => {
                let free = self.taps.iter_mut().find(|one| one.is_none());
                *free.ok_or(TooMany::Taps)? = Some(number);
            }
            (false, Some(place)) => self.taps[usize::from(place)] = None,
            _ => {}
        }
        Ok(())
    }

    /// Takes an app out; its number is free.
    pub fn remove(&mut self, number: u8) -> Option<App> {
        if let Some(place) = self.tap(number) {
            self.taps[usize::from(place)] = None;
        }
        self.places.get_mut(usize::from(number))?.take()
    }

    /// The app of a number.
    #[must_use]
    pub fn get(&self, number: u8) -> Option<&App> {
        self.places.get(usize::from(number))?.as_ref()
    }

    /// The number of an app.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u8> {
        self.iter().find(|(_, app)| app.name == name).map(|(number, _)| number)
    }

    /// The place of an app among taps.
    #[must_use]
    pub fn tap(&self, number: u8) -> Option<u16> {
        self.taps.iter().position(|one| *one == Some(number)).map(|place| place as u16)
    }

    /// All of them, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &App)> {
        let apps = self.places.iter().enumerate();
        apps.filter_map(|(number, app)| Some((number as u8, app.as_ref()?)))
    }

    /// Who has which number.
    #[must_use]
    pub fn numbered(&self) -> Numbered {
        let name = |number: u8| self.get(number).map(|app| app.name.clone());
        Numbered {
            apps: (0..self.places.len()).map(|number| name(number as u8)).collect(),
            taps: self.taps.iter().map(|one| one.and_then(name)).collect(),
        }
    }
}

/// A MAC address from text such as `02:00:00:00:00:01`.
#[must_use]
pub fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split([':', '-']);
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// A MAC address as text.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn app() -> App {
        App {
            name: "cache".to_owned(),
            kind: Kind::Breakout,
            legs: vec![Leg { interface: "leg0".to_owned(), mac: [2, 0, 0, 0, 0, 9] }],
            addresses: vec!["203.0.113.10".parse().expect("an address")],
            network: None,
            segment_bytes_max: [0; 2],
        }
    }

    fn named(name: &str, kind: Kind) -> App {
        App { name: name.to_owned(), kind, ..app() }
    }

    #[test]
    fn an_app_has_its_number_for_as_long_as_it_is_there() {
        let tap = Kind::Tap { decapsulated: false };
        let mut apps = Apps::default();
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            assert_eq!(apps.put(named(name, tap)), Ok(number as u8));
        }
        assert_eq!(apps.remove(1).map(|app| app.name), Some("b".to_owned()));
        assert_eq!((apps.number("c"), apps.tap(2), apps.get(1)), (Some(2), Some(2), None));
        // In another process, whatever the order; one that is new gets what is free.
        let names = ["new", "c", "a"].map(|name| named(name, tap)).to_vec();
        let again = Apps::restored(names, &apps.numbered()).expect("they are few");
        let numbers = ["a", "new", "c"].map(|name| again.number(name));
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        assert_eq!([0, 1, 2].map(|number| again.tap(number)), [Some(0), Some(1), Some(2)]);
        // One that becomes something else is no tap any more.
        assert_eq!(apps.put(named("c", Kind::Breakout)), Ok(2));
        assert_eq!((apps.tap(2), apps.put(named("d", tap))), (None, Ok(1)));
    }

    #[test]
    fn too_many_are_refused_and_change_nothing() {
        let mut apps = Apps::default();
        for number in 0..APPS_MAX {
            let kind =
                if number < TAPS_MAX { Kind::Tap { decapsulated: true } } else { Kind::Breakout };
            apps.put(named(&number.to_string(), kind)).expect("there is room");
        }
        assert_eq!(apps.put(named("more", Kind::Breakout)), Err(TooMany::Apps));
        let last = (APPS_MAX - 1).to_string();
        let tap = named(&last, Kind::Tap { decapsulated: false });
        assert_eq!(apps.put(tap), Err(TooMany::Taps));
        assert_eq!(apps.iter().last().map(|(_, app)| app.kind), Some(Kind::Breakout));
    }

    #[test]
    fn macs_are_read_and_written() {
        assert_eq!(mac_of("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(mac_text([2, 0, 0, 0, 0, 10]), "02:00:00:00:00:0a");
        for wrong in
            ["", "02:00:00:00:00", "02:00:00:00:00:0a:0b", "2:0:0:0:0:a", "zz:00:00:00:00:00"]
        {
            assert_eq!(mac_of(wrong), None, "{wrong}");
        }
    }
}
