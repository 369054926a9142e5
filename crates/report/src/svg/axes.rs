//! The frame of a plot: margins that hold its labels, grid, ticks and titles.

use crate::escape::escaped;
use crate::plot::{Plot, Shape};
use crate::scale::Mapping;
use std::fmt::Write as _;

/// Height of type in a drawing, CSS pixels; the page's styles say the same.
pub(super) const TYPE: f64 = 12.0;
/// Room for one character of it. Sans-serif digits need 6.7 of 12 pixels, most letters less.
pub(super) const CHARACTER: f64 = 6.8;
/// Lines that the name of a category may take.
const CATEGORY_LINES_MAX: usize = 3;
/// Characters of a category's name that are shown when it has to be turned.
const TURNED_CHARACTERS_MAX: usize = 20;
/// Sine and cosine of 40 degrees, by which such names are turned.
const TURN: (f64, f64) = (0.643, 0.766);

/// Where in a drawing the plot is, and how values get there.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    top: f64,
    bottom: f64,
    height: f64,
    x: Mapping,
    y: Mapping,
    names: Names,
    /// How many categories share the axis from left to right; 0 where it is one of values.
    pub(super) categories: usize,
}

/// The names below groups of bars.
enum Names {
    /// There are none.
    None,
    /// Each in some lines below its group.
    Lines(Vec<Vec<String>>),
    /// Each in one line, turned.
    Turned(Vec<String>),
}

impl Names {
    fn new(categories: &[String], room: f64) -> Self {
        let characters = (room / CHARACTER).floor() as usize;
        let broken: Option<Vec<_>> =
            categories.iter().map(|name| break_name(name, characters)).collect();
        match broken {
            _ if categories.is_empty() => Self::None,
            Some(lines) => Self::Lines(lines),
            None => Self::Turned(categories.iter().map(|name| cut(name)).collect()),
        }
    }

    fn height(&self) -> f64 {
        match self {
            Self::None => TYPE + 6.0,
            Self::Lines(lines) => {
                6.0 + (TYPE + 2.0) * lines.iter().map(Vec::len).max().unwrap_or(0) as f64
            }
            Self::Turned(names) => 14.0 + longest(names) * CHARACTER * TURN.0,
        }
    }

    /// How far the first name reaches to the left of its group's centre.
    fn overhang(&self) -> f64 {
        match self {
            Self::Turned(names) => longest(names) * CHARACTER * TURN.1,
            _ => 0.0,
        }
    }
}

fn longest(names: &[String]) -> f64 {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64
}

fn cut(name: &str) -> String {
    if name.chars().count() <= TURNED_CHARACTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(TURNED_CHARACTERS_MAX - 1).chain(['…']).collect()
}

/// `name` in lines of at most `characters`, broken between words; nothing when it does not fit.
fn break_name(name: &str, characters: usize) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        let width = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + width <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ if width <= characters => lines.push(word.to_owned()),
            _ => return None,
        }
    }
    (lines.len() <= CATEGORY_LINES_MAX).then_some(lines)
}

impl Frame {
    pub(super) fn new(plot: &Plot, width: f64, height: f64) -> Self {
        let points = || plot.all().iter().flat_map(|series| series.points.iter());
        let is_bars = matches!(plot.shape, Shape::Bars { .. });
        let categories: &[String] = match &plot.shape {
            Shape::Bars { categories, .. } => categories,
            _ => &[],
        };
        let least = plot.y.least.iter().flat_map(|(low, high)| [*low, *high]);
        let across = plot.limits.iter().map(|limit| limit.value).chain(least);
        let y = Mapping::new(
            plot.y.scale,
            points().map(|(_, y)| *y).chain(across),
            if height > 300.0 { 6 } else { 5 },
            true,
            is_bars,
        );
        let widest = y.ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(1);
        let right = width - 16.0;
        let left = (widest as f64).mul_add(CHARACTER, 14.0);
        let slot = (right - left) / categories.len().max(1) as f64;
        let names = Names::new(categories, slot - 6.0);
        let left = left.max((names.overhang() - slot / 2.0 + 4.0).min(width / 3.0));
        // Ticks as many as there is room for labels of eight characters.
        let ticks_wanted = (((right - left) / (8.0 * CHARACTER)) as usize).clamp(2, 10);
        let x = match plot.shape {
            Shape::Percentiles(_) => Mapping::percentiles(points().map(|(x, _)| *x), ticks_wanted),
            Shape::Scatter(_) => {
                Mapping::new(plot.x.scale, points().map(|(x, _)| *x), ticks_wanted, true, false)
            }
            _ => Mapping::new(plot.x.scale, points().map(|(x, _)| *x), ticks_wanted, false, false),
        };
        let top = if plot.y.title().is_empty() { 12.0 } else { 30.0 };
        let title_height = if plot.x.title().is_empty() { 4.0 } else { TYPE + 8.0 };
        let bottom = height - names.height() - title_height;
        Self { left, right, top, bottom, height, x, y, names, categories: categories.len() }
    }

    /// The pixel of a value from left to right; nothing where it cannot be shown.
    pub(super) fn x(&self, value: f64) -> Option<f64> {
        self.x.place(value).map(|share| self.left + share * (self.right - self.left))
    }

    /// The pixel of a value from bottom to top; nothing where it cannot be shown.
    pub(super) fn y(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|share| self.bottom - share * (self.bottom - self.top))
    }

    /// The pixel bars begin at.
    pub(super) fn base(&self) -> f64 {
        self.bottom - self.y.base() * (self.bottom - self.top)
    }

    /// Room for one category, in pixels.
    pub(super) fn slot(&self) -> f64 {
        (self.right - self.left) / self.categories.max(1) as f64
    }

    /// Grid, ticks, names and titles.
    pub(super) fn draw(&self, plot: &Plot, out: &mut String) {
        for tick in &self.y.ticks {
            let y = self.bottom - tick.at * (self.bottom - self.top);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"end\" x=\"{:.1}\" \
                 y=\"{:.1}\">{}</text>",
                self.left,
                self.right,
                self.left - 6.0,
                y + TYPE / 3.0,
                escaped(&tick.label),
            );
        }
        match self.categories {
            0 => self.draw_ticks(out),
            _ => self.draw_names(out),
        }
        let base = self.base();
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{:.1} {:.1}V{:.1}M{:.1} {base:.1}H{:.1}\"/>",
            self.left, self.top, self.bottom, self.left, self.right,
        );
        let (x, y) = (plot.x.title(), plot.y.title());
        if !y.is_empty() {
            let _ = writeln!(out, "<text class=\"title\" x=\"4\" y=\"14\">{}</text>", escaped(&y));
        }
        if !x.is_empty() {
            let _ = writeln!(
                out,
                "<text class=\"title end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.right,
                self.height - 6.0,
                escaped(&x),
            );
        }
    }

    fn draw_ticks(&self, out: &mut String) {
        // A label at the right end must not leave the drawing.
        let mut free = f64::MIN;
        for tick in &self.x.ticks {
            let x = self.left + tick.at * (self.right - self.left);
            let half = tick.label.chars().count() as f64 * CHARACTER / 2.0;
            let centre = x.min(self.right + 14.0 - half);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                self.top,
                self.bottom + 4.0,
            );
            // Two labels that would touch: the first stays.
            if centre - half < free + 3.0 {
                continue;
            }
            free = centre + half;
            let _ = writeln!(
                out,
                "<text class=\"mid\" x=\"{centre:.1}\" y=\"{:.1}\">{}</text>",
                self.bottom + TYPE + 5.0,
                escaped(&tick.label),
            );
        }
    }

    fn draw_names(&self, out: &mut String) {
        let centre = |index: usize| self.left + self.slot() * (index as f64 + 0.5);
        match &self.names {
            Names::None => {}
            Names::Lines(names) => {
                for (index, lines) in names.iter().enumerate() {
                    for (row, line) in lines.iter().enumerate() {
                        let y = self.bottom + 5.0 + TYPE + row as f64 * (TYPE + 2.0);
                        let _ = writeln!(
                            out,
                            "<text class=\"mid\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                            centre(index),
                            escaped(line),
                        );
                    }
                }
            }
            Names::Turned(names) => {
                for (index, name) in names.iter().enumerate() {
                    let (x, y) = (centre(index) + 4.0, self.bottom + 14.0);
                    let _ = writeln!(
                        out,
                        "<text class=\"end\" x=\"{x:.1}\" y=\"{y:.1}\" \
                         transform=\"rotate(-40 {x:.1} {y:.1})\">{}</text>",
                        escaped(name),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_broken_between_words_or_turned() {
        assert_eq!(
            break_name("10 Gbps servers", 8),
            Some(vec!["10 Gbps".into(), "servers".into()])
        );
        assert_eq!(break_name("indivisible", 5), None);
        let names = ["a b".to_owned(), "indivisible".to_owned()];
        assert!(matches!(Names::new(&names, 40.0), Names::Turned(_)));
        assert!(matches!(Names::new(&names, 100.0), Names::Lines(_)));
    }
}
