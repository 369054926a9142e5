//! A table for a spreadsheet.

use crate::table::Table;

/// The table as RFC 4180 has it: a line of titles, a line for each row, each ended by CRLF; fields
/// with a comma, a quote or a line break are quoted. Other control characters are made visible: a terminal may
/// be what reads it.
pub fn table(table: &Table) -> String {
    let mut out = String::new();
    line(table.columns.iter().map(|column| column.title.as_str()), &mut out);
    for row in &table.rows {
        let cells = (0..table.columns.len()).map(|column| Table::cell(row, column));
        line(
            cells.map(|cell| match cell.verdict {
                Some(verdict) if cell.text.is_empty() => verdict.word(),
                _ => cell.text.as_str(),
            }),
            &mut out,
        );
    }
    out
}

fn line<'a>(fields: impl Iterator<Item = &'a str>, out: &mut String) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        let is_hidden = |c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\t');
        let field = field.replace(is_hidden, "\u{fffd}");
        if field.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use crate::{Column, Table};

    #[test]
    fn what_a_name_has_in_it_cannot_reach_the_terminal() {
        let shown = Table::new([Column::text("a\u{1b}[2J")]);
        assert_eq!(super::table(&shown), "a\u{fffd}[2J\r\n");
    }

    #[test]
    fn fields_that_need_quotes_get_them() {
        let shown = Table::new([Column::text("a"), Column::number("b, W")])
            .with(["say \"no\"", "1"])
            .with(["two\nlines"]);
        assert_eq!(
            super::table(&shown),
            "a,\"b, W\"\r\n\"say \"\"no\"\"\",1\r\n\"two\nlines\",\r\n"
        );
    }
}
