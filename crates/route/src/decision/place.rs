//! Where something is on the Earth, and how far from something else.

use freshet_geo::{Code, File};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Mean radius of the Earth, in kilometres.
const EARTH_KM: f64 = 6371.0;

/// A place by latitude and longitude, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinates {
    latitude: f64,
    longitude: f64,
    /// The same as a point on a sphere of radius 1: the angle between two of them orders distances
    /// without trigonometry.
    point: [f64; 3],
}

impl Coordinates {
    /// The place at `latitude` (-90 to 90) and `longitude` (-180 to 180); `None` where there is none.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        if !((-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude)) {
            return None;
        }
        let (north, east) = (latitude.to_radians(), longitude.to_radians());
        let point = [north.cos() * east.cos(), north.cos() * east.sin(), north.sin()];
        Some(Self { latitude, longitude, point })
    }

    /// 1 at the same place, -1 at the opposite one.
    pub(super) fn nearness(&self, other: &Self) -> f64 {
        self.point.iter().zip(&other.point).map(|(a, b)| a * b).sum()
    }

    /// The way over the Earth, in kilometres.
    pub fn distance_km(&self, other: &Self) -> f64 {
        EARTH_KM * self.nearness(other).clamp(-1.0, 1.0).acos()
    }
}

/// Reads `48.14, 11.58`.
impl FromStr for Coordinates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (latitude, longitude) = text.split_once(',')?;
            Self::new(latitude.trim().parse().ok()?, longitude.trim().parse().ok()?)
        };
        let wrong = "is no place: write latitude and longitude in degrees, as \"48.14, 11.58\"";
        read().ok_or_else(|| format!("`{text}` {wrong}"))
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}, {:.2}", self.latitude, self.longitude)
    }
}

/// Who knows where an address is, for clients that no zone has.
pub trait Locate: Send + Sync {
    /// Where it is.
    fn locate(&self, client: IpAddr) -> Position;
}

/// Where an address is, as far as somebody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Its place.
    pub place: Option<Coordinates>,
    /// Its country.
    pub country: Option<Code>,
    /// Length of the prefix around it of which the same is known, also where that is nothing.
    pub network_bits: u8,
}

/// A MaxMind database, which is read again by itself when it changes.
impl Locate for File {
    fn locate(&self, client: IpAddr) -> Position {
        let found = self.database().location(client);
        let place = found.coordinates;
        Position {
            place: place.and_then(|(latitude, longitude)| Coordinates::new(latitude, longitude)),
            country: found.country,
            network_bits: found.network_bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_atlas() {
        let place = |text: &str| text.parse::<Coordinates>().unwrap();
        let (munich, tokyo) = (place("48.14,11.58"), place(" 35.68 , 139.69"));
        let km = munich.distance_km(&tokyo);
        assert!((9_300.0..9_450.0).contains(&km), "{km}");
        assert!(munich.distance_km(&munich) < 0.1);
        assert!(place("0,0").distance_km(&place("0,180")) > 20_000.0);
        for wrong in ["48.14", "91,0", "0,181", "x,0", "NaN,0", "inf,0", ""] {
            assert!(wrong.parse::<Coordinates>().is_err(), "{wrong}");
        }
    }
}
