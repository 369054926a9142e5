//! A report for a terminal.

use crate::document::{Block, Document, KeyFigure};
use crate::table::{Align, Table};

/// The width all output keeps to, in characters.
pub const COLUMNS: usize = 80;

/// Room between two columns of a table.
const GAP: usize = 2;
/// A column of words is not made narrower than this to fit a table; one that would have to be is
/// shown row by row instead.
const WORDS_MIN: usize = 8;

/// The report, every line at most [`COLUMNS`] characters and without control characters. Plots are
/// left out: what they show belongs into a table too.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    out.push_str(&wrapped(&document.title, 0, 0));
    if !document.summary.is_empty() {
        out.push_str(&wrapped(&document.summary, 0, 0));
    }
    blocks(&document.blocks, 0, &mut out);
    if !document.footer.is_empty() {
        out.push('\n');
        out.push_str(&wrapped(&document.footer, 0, 0));
    }
    out
}

fn blocks(all: &[Block], depth: usize, out: &mut String) {
    for block in all {
        out.push('\n');
        match block {
            Block::Section(section) => {
                let mark = if depth == 0 { "== " } else { "-- " };
                out.push_str(&wrapped(&format!("{mark}{}", section.title), 0, mark.len()));
                blocks(&section.blocks, depth + 1, out);
            }
            Block::Paragraph(text) => out.push_str(&wrapped(text, 0, 0)),
            Block::Note(text) => out.push_str(&wrapped(&format!("! {text}"), 0, 2)),
            Block::Items(items) => {
                for item in items {
                    out.push_str(&wrapped(&format!("- {item}"), 0, 2));
                }
            }
            Block::Listing(text) => {
                for line in text.lines() {
                    let line: Vec<char> = clean_keeping(line).chars().collect();
                    for piece in line.chunks(COLUMNS - 4) {
                        out.push_str("    ");
                        out.extend(piece);
                        out.push('\n');
                    }
                }
            }
            Block::Figures(group) => figures(group, out),
            Block::Table(one) => out.push_str(&table(one)),
            // The blank line before it goes with it.
            Block::Plot(_) => drop(out.pop()),
        }
    }
}

fn figures(group: &[KeyFigure], out: &mut String) {
    let width = |of: fn(&KeyFigure) -> &str| {
        group.iter().map(|figure| of(figure).chars().count()).max().unwrap_or(0)
    };
    let label = width(|figure| &figure.label).min(COLUMNS / 2);
    let value = width(|figure| &figure.value).min(COLUMNS / 3);
    for figure in group {
        let verdict =
            figure.verdict.map(|v| format!("{} {}", v.sign(), v.word())).unwrap_or_default();
        let limit = Some(clean(&figure.limit)).filter(|limit| !limit.is_empty());
        let behind = match (verdict.is_empty(), limit) {
            (_, None) => verdict,
            (true, Some(limit)) => format!("({limit})"),
            (false, Some(limit)) => format!("{verdict} ({limit})"),
        };
        let line = format!(
            "{:<label$}  {:>value$}  {behind}",
            clean(&figure.label),
            clean(&figure.value),
        );
        match line.trim_end() {
            short if short.chars().count() <= COLUMNS => {
                out.push_str(short);
                out.push('\n');
            }
            long => out.push_str(&wrapped(long, 0, 4)),
        }
    }
}

/// One table. Columns of words are narrowed and their cells broken into lines until it fits; a
/// table of too many columns is shown row by row, a line for each cell.
pub fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.caption.is_empty() {
        out.push_str(&wrapped(&table.caption, 0, 0));
    }
    match widths(table) {
        Some(widths) => {
            let titles: Vec<String> =
                table.columns.iter().map(|column| clean(&column.title)).collect();
            row(table, &titles, &widths, true, &mut out);
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push_str(rule.join(&" ".repeat(GAP)).trim_end());
            out.push('\n');
            for cells in &table.rows {
                let cells: Vec<String> = (0..table.columns.len())
                    .map(|column| clean(&Table::cell(cells, column).shown()))
                    .collect();
                row(table, &cells, &widths, false, &mut out);
            }
        }
        None => by_row(table, &mut out),
    }
    out
}

/// The width of each column, or nothing where no way makes them fit.
fn widths(table: &Table) -> Option<Vec<usize>> {
    let of_cells =
        |column: usize| table.rows.iter().map(move |row| clean(&Table::cell(row, column).shown()));
    let longest = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    // Numbers stay whole; their titles and all words may be broken between words.
    let least: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let title = longest(&mut words(&clean(&column.title)).into_iter());
            let cells = match column.align {
                Align::Right => longest(&mut of_cells(index)),
                Align::Left => longest(&mut of_cells(index).flat_map(|text| words(&text)))
                    .min(WORDS_MIN.max(title)),
            };
            title.max(cells)
        })
        .collect();
    let mut widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| longest(&mut of_cells(index)).max(column.title.chars().count()))
        .collect();
    let room = COLUMNS.checked_sub(GAP * widths.len().saturating_sub(1))?;
    // Titles give way first, as they are read once; then words, as numbers cannot.
    let of_cells: Vec<usize> =
        (0..widths.len()).map(|index| longest(&mut of_cells(index))).collect();
    for keep_cells in [true, false] {
        while widths.iter().sum::<usize>() > room {
            let least_of = |index: usize| {
                let of_cells = of_cells.get(index).copied().filter(|_| keep_cells).unwrap_or(0);
                least.get(index).copied().unwrap_or(0).max(of_cells)
            };
            // The widest that may still give way does, by one.
            let widest = widths
                .iter()
                .enumerate()
                .filter(|(index, width)| **width > least_of(*index))
                .max_by_key(|(_, width)| **width)
                .map(|(index, _)| index);
            match widest.and_then(|index| widths.get_mut(index)) {
                Some(width) => *width -= 1,
                None if keep_cells => break,
                None => return None,
            }
        }
    }
    Some(widths)
}

/// One row in as many lines as its tallest cell needs; titles keep to the rule below them.
fn row(table: &Table, cells: &[String], widths: &[usize], is_title: bool, out: &mut String) {
    let broken: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let mut text = String::new();
        for (index, (lines, width)) in broken.iter().zip(widths).enumerate() {
            // Titles stand on the rule below them, cells hang from the line above.
            let at = if is_title { (line + lines.len()).checked_sub(height) } else { Some(line) };
            let piece = at.and_then(|at| lines.get(at)).map_or("", String::as_str);
            if index > 0 {
                text.push_str(&" ".repeat(GAP));
            }
            match table.columns.get(index).map(|column| column.align) {
                Some(Align::Right) => text.push_str(&format!("{piece:>width$}")),
                _ => text.push_str(&format!("{piece:<width$}")),
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// A table that fits no other way: a line for each cell, rows apart.
fn by_row(table: &Table, out: &mut String) {
    let label = table.columns.iter().map(|column| column.title.chars().count()).max().unwrap_or(0);
    let label = label.min(COLUMNS / 2);
    for (index, cells) in table.rows.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        for (at, column) in table.columns.iter().enumerate() {
            let line =
                format!("{:<label$}  {}", clean(&column.title), Table::cell(cells, at).shown());
            out.push_str(&wrapped_keeping(&line, label + 2));
        }
    }
}

/// `text` broken between words, the first line behind `first` spaces and the others behind `indent`.
fn wrapped(text: &str, first: usize, indent: usize) -> String {
    let mut out = String::new();
    for (index, piece) in pieces(&clean(text), COLUMNS - indent.max(first)).iter().enumerate() {
        out.push_str(&" ".repeat(if index == 0 { first } else { indent }));
        out.push_str(piece);
        out.push('\n');
    }
    out
}

/// As [`wrapped`], but the first `indent` characters stay as they are.
fn wrapped_keeping(line: &str, indent: usize) -> String {
    let head: String = line.chars().take(indent).collect();
    let tail: String = line.chars().skip(indent).collect();
    let mut out = String::new();
    for (index, piece) in pieces(&clean(&tail), COLUMNS - indent).iter().enumerate() {
        let before = if index == 0 { clean_keeping(&head) } else { " ".repeat(indent) };
        out.push_str(format!("{before}{piece}").trim_end());
        out.push('\n');
    }
    out
}

/// `text` in pieces of at most `width` characters, broken between words; a word that is longer than
/// that is cut. At least one piece.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let last = lines.last_mut().expect("there is at least one line");
            let used = last.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + word.len() <= width {
                last.extend(std::iter::repeat_n(' ', gap).chain(word.drain(..)));
            } else if used == 0 {
                last.extend(word.drain(..width));
                lines.push(String::new());
            } else {
                lines.push(String::new());
            }
        }
    }
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// `text` in one line, control characters made visible, spaces joined.
fn clean(text: &str) -> String {
    let visible = clean_keeping(text);
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` in one line, control characters made visible.
fn clean_keeping(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Document, KeyFigure, Section, Verdict};

    #[test]
    fn words_give_way_before_numbers_do() {
        let shown = table(
            &Table::new([
                Column::text("what it is about"),
                Column::number("power, W"),
                Column::text("remark"),
            ])
            .with(["server", "1,234.5", &"several words ".repeat(12)])
            .with(["switch", "150.0", "short"]),
        );
        assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
        assert!(shown.contains("1,234.5"), "{shown}");
        assert!(shown.lines().count() > 5, "{shown}");
    }

    #[test]
    fn a_table_of_too_many_columns_is_shown_row_by_row() {
        let columns = (0..12).map(|index| Column::number(format!("column-{index}")));
        let shown = table(&Table::new(columns).with(vec!["123,456.78"; 12]));
        assert_eq!(shown.lines().count(), 12, "{shown}");
        assert!(shown.starts_with("column-0   123,456.78\n"), "{shown}");
    }

    #[test]
    fn figures_stand_below_each_other_with_their_verdicts() {
        let shown = render(
            &Document::new("T").with(
                Section::new("S")
                    .with(
                        KeyFigure::new("late segments", "0")
                            .verdict(Verdict::Pass)
                            .limit("at most 1"),
                    )
                    .with(KeyFigure::new("rate", "42.5 Gbit/s")),
            ),
        );
        assert_eq!(
            shown,
            "T\n\n== S\n\nlate segments            0  ✓ pass (at most 1)\n\
             rate           42.5 Gbit/s\n"
        );
    }

    #[test]
    fn listings_keep_their_lines() {
        let shown = render(&Document::new("T").with(Block::listing("a  b\n  c")));
        assert_eq!(shown, "T\n\n    a  b\n      c\n");
    }
}
