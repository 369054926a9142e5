//! Byte hit ratio over capacity, as points of a measurement or of an assumption.

use crate::quantity::{Data, Quantity};

/// A curve that never falls. Between points it is a straight line, from nothing to the first point
/// too; beyond the last point it stays, as nobody has measured there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    points: Vec<(Quantity<Data>, f64)>,
}

impl Curve {
    /// From points of rising capacity.
    ///
    /// # Errors
    /// The index of the first point whose capacity is not above, or whose ratio is below, that of the
    /// point before it.
    pub(crate) fn new(points: Vec<(Quantity<Data>, f64)>) -> Result<Self, usize> {
        let wrong = points.windows(2).position(|pair| match pair {
            [(low, less), (high, more)] => high <= low || more < less,
            _ => false,
        });
        wrong.map_or(Ok(Self { points }), |index| Err(index + 1))
    }

    /// The hit ratio of a capacity.
    pub(crate) fn at(&self, capacity: Quantity<Data>) -> f64 {
        let mut before = (Quantity::ZERO, 0.0);
        for &(high, ratio) in &self.points {
            if capacity <= high {
                let share = (capacity - before.0) / (high - before.0);
                return before.1 + (ratio - before.1) * share.clamp(0.0, 1.0);
            }
            before = (high, ratio);
        }
        before.1
    }

    /// The smallest capacity of a hit ratio; nothing where the curve does not reach it.
    pub(crate) fn capacity_for(&self, wanted: f64) -> Option<Quantity<Data>> {
        let mut before = (Quantity::ZERO, 0.0);
        for &(high, ratio) in &self.points {
            if wanted <= ratio {
                let rise = ratio - before.1;
                let share = if rise > 0.0 { (wanted - before.1).max(0.0) / rise } else { 0.0 };
                return Some(before.0 + (high - before.0) * share);
            }
            before = (high, ratio);
        }
        (wanted <= 0.0).then_some(Quantity::ZERO)
    }

    /// The largest capacity that has a point.
    pub(crate) fn end(&self) -> Quantity<Data> {
        self.points.last().map_or(Quantity::ZERO, |(capacity, _)| *capacity)
    }

    /// The points.
    pub(crate) fn points(&self) -> &[(Quantity<Data>, f64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tb(value: f64) -> Quantity<Data> {
        Quantity::of(value, "TB")
    }

    #[test]
    fn between_points_it_is_straight_and_beyond_it_stays() {
        let curve = Curve::new(vec![(tb(10.0), 0.8), (tb(20.0), 0.9)]).unwrap();
        assert!((curve.at(tb(5.0)) - 0.4).abs() < 1e-12);
        assert!((curve.at(tb(15.0)) - 0.85).abs() < 1e-12);
        assert_eq!(curve.at(tb(1000.0)), 0.9);
        assert_eq!(curve.capacity_for(0.95), None);
        assert_eq!(Curve::new(vec![(tb(2.0), 0.5), (tb(1.0), 0.6)]), Err(1));
        assert_eq!(Curve::new(vec![(tb(1.0), 0.5), (tb(2.0), 0.4)]), Err(1));
    }

    proptest! {
        #[test]
        fn more_capacity_never_misses_more(
            steps in prop::collection::vec((0.1f64..10.0, 0.0f64..0.1), 1..10),
            low in 0.0f64..120.0,
            more in 0.0f64..50.0,
        ) {
            let mut at = (0.0, 0.0);
            let points = steps.iter().map(|(capacity, ratio)| {
                at = (at.0 + capacity, at.1 + ratio);
                (tb(at.0), at.1)
            }).collect();
            let curve = Curve::new(points).unwrap();
            prop_assert!(curve.at(tb(low + more)) >= curve.at(tb(low)) - 1e-12);
            let reached = curve.at(tb(low));
            let back = curve.capacity_for(reached).unwrap();
            prop_assert!(back <= tb(low * (1.0 + 1e-9) + 1e-9));
            prop_assert!((curve.at(back) - reached).abs() < 1e-9);
        }
    }
}
