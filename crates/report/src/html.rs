//! A report as one page: no script, no second file, nothing fetched.

use crate::document::{Block, Document, KeyFigure, Section};
use crate::escape::{escape, escaped, prose};
use crate::svg;
use crate::table::{Align, Cell, Table};
use std::fmt::Write as _;

/// The page's styles: light and dark, wide and narrow windows, paper.
const STYLE: &str = include_str!("report.css");

/// A page with fewer sections needs no list of them.
const CONTENTS_FROM: usize = 3;

/// The deepest heading HTML has.
const LEVEL_MAX: usize = 6;

/// The whole page, UTF-8. Everything from the tree is escaped; the page needs nothing besides.
pub fn page(document: &Document) -> String {
    let mut out = String::with_capacity(64 << 10);
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\"/>\n");
    let _ = writeln!(out, "<title>{}</title>", escaped(&document.title));
    let _ = write!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n");
    let _ = writeln!(out, "<h1>{}</h1>", escaped(&document.title));
    if !document.summary.is_empty() {
        element("p class=\"summary\"", &document.summary, &mut out);
    }
    contents(&document.blocks, &mut out);
    blocks(&document.blocks, 2, "", &mut out);
    if !document.footer.is_empty() {
        let _ = writeln!(out, "<footer>{}</footer>", escaped(&document.footer));
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// `<tag>prose</tag>`; `tag` may carry attributes.
fn element(tag: &str, text: &str, out: &mut String) {
    let _ = write!(out, "<{tag}>");
    prose(text, out);
    let _ = writeln!(out, "</{}>", tag.split(' ').next().unwrap_or(tag));
}

/// Links to the sections directly below the title.
fn contents(blocks: &[Block], out: &mut String) {
    let titles: Vec<(usize, &str)> = blocks
        .iter()
        .enumerate()
        .filter_map(|(index, block)| match block {
            Block::Section(section) => Some((index, section.title.as_str())),
            _ => None,
        })
        .collect();
    if titles.len() < CONTENTS_FROM {
        return;
    }
    out.push_str("<nav aria-label=\"Contents\"><ul>\n");
    for (index, title) in titles {
        let _ = writeln!(out, "<li><a href=\"#s{index}\">{}</a></li>", escaped(title));
    }
    out.push_str("</ul></nav>\n");
}

fn blocks(all: &[Block], level: usize, place: &str, out: &mut String) {
    for (index, block) in all.iter().enumerate() {
        match block {
            Block::Section(one) => section(one, level, &format!("{place}s{index}"), out),
            Block::Paragraph(text) => element("p", text, out),
            Block::Note(text) => element("p class=\"note\"", text, out),
            Block::Items(items) => {
                out.push_str("<ul>\n");
                for item in items {
                    element("li", item, out);
                }
                out.push_str("</ul>\n");
            }
            Block::Listing(text) => {
                out.push_str("<pre tabindex=\"0\">");
                escape(text, out);
                out.push_str("</pre>\n");
            }
            Block::Figures(group) => figures(group, out),
            Block::Table(one) => table(one, out),
            Block::Plot(plot) => svg::figure(plot, out),
        }
    }
}

fn section(section: &Section, level: usize, place: &str, out: &mut String) {
    let heading = level.min(LEVEL_MAX);
    let _ = writeln!(
        out,
        "<section id=\"{place}\">\n<h{heading}>{}</h{heading}>",
        escaped(&section.title)
    );
    blocks(&section.blocks, level + 1, place, out);
    out.push_str("</section>\n");
}

fn figures(group: &[KeyFigure], out: &mut String) {
    out.push_str("<dl class=\"figures\">\n");
    for figure in group {
        let class = figure.verdict.map_or("", |verdict| verdict.word());
        let _ = writeln!(
            out,
            "<div class=\"figure {class}\"><dt>{}</dt><dd class=\"value\">{}</dd>",
            escaped(&figure.label),
            escaped(&figure.value),
        );
        if let Some(verdict) = figure.verdict {
            let _ = write!(
                out,
                "<dd class=\"verdict {class}\">{} {}</dd>",
                verdict.sign(),
                verdict.word()
            );
        }
        if !figure.limit.is_empty() {
            let _ = write!(out, "<dd class=\"limit\">{}</dd>", escaped(&figure.limit));
        }
        out.push_str("</div>\n");
    }
    out.push_str("</dl>\n");
}

fn table(table: &Table, out: &mut String) {
    // A wide table scrolls by itself, by keyboard too, and leaves the page as it is.
    out.push_str("<div class=\"table\" tabindex=\"0\">\n<table>\n");
    if !table.caption.is_empty() {
        element("caption", &table.caption, out);
    }
    let side = |align: Align| if align == Align::Right { " class=\"number\"" } else { "" };
    out.push_str("<thead><tr>");
    for column in &table.columns {
        let _ =
            write!(out, "<th scope=\"col\"{}>{}</th>", side(column.align), escaped(&column.title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (index, column) in table.columns.iter().enumerate() {
            let _ = write!(out, "<td{}>", side(column.align));
            cell(Table::cell(row, index), out);
            out.push_str("</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

fn cell(cell: &Cell, out: &mut String) {
    match cell.verdict {
        Some(verdict) => {
            let _ = write!(out, "<span class=\"{}\">", verdict.word());
            escape(&cell.shown(), out);
            out.push_str("</span>");
        }
        None => prose(&cell.text, out),
    }
}
