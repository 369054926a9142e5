//! Where clients have to be, by coordinates (the claim `catgeocoord` of CTA-5007).

use super::claims::number_of;
use crate::denied::Denied;
use crate::limits::ENTRIES_MAX;
use ciborium::Value;

/// Tag of CBOR for coordinates with their system, of which WGS 84 is the one that is known here.
const SYSTEM: u64 = 279;
const WGS_84: i128 = 0;

/// Mean radius of the earth (IUGG).
const EARTH_M: f64 = 6_371_008.8;

/// A place and what is around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Circle {
    latitude: f64,
    longitude: f64,
    radius_m: f64,
}

impl Circle {
    /// Reads one or more `[latitude, longitude, radius]`, in degrees and metres.
    pub(super) fn all(value: &Value) -> Result<Vec<Self>, Denied> {
        let value = match value {
            Value::Tag(SYSTEM, inner) => match inner.as_array().map(Vec::as_slice) {
                Some([Value::Integer(system), value]) if i128::from(*system) == WGS_84 => value,
                Some([_, _]) => return Err(Denied::Claim),
                _ => return Err(Denied::Malformed),
            },
            value => value,
        };
        let Value::Array(all) = value else { return Err(Denied::Malformed) };
        if all.is_empty() || all.len() > ENTRIES_MAX {
            return Err(Denied::Malformed);
        }
        // One alone may stand without a list around it.
        if all.first().is_some_and(|first| !first.is_array()) {
            return Ok(vec![Self::one(all)?]);
        }
        all.iter().map(|one| Self::one(one.as_array().ok_or(Denied::Malformed)?)).collect()
    }

    fn one(parts: &[Value]) -> Result<Self, Denied> {
        let [latitude, longitude, radius] = parts else { return Err(Denied::Malformed) };
        let (latitude, longitude) = (number_of(latitude)?, number_of(longitude)?);
        let radius_m = number_of(radius)?;
        let is_one = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && radius_m >= 0.0;
        if is_one { Ok(Self { latitude, longitude, radius_m }) } else { Err(Denied::Malformed) }
    }

    /// Whether a place is in it, along the surface of a sphere.
    pub(super) fn has(&self, (latitude, longitude): (f64, f64)) -> bool {
        let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
        let (here, there) = (self.latitude.to_radians().cos(), latitude.to_radians().cos());
        let haversine =
            half(self.latitude, latitude) + here * there * half(self.longitude, longitude);
        2.0 * EARTH_M * haversine.clamp(0.0, 1.0).sqrt().asin() <= self.radius_m
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_go_around_the_earth() {
        let (graz, vienna, suva, apia) =
            ((47.0707, 15.4395), (48.2082, 16.3738), (-18.1416, 178.4419), (-13.8333, -171.7667));
        let around = |(latitude, longitude), radius_m| Circle { latitude, longitude, radius_m };
        // 144.6 km, and over the date line 1,149 km.
        assert!(around(graz, 146_000.0).has(vienna) && !around(graz, 143_000.0).has(vienna));
        assert!(around(suva, 1_160_000.0).has(apia) && !around(suva, 1_130_000.0).has(apia));
        assert!(around(graz, 0.0).has(graz) && around((90.0, 0.0), 1.0).has((90.0, 180.0)));
        assert!(around((0.0, 0.0), 20_020_000.0).has((0.0, 180.0)));
        assert!(!around(graz, f64::MAX).has((f64::NAN, 0.0)));
    }
}
