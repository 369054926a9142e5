//! Degrees of WGS 84 and metres: a plane that touches the earth, good to a metre in ten kilometres.

/// Metres of a degree of latitude, over a sphere.
const METRES_PER_DEGREE: f64 = 111_195.0;
/// Degrees of latitude that are left out at the poles, where longitudes meet.
const POLE_DEGREES: f64 = 0.1;

/// A plane around a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plane {
    origin: [f64; 2],
    longitude_m: f64,
}

impl Plane {
    /// Around latitude and longitude, in degrees.
    pub(crate) fn new(origin: [f64; 2]) -> Self {
        let most = 90.0 - POLE_DEGREES;
        let longitude_m = METRES_PER_DEGREE * origin[0].clamp(-most, most).to_radians().cos();
        Self { origin, longitude_m }
    }

    /// Metres to the east and to the north of latitude and longitude, the short way around.
    pub(crate) fn place_m(&self, [latitude, longitude]: [f64; 2]) -> [f64; 2] {
        let east = (longitude - self.origin[1] + 540.0).rem_euclid(360.0) - 180.0;
        [east * self.longitude_m, (latitude - self.origin[0]) * METRES_PER_DEGREE]
    }

    /// Latitude and longitude of metres to the east and to the north.
    pub(crate) fn degrees(&self, [east_m, north_m]: [f64; 2]) -> [f64; 2] {
        let latitude = (self.origin[0] + north_m / METRES_PER_DEGREE).clamp(-90.0, 90.0);
        let longitude = self.origin[1] + east_m / self.longitude_m;
        [latitude, (longitude + 540.0).rem_euclid(360.0) - 180.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance_m;

    #[test]
    fn a_plane_has_the_distances_of_the_earth() {
        for origin in [[60.17, 24.94], [-33.9, 179.999], [0.0, -180.0]] {
            let plane = Plane::new(origin);
            for place in [[0.0, 0.0], [3000.0, -4000.0], [-200.0, 150.0]] {
                let there = plane.degrees(place);
                let back = plane.place_m(there);
                assert!((0..2).all(|axis| (back[axis] - place[axis]).abs() < 1e-3), "{back:?}");
                let length_m = place[0].hypot(place[1]);
                assert!((distance_m(origin, there) - length_m).abs() <= 2.0, "{there:?}");
            }
        }
    }
}
