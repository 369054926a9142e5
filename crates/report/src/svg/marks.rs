//! Lines and points.

use super::STYLES;
use super::axes::Frame;
use crate::escape::escaped;
use crate::number;
use crate::plot::Series;
use std::fmt::Write as _;

/// A line with more points is drawn as the range it covers in each column of pixels: the picture
/// is the same and the page stays small.
const LINE_POINTS_MAX: usize = 1_500;
/// A line with more points gets no marks.
const MARKED_POINTS_MAX: usize = 40;
/// A cloud with more points is thinned evenly.
const CLOUD_POINTS_MAX: usize = 3_000;

/// Lines through the points of each series; few points are marked as well.
pub(super) fn lines(frame: &Frame, series: &[Series], out: &mut String) {
    for (index, one) in series.iter().enumerate() {
        let style = index % STYLES;
        let places: Vec<Option<(f64, f64)>> =
            one.points.iter().map(|(x, y)| Some((frame.x(*x)?, frame.y(*y)?))).collect();
        let places = thinned(places);
        let _ = write!(out, "<path class=\"line s{style}\" d=\"");
        let mut is_open = false;
        for place in &places {
            if let Some((x, y)) = place {
                let _ = write!(out, "{}{x:.1} {y:.1}", if is_open { 'L' } else { 'M' });
            }
            is_open = place.is_some();
        }
        let _ = writeln!(out, "\"><title>{}</title></path>", escaped(&one.label));
        if one.points.len() <= MARKED_POINTS_MAX {
            marks(frame, one, style, 1, out);
        }
    }
}

/// The points of each series.
pub(super) fn scatter(frame: &Frame, series: &[Series], out: &mut String) {
    for (index, one) in series.iter().enumerate() {
        let stride = one.points.len().div_ceil(CLOUD_POINTS_MAX).max(1);
        marks(frame, one, index % STYLES, stride, out);
    }
}

fn marks(frame: &Frame, series: &Series, style: usize, stride: usize, out: &mut String) {
    for (x, y) in series.points.iter().step_by(stride) {
        let (Some(left), Some(top)) = (frame.x(*x), frame.y(*y)) else { continue };
        let _ = writeln!(
            out,
            "<g>{}<title>{}: {}, {}</title></g>",
            mark(style, left, top),
            escaped(&series.label),
            number::significant(*x, 5),
            number::significant(*y, 4),
        );
    }
}

/// The mark of a style: its form differs as well as its colour, for print and for eyes that see
/// few colours.
pub(super) fn mark(style: usize, x: f64, y: f64) -> String {
    let path = match style % 4 {
        0 => format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", x - 3.0),
        1 => format!("M{:.1} {:.1}h5.4v5.4h-5.4z", x - 2.7, y - 2.7),
        2 => format!("M{x:.1} {:.1}l3.6 6.2h-7.2z", y - 3.8),
        _ => format!("M{x:.1} {:.1}l3.9 3.9l-3.9 3.9l-3.9 -3.9z", y - 3.9),
    };
    format!("<path class=\"mark s{style}\" d=\"{path}\"/>")
}

/// For lines of very many points: the first, lowest, highest and last of each column of pixels.
fn thinned(places: Vec<Option<(f64, f64)>>) -> Vec<Option<(f64, f64)>> {
    if places.len() <= LINE_POINTS_MAX {
        return places;
    }
    let mut kept = Vec::new();
    let mut rest = places.as_slice();
    while let Some(first) = rest.first() {
        let column = first.map(|(x, _)| x.floor());
        let end = rest
            .iter()
            .position(|place| place.map(|(x, _)| x.floor()) != column)
            .unwrap_or(rest.len());
        let (here, later) = rest.split_at(end);
        let height = |place: &&Option<(f64, f64)>| place.map_or(0.0, |(_, y)| y);
        let by_height =
            |a: &&Option<(f64, f64)>, b: &&Option<(f64, f64)>| height(a).total_cmp(&height(b));
        let ends = [here.first(), here.iter().min_by(by_height)];
        let more = [here.iter().max_by(by_height), here.last()];
        kept.extend(ends.into_iter().chain(more).flatten().copied());
        rest = later;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_very_many_points_keeps_its_extremes() {
        let mut places: Vec<_> = (0..100_000).map(|i| Some((f64::from(i) / 500.0, 10.0))).collect();
        places[50_250] = Some((100.5, 99.0));
        places[70_000] = None;
        let kept = thinned(places);
        assert!(kept.len() <= 4 * 202, "{}", kept.len());
        assert!(kept.contains(&Some((100.5, 99.0))));
        assert!(kept.contains(&None));
    }
}
