//! An outcome as text, page, JSON and CSV.

use crate::outcome::{Agrees, Check, Outcome, ResultColumn, ResultTable, Value};
use freshet_report::{
    Block, Cell, Column, Document, KeyFigure, Section, Table, Verdict, csv, html, number, text,
};

/// Checks of one place in a paper are listed one by one up to this many; more are counted, and only
/// those that differ are listed.
const CHECKS_LISTED_MAX: usize = 8;

/// For a terminal of 80 columns.
pub fn as_text(outcome: &Outcome) -> String {
    text::render(&document(outcome))
}

/// One self-contained page.
pub fn as_html(outcome: &Outcome) -> String {
    html::page(&document(outcome))
}

/// Everything, for programs; ends with a line break.
pub fn as_json(outcome: &Outcome) -> String {
    let mut out = serde_json::to_string_pretty(outcome).expect("an outcome has text keys only");
    out.push('\n');
    out
}

/// All numbers, one in a line: table, row, column, value, unit, formula. A what-if range is a table
/// of its own, and then the only one.
pub fn as_csv(outcome: &Outcome) -> String {
    let titles = ["table", "row", "column", "value", "unit", "formula"];
    let mut all = Table::new(titles.map(Column::text));
    if let Some(range) = &outcome.range {
        return csv::table(&wide(&range.table));
    }
    for figure in &outcome.figures {
        let value = figure.value.to_string();
        all.push(["figures", "", &figure.name, &value, &figure.unit, figure.formula]);
    }
    for table in &outcome.tables {
        for row in &table.rows {
            let words: Vec<&str> = row
                .iter()
                .filter_map(|value| match value {
                    Value::Text(text) => Some(text.as_str()),
                    Value::Number(_) => None,
                })
                .collect();
            for (column, value) in table.columns.iter().zip(row) {
                if let Value::Number(value) = value {
                    let (row, value) = (words.join("; "), value.to_string());
                    all.push([
                        table.name,
                        &row,
                        &column.title,
                        &value,
                        &column.unit,
                        column.formula,
                    ]);
                }
            }
        }
    }
    csv::table(&all)
}

/// A table with its numbers as they are, for a spreadsheet.
fn wide(table: &ResultTable) -> Table {
    let mut out = Table::new(table.columns.iter().map(column));
    for row in &table.rows {
        out.push(row.iter().map(|value| match value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        }));
    }
    out
}

/// The report.
pub fn document(outcome: &Outcome) -> Document {
    let mut document = Document::new(&outcome.title).summary(&outcome.summary);
    for figure in &outcome.figures {
        let value = with_unit(&number::fixed(figure.value, figure.decimals), &figure.unit);
        document.push(KeyFigure::new(&figure.name, value));
    }
    document.blocks.extend(outcome.plots.iter().cloned().map(Block::from));
    match &outcome.range {
        Some(range) => document.push(results(&range.table)),
        None => {
            let tables = outcome.tables.iter().filter(|table| !table.rows.is_empty());
            tables.for_each(|table| document.push(results(table)));
        }
    }
    papers(outcome, &mut document);
    if !outcome.assumptions.is_empty() {
        let items = Block::items(&outcome.assumptions);
        document.push(Section::new("Assumptions and notes").with(items));
    }
    document.push(formulas(outcome));
    document.push(inputs(outcome));
    document.footer("freshet plan. Models and inputs from the papers named above.")
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

fn column(column: &ResultColumn) -> Column {
    let title = match column.unit.as_str() {
        "" => column.title.clone(),
        unit => format!("{}, {unit}", column.title),
    };
    let is_words = column.unit.is_empty() && column.formula.is_empty() && column.decimals == 0;
    if is_words { Column::text(title) } else { Column::number(title) }
}

fn results(table: &ResultTable) -> Section {
    // A unit that all numbers share is said once, and the columns stay narrow.
    let mut units = table.columns.iter().filter(|column| !column.formula.is_empty());
    let shared = units.next().map(|first| first.unit.clone()).filter(|first| {
        !first.is_empty() && table.columns.len() > 2 && units.all(|other| other.unit == *first)
    });
    let columns = table.columns.iter().map(|one| match shared {
        Some(_) if !one.formula.is_empty() => {
            column(&ResultColumn { unit: String::new(), ..one.clone() })
        }
        _ => column(one),
    });
    let mut shown = Table::new(columns);
    for row in &table.rows {
        shown.push(table.columns.iter().zip(row).map(|(column, value)| match value {
            Value::Number(value) => number::fixed(*value, column.decimals),
            Value::Text(text) => text.clone(),
        }));
    }
    let title = match shared {
        Some(unit) => format!("{}, {unit}", table.title),
        None => table.title.clone(),
    };
    Section::new(title).with(shown)
}

fn papers(outcome: &Outcome, document: &mut Document) {
    let mut section = Section::new("Beside the papers");
    section.push(Block::items(outcome.papers.iter().copied()));
    if outcome.is_changed {
        section.push("Inputs differ from the papers', so their figures are not compared.");
    }
    let mut sources: Vec<&str> = outcome.checks.iter().map(|check| check.source).collect();
    sources.dedup();
    for source in sources {
        let of_source: Vec<&Check> =
            outcome.checks.iter().filter(|check| check.source == source).collect();
        let good = of_source.iter().filter(|check| check.agrees == Agrees::ToTheLastDigit).count();
        let mut listed = of_source.clone();
        if good > CHECKS_LISTED_MAX {
            let verdict = if good == of_source.len() { Verdict::Pass } else { Verdict::Fail };
            section.push(
                KeyFigure::new(source, format!("{good} of {}", of_source.len()))
                    .limit("cells to the last printed digit")
                    .verdict(verdict),
            );
            listed.retain(|check| check.agrees != Agrees::ToTheLastDigit);
        }
        if !listed.is_empty() {
            section.push(checks(source, &listed));
        }
    }
    document.push(section);
    if !outcome.contradictions.is_empty() {
        let mut section = Section::new("Where the papers contradict themselves");
        for one in &outcome.contradictions {
            section.push(
                Section::new(one.source)
                    .with(format!("It says: {}.", one.says.trim_end_matches('.')))
                    .with(format!("But: {}.", one.but.trim_end_matches('.')))
                    .with(format!("Because: {}.", one.why.trim_end_matches('.'))),
            );
        }
        document.push(section);
    }
}

fn checks(source: &str, listed: &[&Check]) -> Table {
    let mut table = Table::new([
        Column::text(source),
        Column::number("paper"),
        Column::number("model"),
        Column::text("agrees"),
    ]);
    for check in listed {
        let (verdict, word) = match check.agrees {
            Agrees::ToTheLastDigit => (Verdict::Pass, "to the digit"),
            Agrees::WithinItsWords => (Verdict::Pass, "as worded"),
            Agrees::No => (Verdict::Fail, "no"),
        };
        table.push([
            Cell::from(check.what.as_str()),
            Cell::from(check.paper.as_str()),
            Cell::from(check.model.as_str()),
            Cell::judged(word, verdict),
        ]);
    }
    table
}

fn formulas(outcome: &Outcome) -> Section {
    let mut section = Section::new("Formulas");
    for formula in &outcome.formulas {
        let mut items = vec![format!("{} = {}", formula.result, formula.formula)];
        if !formula.example.is_empty() {
            items.push(format!("for example: {}", formula.example));
        }
        items.push(format!("from: {}", formula.source));
        if !formula.inputs.is_empty() {
            items.push(format!("inputs: {}", formula.inputs.join(", ")));
        }
        section.push(Section::new(formula.result).with(Block::items(items)));
    }
    section
}

fn inputs(outcome: &Outcome) -> Section {
    let mut table =
        Table::new([Column::text("input"), Column::number("value"), Column::text("from")]);
    for input in &outcome.inputs {
        table.push([input.key.as_str(), input.value.as_str(), input.source.as_str()]);
    }
    Section::new("Inputs").with(table)
}
