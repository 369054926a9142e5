//! What-if ranges: one or two inputs varied, the figures at each point.

use crate::mistake::PlanError;
use crate::outcome::{Outcome, Range, ResultColumn, ResultTable, Value};
use crate::unit;
use freshet_report::{Axis, Plot, Series};
use std::str::FromStr;

/// Most points of a range; more make no smoother picture and a table nobody reads.
pub const POINTS_MAX: usize = 200;
/// Points of a range that does not say how many.
const POINTS_DEFAULT: usize = 11;
/// Most values of a second range, and as many as it has if it does not say: each is a set of lines.
const LINES_MAX: usize = 8;
/// Inputs that may be varied at once: one along the axis, one from line to line.
const INPUTS_MAX: usize = 2;

/// An input and the values it is to have: `pue=1.1..1.6`, `price=0.05..0.25 USD/kWh`,
/// `buffer=2..10 min:5` for five points.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    key: String,
    low: f64,
    high: f64,
    unit: String,
    /// As they were said.
    points: Option<usize>,
}

impl FromStr for Vary {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let wrong = |why: &str| {
            PlanError::ConfigFlag(format!(
                "--vary {text}: {why}; write it as `pue=1.1..1.6`, `price=0.05..0.25 USD/kWh` or, \
                 for five points, `pue=1.1..1.6:5`"
            ))
        };
        let (key, rest) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let (low, rest) = rest.split_once("..").ok_or_else(|| wrong("there is no `..`"))?;
        let (high, points) = match rest.rsplit_once(':') {
            None => (rest, None),
            Some((high, points)) => match points.trim().parse() {
                Ok(points) if (2..=POINTS_MAX).contains(&points) => (high, Some(points)),
                _ => {
                    return Err(wrong(&format!(
                        "points are a whole number from 2 to {POINTS_MAX}"
                    )));
                }
            },
        };
        let high = high.trim();
        let (high_number, _) = unit::parse(high).map_err(|error| wrong(&error.to_string()))?;
        let (_, unit) = unit::split(high);
        let low = low.trim();
        // A low end without a unit has that of the high end.
        let is_bare = low.parse::<f64>().is_ok();
        let low_text = if is_bare { format!("{low} {unit}") } else { low.to_owned() };
        let (low_number, low_unit) =
            unit::parse(&low_text).map_err(|error| wrong(&error.to_string()))?;
        let high_unit = unit::parse_unit(unit.trim()).map_err(|error| wrong(&error.to_string()))?;
        if low_unit.exponents != high_unit.exponents {
            return Err(wrong("its two ends are not of one kind"));
        }
        let low_number = low_number * low_unit.factor / high_unit.factor;
        if low_number >= high_number {
            return Err(wrong("the first end must be below the second"));
        }
        Ok(Self {
            key: key.trim().to_owned(),
            low: low_number,
            high: high_number,
            unit: unit.trim().to_owned(),
            points,
        })
    }
}

impl Vary {
    /// The input that it is of.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Its values, from low to high.
    fn values(&self, points: usize) -> impl Iterator<Item = f64> {
        let step = (self.high - self.low) / (points.max(2) - 1) as f64;
        let low = self.low;
        // Values such as 1.2500000000000002 would stand in tables and messages.
        (0..points).map(move |index| rounded(low + step * index as f64))
    }

    fn title(&self) -> String {
        if self.unit.is_empty() { self.key.clone() } else { format!("{}, {}", self.key, self.unit) }
    }

    fn text(&self, value: f64) -> String {
        if self.unit == "%" { format!("{value} %") } else { format!("{value} {}", self.unit) }
    }
}

/// A number to nine significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// Adds to `outcome` what the ranges do to its figures: a table, and plots in place of its own.
pub(crate) fn add(
    outcome: &mut Outcome,
    set: &[(String, String)],
    vary: &[Vary],
    run: impl Fn(&[(String, String)]) -> Result<Outcome, PlanError>,
) -> Result<(), PlanError> {
    let (Some(along), lines) = (vary.first(), vary.get(1)) else { return Ok(()) };
    if vary.len() > INPUTS_MAX || lines.is_some_and(|second| second.key == along.key) {
        return Err(PlanError::ConfigFlag(
            "--vary: at most two different inputs can be varied at once".to_owned(),
        ));
    }
    let line_values: Vec<Option<f64>> = match lines {
        None => vec![None],
        Some(second) => match second.points {
            Some(points) if points > LINES_MAX => {
                let Vary { key, .. } = second;
                return Err(PlanError::ConfigFlag(format!(
                    "--vary {key}: {points} points of a second input; it has {LINES_MAX} at most, each a \
                     set of lines. Name it first, or ask for fewer"
                )));
            }
            points => second.values(points.unwrap_or(LINES_MAX)).map(Some).collect(),
        },
    };
    let along_points = along.points.unwrap_or(POINTS_DEFAULT);
    let mut rows = Vec::new();
    let mut plots: Vec<(String, Plot)> = Vec::new();
    for line in &line_values {
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); outcome.figures.len()];
        for value in along.values(along_points) {
            let mut flags = set.to_vec();
            flags.retain(|(key, _)| vary.iter().all(|one| one.key != *key));
            flags.push((along.key.clone(), along.text(value)));
            let mut row = vec![Value::from(value)];
            if let Some((second, line)) = lines.zip(*line) {
                flags.push((second.key.clone(), second.text(line)));
                row.push(Value::from(line));
            }
            let point = run(&flags).map_err(|error| with_points(error, vary))?;
            row.extend(outcome.figures.iter().enumerate().map(|(index, figure)| {
                let found = point.figures.get(index).filter(|other| other.unit == figure.unit);
                let number = found.map_or(f64::NAN, |other| other.value);
                if let Some(curve) = curves.get_mut(index) {
                    curve.push((value, number));
                }
                Value::from(number)
            }));
            rows.push(row);
        }
        for (figure, curve) in outcome.figures.iter().zip(curves) {
            let (group, title, label) = match lines.zip(*line) {
                // One input: figures of a unit share a plot. Two: each figure has its own.
                None => (&figure.unit, &outcome.title, figure.name.clone()),
                Some((second, line)) => {
                    let line = second.text(line);
                    (&figure.name, &figure.name, format!("{} {}", second.key, line.trim()))
                }
            };
            let series = Series::new(label, curve);
            match plots.iter_mut().find(|(other, _)| other == group) {
                Some((_, plot)) => plot.push(series),
                None => {
                    let x = Axis::new(&along.key).unit(&along.unit);
                    let title = format!("{title} over {}", along.key);
                    let plot = Plot::lines(title, x, Axis::new("").unit(&figure.unit));
                    plots.push((group.clone(), plot.series(series)));
                }
            }
        }
    }
    let decimals = decimals_of(along, along_points);
    let mut columns = vec![ResultColumn::numbers(along.title(), "", decimals, "")];
    columns.extend(lines.map(|one| {
        ResultColumn::numbers(one.title(), "", decimals_of(one, line_values.len()), "")
    }));
    columns.extend(outcome.figures.iter().map(|figure| {
        ResultColumn::numbers(&figure.name, &figure.unit, figure.decimals, figure.formula)
    }));
    let inputs: Vec<String> = vary.iter().map(|one| one.key.clone()).collect();
    let title = format!("Over {}", inputs.join(" and "));
    outcome.plots = plots.into_iter().map(|(_, plot)| plot).collect();
    outcome.range =
        Some(Range { inputs, table: ResultTable { name: "range", title, columns, rows } });
    // The case itself is no longer what is asked about.
    outcome.checks.clear();
    outcome.contradictions.clear();
    Ok(())
}

/// What is wrong with a point between the ends may be mended by another number of points.
fn with_points(error: PlanError, vary: &[Vary]) -> PlanError {
    let PlanError::ConfigFlag(why) = error else { return error };
    let unsaid = vary.iter().find(|one| {
        let is_whole = one.low.fract() == 0.0 && one.high.fract() == 0.0;
        one.points.is_none() && is_whole && why.starts_with(&format!("{}=", one.key))
    });
    let Some(one) = unsaid else { return PlanError::ConfigFlag(why) };
    let whole = (one.high - one.low) as usize + 1;
    PlanError::ConfigFlag(format!(
        "{why}. --vary takes {POINTS_DEFAULT} points if it is not said how many: for whole numbers write \
         `{}={}..{}:{whole}`",
        one.key,
        one.low,
        one.text(one.high).trim()
    ))
}

/// Decimals that tell the values of a range apart.
fn decimals_of(vary: &Vary, points: usize) -> usize {
    let step = (vary.high - vary.low) / (points.max(2) - 1) as f64;
    let is_whole = |value: f64| (value - value.round()).abs() < 1e-6;
    (0..4)
        .find(|decimals| {
            let scale = 10f64.powi(*decimals);
            is_whole(step * scale) && is_whole(vary.low * scale)
        })
        .unwrap_or(4) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<f64> {
        let vary: Vary = text.parse().unwrap();
        vary.values(vary.points.unwrap_or(POINTS_DEFAULT)).collect()
    }

    #[test]
    fn ranges_have_both_ends_and_one_unit() {
        assert_eq!(values("pue=1.1..1.6:6"), [1.1, 1.2, 1.3, 1.4, 1.5, 1.6]);
        let price: Vary = "price=50 USD/MWh..0.25 USD/kWh:3".parse().unwrap();
        assert_eq!((price.low, price.unit.as_str()), (0.05, "USD/kWh"));
        assert_eq!(price.text(0.15), "0.15 USD/kWh");
        assert_eq!(values("x=1e3..2e3 MB:2"), [1000.0, 2000.0]);
    }

    #[test]
    fn wrong_ranges_say_how_one_is_written() {
        for wrong in [
            "pue",
            "pue=1.1",
            "pue=2..1",
            "pue=a..b",
            "pue=1..2:1",
            "pue=1 MB..2 s",
            "pue=1..2:999",
        ] {
            let error = wrong.parse::<Vary>().unwrap_err().to_string();
            assert!(error.contains("write it as"), "{wrong}: {error}");
        }
    }
}
