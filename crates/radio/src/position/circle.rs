//! Whether an estimate is in a circle, by what CAMARA's Device Location Verification makes of it.

/// How finely an estimate is cut: so many rings, each of so many parts.
const RINGS: u32 = 100;
const PARTS: u32 = 72;

/// What an area and an estimate have in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Overlap {
    /// The estimate is in the area.
    Whole,
    /// They do not meet.
    None,
    /// Some of it is: how likely the client is in the area, in percent from 1 to 99.
    Percent(u8),
}

/// Compares a circle with an estimate. Around the estimate's middle, so much of the probability, above 0 and below 1,
/// is within a radius; it is taken to be normally distributed, alike in all directions. `apart_m` is how far the two middles are apart.
pub fn overlap(apart_m: f64, area_m: f64, estimate_m: f64, confidence: f64) -> Overlap {
    if apart_m + estimate_m <= area_m {
        return Overlap::Whole;
    }
    if apart_m >= area_m + estimate_m {
        return Overlap::None;
    }
    // The radius that holds a share is σ √(−2 ln(1 − share)).
    let deviation_m = estimate_m / (-2.0 * (1.0 - confidence).ln()).sqrt();
    let mut within = 0;
    for ring in 0..RINGS {
        let share = (f64::from(ring) + 0.5) / f64::from(RINGS);
        let away_m = deviation_m * (-2.0 * (1.0 - share).ln()).sqrt();
        for part in 0..PARTS {
            let angle = (f64::from(part) + 0.5) / f64::from(PARTS) * std::f64::consts::TAU;
            let [x, y] = [apart_m + away_m * angle.cos(), away_m * angle.sin()];
            within += u32::from(x.hypot(y) <= area_m);
        }
    }
    let percent = f64::from(within) / f64::from(RINGS * PARTS) * 100.0;
    Overlap::Percent(percent.round().clamp(1.0, 99.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_in_an_area_or_beside_it_or_partly_in() {
        assert_eq!(overlap(100.0, 200.0, 100.0, 0.95), Overlap::Whole);
        assert_eq!(overlap(300.0, 200.0, 100.0, 0.95), Overlap::None);
        // Around the same middle and as large: the share itself.
        assert_eq!(overlap(0.01, 100.0, 100.0, 0.95), Overlap::Percent(95));
        assert_eq!(overlap(0.0, 50.0, 100.0, 0.5), Overlap::Percent(16));
        // The border of a large area through the middle: half of it.
        assert_eq!(overlap(100_000.0, 100_000.0, 100.0, 0.95), Overlap::Percent(50));
        assert_eq!(overlap(190.0, 100.0, 100.0, 0.95), Overlap::Percent(1));
        let rates = (0..20).map(|step| match overlap(f64::from(step) * 10.0, 100.0, 120.0, 0.9) {
            Overlap::Percent(rate) => rate,
            other => panic!("{other:?}"),
        });
        let rates: Vec<u8> = rates.collect();
        assert!(rates.is_sorted_by(|one, other| one >= other), "{rates:?}");
    }
}
