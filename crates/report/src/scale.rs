//! From values to places on an axis, and the ticks in between.

use crate::number;
use crate::plot::Scale;

/// No axis shows more ticks, whatever it is asked for.
const TICKS_MAX: usize = 40;
/// Values beyond are not drawn: differences of two of them must stay finite.
const VALUE_MAX: f64 = 1e100;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Where, as a share of the axis from its low end (0) to its high end (1).
    pub(crate) at: f64,
    /// What it says.
    pub(crate) label: String,
}

/// An axis with its two ends and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mapping {
    kind: Kind,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    Percentile,
}

impl Mapping {
    /// An axis that holds all of `values` with about `ticks_wanted` ticks. `is_rounded` moves its
    /// ends out to ticks; a linear axis begins at zero where that costs less than half of it, or
    /// where `has_zero` says so.
    pub(crate) fn new(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        ticks_wanted: usize,
        is_rounded: bool,
        has_zero: bool,
    ) -> Self {
        match scale {
            Scale::Linear => Self::linear(values, ticks_wanted, is_rounded, has_zero),
            Scale::Log => Self::log(values, ticks_wanted, is_rounded),
        }
    }

    fn linear(
        values: impl Iterator<Item = f64>,
        ticks_wanted: usize,
        is_rounded: bool,
        has_zero: bool,
    ) -> Self {
        let (mut low, mut high) =
            ends(values.filter(|v| v.abs() <= VALUE_MAX)).unwrap_or((0.0, 1.0));
        if has_zero || (low > 0.0 && low < high / 2.0) {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if high - low <= high.abs().max(low.abs()) * 1e-9 {
            let room = if high == 0.0 { 1.0 } else { high.abs() / 2.0 };
            (low, high) = (low - room, high + room);
        }
        let step = nice_step((high - low) / ticks_wanted.max(1) as f64);
        if is_rounded {
            low = (low / step + 1e-9).floor() * step;
            high = (high / step - 1e-9).ceil() * step;
        }
        let first = (low / step - 1e-9).ceil();
        let count = (((high / step + 1e-9).floor() - first) as usize + 1).min(TICKS_MAX);
        let labels = Labels::new(step, high.abs().max(low.abs()));
        let ticks = (0..count)
            .map(|index| (first + index as f64) * step)
            .map(|value| Tick { at: (value - low) / (high - low), label: labels.of(value) })
            .collect();
        Self { kind: Kind::Linear, low, high, ticks }
    }

    fn log(values: impl Iterator<Item = f64>, ticks_wanted: usize, is_rounded: bool) -> Self {
        let positive = values.filter(|v| *v > 1.0 / VALUE_MAX && *v <= VALUE_MAX);
        let (mut low, mut high) =
            ends(positive).map_or((0.0, 1.0), |(low, high)| (low.log10(), high.log10()));
        if high - low < 0.3 {
            (low, high) = (low - 0.2, high + 0.2);
        }
        // Within few decades 2 and 5 get ticks too; over many, every n-th decade only.
        let steps: &[f64] =
            if (high - low) * 3.0 <= ticks_wanted as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let stride = ((high - low) / ticks_wanted.max(1) as f64).ceil().max(1.0);
        if is_rounded {
            (low, high) = (down_to(low, steps), up_to(high, steps));
        }
        let mut ticks = Vec::new();
        let mut decade = (low / stride).floor() * stride;
        while decade <= high + 1e-9 && ticks.len() < TICKS_MAX {
            for step in steps {
                let value = decade + step.log10();
                if value >= low - 1e-9 && value <= high + 1e-9 {
                    let at = (value - low) / (high - low);
                    ticks.push(Tick { at, label: lone_label(step * 10f64.powf(decade)) });
                }
            }
            decade += stride;
        }
        Self { kind: Kind::Log, low, high, ticks }
    }

    /// The axis of percentiles: each further nine takes the same room. 100, the largest value, has
    /// the last place, beyond the percentiles.
    pub(crate) fn percentiles(values: impl Iterator<Item = f64>, ticks_wanted: usize) -> Self {
        const NAMED: [f64; 9] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999];
        // Room for the largest value, as a share of that for one nine.
        const BEYOND: f64 = 0.5;
        let values: Vec<f64> = values.collect();
        let last = values.iter().map(|p| nines(*p)).filter(|n| n.is_finite()).fold(1.0, f64::max);
        let has_largest = values.iter().any(|percentile| *percentile >= 100.0);
        let high = last.min(8.0) + if has_largest { BEYOND } else { 0.0 };
        let mut ticks: Vec<Tick> = NAMED
            .iter()
            .filter(|percentile| nines(**percentile) <= last + 1e-9)
            .map(|percentile| Tick { at: nines(*percentile) / high, label: percentile.to_string() })
            .collect();
        if has_largest {
            ticks.push(Tick { at: 1.0, label: "max".to_owned() });
        }
        // The lower ones go first: the tail is what such a plot is for.
        while ticks.len() > ticks_wanted.max(3) {
            ticks.remove(1);
        }
        Self { kind: Kind::Percentile, low: 0.0, high, ticks }
    }

    /// Where a value stands, from 0 to 1 on the axis; nothing where it cannot be shown.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let scaled = match self.kind {
            Kind::Linear => value,
            Kind::Log if value <= 0.0 => return None,
            Kind::Log => value.log10(),
            Kind::Percentile if value >= 100.0 => self.high,
            Kind::Percentile => nines(value),
        };
        let share = (scaled - self.low) / (self.high - self.low);
        (value.is_finite() && (-0.001..=1.001).contains(&share)).then_some(share)
    }

    /// Where bars begin: zero, or the low end of an axis that has none.
    pub(crate) fn base(&self) -> f64 {
        if self.kind == Kind::Linear { self.place(0.0).unwrap_or(0.0) } else { 0.0 }
    }
}

/// How many nines a percentile has: 90 → 1, 99 → 2. 100 and what is not a percentile: not finite.
fn nines(percentile: f64) -> f64 {
    if !(0.0..100.0).contains(&percentile) {
        return f64::NAN;
    }
    -((100.0 - percentile) / 100.0).log10()
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// The largest of `steps` times a power of ten at or below a value, all as logarithms.
fn down_to(value: f64, steps: &[f64]) -> f64 {
    let decade = (value + 1e-9).floor();
    let below = steps.iter().map(|step| decade + step.log10()).filter(|at| *at <= value + 1e-9);
    below.fold(decade, f64::max)
}

/// The smallest of `steps` times a power of ten at or above a value, all as logarithms.
fn up_to(value: f64, steps: &[f64]) -> f64 {
    let decade = (value - 1e-9).floor();
    let above = steps.iter().map(|step| decade + step.log10()).filter(|at| *at >= value - 1e-9);
    above.fold(decade + 1.0, f64::min)
}

/// The labels of one linear axis: all with the same unit of counting and the same decimals.
struct Labels {
    divisor: f64,
    suffix: &'static str,
    decimals: usize,
    is_exponential: bool,
}

impl Labels {
    fn new(step: f64, largest: f64) -> Self {
        let (divisor, suffix) = match largest {
            value if value >= 1e12 => (1e12, " T"),
            value if value >= 1e9 => (1e9, " G"),
            value if value >= 1e6 => (1e6, " M"),
            _ => (1.0, ""),
        };
        let step = step / divisor;
        let decimals = (0..9).find(|decimals| {
            let scaled = step * 10f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled
        });
        Self {
            divisor,
            suffix,
            decimals: decimals.unwrap_or(9) as usize,
            is_exponential: largest >= 1e16 || decimals.is_none(),
        }
    }

    fn of(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        if self.is_exponential {
            return format!("{value:.2e}");
        }
        format!("{}{}", number::fixed(value / self.divisor, self.decimals), self.suffix)
    }
}

/// A label by itself, as on a logarithmic axis: `0.001`, `20`, `5 k`, `1 M`.
fn lone_label(value: f64) -> String {
    let (divisor, suffix) = match value * (1.0 + 1e-9) {
        large if large >= 1e16 => return format!("{value:.0e}"),
        large if large >= 1e12 => (1e12, " T"),
        large if large >= 1e9 => (1e9, " G"),
        large if large >= 1e6 => (1e6, " M"),
        large if large >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    if value < 0.99e-4 {
        return format!("{value:.0e}");
    }
    format!("{}{}", number::significant(value / divisor, 2), suffix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(mapping: &Mapping) -> Vec<&str> {
        mapping.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    fn linear(values: &[f64]) -> Mapping {
        Mapping::new(Scale::Linear, values.iter().copied(), 5, true, false)
    }

    fn log(values: &[f64]) -> Mapping {
        Mapping::new(Scale::Log, values.iter().copied(), 6, true, false)
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&linear(&[3.0, 97.0])), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&linear(&[1.1, 1.6])), ["1.1", "1.2", "1.3", "1.4", "1.5", "1.6"]);
        assert_eq!(
            labels(&linear(&[0.0, 2_400_000.0])),
            ["0", "0.5 M", "1.0 M", "1.5 M", "2.0 M", "2.5 M"]
        );
        assert_eq!(labels(&linear(&[-3.0, 4.0])), ["−4", "−2", "0", "2", "4"]);
    }

    #[test]
    fn an_axis_of_one_value_has_room_around_it() {
        let mapping = linear(&[7.0]);
        let place = mapping.place(7.0).expect("it is shown");
        assert!((0.2..0.8).contains(&place), "{place}");
        assert!(linear(&[]).ticks.len() > 1);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_parts_of_them() {
        assert_eq!(labels(&log(&[1.0, 1e6])), ["1", "10", "100", "1,000", "10 k", "100 k", "1 M"]);
        assert_eq!(labels(&log(&[2.0, 90.0])), ["2", "5", "10", "20", "50", "100"]);
        assert!(log(&[1e-30, 1e30]).ticks.len() < 10);
        assert_eq!(log(&[1.0, 10.0]).place(0.0), None);
    }

    #[test]
    fn each_nine_takes_the_same_room() {
        let mapping = Mapping::percentiles([0.0, 50.0, 99.9, 100.0].into_iter(), 8);
        assert_eq!(labels(&mapping), ["0", "50", "90", "99", "99.9", "max"]);
        let of_nines = |percentile| mapping.place(percentile).expect("it is shown") * 3.5;
        assert!((of_nines(90.0) - 1.0).abs() < 1e-6 && (of_nines(99.0) - 2.0).abs() < 1e-6);
        assert_eq!(mapping.place(100.0), Some(1.0));
        assert_eq!(mapping.place(-1.0), None);
    }

    proptest! {
        #[test]
        fn every_finite_value_has_a_place_and_ticks_stay_few(
            values in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 1..20),
            is_rounded: bool,
            has_zero: bool,
        ) {
            let mapping =
                Mapping::new(Scale::Linear, values.iter().copied(), 6, is_rounded, has_zero);
            prop_assert!(mapping.ticks.len() <= TICKS_MAX);
            for value in values.iter().filter(|value| value.abs() <= VALUE_MAX) {
                prop_assert!(mapping.place(*value).is_some(), "{value} on {mapping:?}");
            }
            for tick in &mapping.ticks {
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&tick.at), "{mapping:?}");
            }
        }

        #[test]
        fn every_positive_value_has_a_place_on_a_logarithmic_axis(
            powers in prop::collection::vec(-90f64..90.0, 1..20),
        ) {
            let values: Vec<f64> = powers.iter().map(|power| 10f64.powf(*power)).collect();
            let mapping = log(&values);
            prop_assert!(mapping.ticks.len() <= TICKS_MAX);
            for value in values {
                prop_assert!(mapping.place(value).is_some(), "{value} on {mapping:?}");
            }
        }
    }
}
