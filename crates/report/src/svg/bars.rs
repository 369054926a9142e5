//! Bars, one of each series beside each other in every category.

use super::STYLES;
use super::axes::{CHARACTER, Frame};
use crate::escape::escaped;
use crate::number;
use crate::plot::Series;
use std::fmt::Write as _;

/// Share of a category's room that stays free between groups.
const GAP: f64 = 0.25;
/// No bar is wider than this, in pixels: three bars in a wide plot would look like walls.
const WIDTH_MAX: f64 = 56.0;

pub(super) fn draw(frame: &Frame, series: &[Series], out: &mut String) {
    if series.is_empty() || frame.categories == 0 {
        return;
    }
    let room = frame.slot() * (1.0 - GAP);
    let width = (room / series.len() as f64).min(WIDTH_MAX);
    let first = (frame.slot() - width * series.len() as f64) / 2.0;
    let base = frame.base();
    // All bars have their values above them or none has: some would look as if they were special.
    let shown = series.iter().flat_map(|one| one.points.iter().take(frame.categories));
    let longest = shown.map(|(_, value)| label(*value).chars().count()).max().unwrap_or(0);
    let has_labels = longest as f64 * CHARACTER <= width;
    for (index, one) in series.iter().enumerate() {
        for (category, (_, value)) in one.points.iter().take(frame.categories).enumerate() {
            let Some(end) = frame.y(*value) else { continue };
            let x = frame.left + frame.slot() * category as f64 + first + width * index as f64;
            let shown = label(*value);
            let _ = writeln!(
                out,
                "<rect class=\"bar s{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{}: {}</title></rect>",
                index % STYLES,
                end.min(base),
                (width - 1.0).max(0.5),
                (end - base).abs().max(0.5),
                escaped(&one.label),
                escaped(&shown),
            );
            if has_labels {
                let y = if end <= base { end - 4.0 } else { end + 13.0 };
                let _ = writeln!(
                    out,
                    "<text class=\"mid\" x=\"{:.1}\" y=\"{y:.1}\">{shown}</text>",
                    x + (width - 1.0) / 2.0,
                );
            }
        }
    }
}

fn label(value: f64) -> String {
    number::significant(value, 3)
}
