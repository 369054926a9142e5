//! Plots as inline SVG, with a legend below that the page lays out, so that its entries can never
//! overlap each other or the plot.
//!
//! Each plot is drawn twice, for wide and for narrow windows, and the page's styles show one: type
//! stays readable on a telephone, which a scaled drawing's does not.

mod axes;
mod bars;
mod marks;

use crate::escape::{escape, escaped};
use crate::plot::{Plot, Shape};
use axes::Frame;
use std::fmt::Write as _;

/// Colours and dashes repeat after so many series; the page's styles define as many.
const STYLES: usize = 8;

/// The two drawings of a plot: the class that shows it, width and height in CSS pixels.
const SIZES: [(&str, f64, f64); 2] = [("wide", 760.0, 320.0), ("narrow", 360.0, 270.0)];

/// Appends the figure: title, drawings, legend.
pub(crate) fn figure(plot: &Plot, out: &mut String) {
    out.push_str("<figure class=\"plot\">\n");
    let _ = writeln!(out, "<figcaption>{}</figcaption>", escaped(&plot.title));
    for (class, width, height) in SIZES {
        drawing(plot, class, width, height, out);
    }
    legend(plot, out);
    out.push_str("</figure>\n");
}

fn drawing(plot: &Plot, class: &str, width: f64, height: f64, out: &mut String) {
    let _ = write!(
        out,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"",
    );
    escape(&spoken(plot), out);
    out.push_str("\">\n");
    let frame = Frame::new(plot, width, height);
    frame.draw(plot, out);
    match &plot.shape {
        Shape::Bars { series, .. } => bars::draw(&frame, series, out),
        Shape::Scatter(series) => marks::scatter(&frame, series, out),
        Shape::Lines(series) | Shape::Percentiles(series) => marks::lines(&frame, series, out),
    }
    for (index, limit) in plot.limits.iter().enumerate() {
        if let Some(y) = frame.y(limit.value) {
            let _ = writeln!(
                out,
                "<path class=\"limit l{}\" d=\"M{:.1} {y:.1}H{:.1}\"><title>{}</title></path>",
                index % STYLES,
                frame.left,
                frame.right,
                escaped(&limit.label),
            );
        }
    }
    out.push_str("</svg>\n");
}

/// What is said where a drawing cannot be seen.
fn spoken(plot: &Plot) -> String {
    let names: Vec<&str> = plot.all().iter().map(|series| series.label.as_str()).collect();
    let y = plot.y.title();
    match &plot.shape {
        Shape::Bars { categories, .. } => {
            format!("{}: {y} for {}; {}", plot.title, categories.join(", "), names.join(", "))
        }
        _ => format!("{}: {y} over {}; {}", plot.title, plot.x.title(), names.join(", ")),
    }
}

/// A list below the drawing. One series without a limit needs none: the title names it.
fn legend(plot: &Plot, out: &mut String) {
    let series = plot.all();
    if series.len() < 2 && plot.limits.is_empty() {
        return;
    }
    out.push_str("<ul class=\"legend\">\n");
    for (index, one) in series.iter().enumerate() {
        let style = index % STYLES;
        let sample = match &plot.shape {
            Shape::Bars { .. } => {
                format!("<rect class=\"bar s{style}\" x=\"8\" y=\"1\" width=\"12\" height=\"12\"/>")
            }
            Shape::Scatter(_) => marks::mark(style, 14.0, 7.0),
            Shape::Lines(_) | Shape::Percentiles(_) => {
                format!(
                    "<path class=\"line s{style}\" d=\"M0 7H28\"/>{}",
                    marks::mark(style, 14.0, 7.0)
                )
            }
        };
        entry(&sample, &one.label, out);
    }
    for (index, limit) in plot.limits.iter().enumerate() {
        let sample = format!("<path class=\"limit l{}\" d=\"M0 7H28\"/>", index % STYLES);
        entry(&sample, &limit.label, out);
    }
    out.push_str("</ul>\n");
}

fn entry(sample: &str, label: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "<li><svg class=\"sample\" viewBox=\"0 0 28 14\" aria-hidden=\"true\">{sample}</svg>{}</li>",
        escaped(label),
    );
}
