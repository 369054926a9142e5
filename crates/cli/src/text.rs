//! Text for a terminal of 80 columns, and text of files that people name.

use anyhow::{Context, Result};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Largest configuration or list of rules that is read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The width all output keeps to.
pub(crate) const COLUMNS: usize = 80;

/// The narrowest terminal that running text is broken for.
const COLUMNS_MIN: usize = 20;

/// The width of running text: that of the terminal it is for, where that is a narrow one.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(COLUMNS, |columns| columns.clamp(COLUMNS_MIN, COLUMNS))
}

/// The width of a row, of which a terminal shows what it has room for. Into a pipe or a file it goes whole: who reads it may look for its end.
pub(crate) fn row_columns() -> usize {
    if io::stdout().is_terminal() { columns() } else { usize::MAX }
}

/// All of a configuration, or of a list of rules.
///
/// # Errors
/// Why the file cannot be read, with its name.
pub(crate) fn read(path: &Path) -> Result<String> {
    freshet_base::file::read_text(path, FILE_BYTES_MAX)
        .with_context(|| format!("{} cannot be read", path.display()))
}

/// Writes to standard output. A reader that has seen enough, as `head` has, ends the program.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Writes a line to standard output as [`print()`] does; takes what `println!` takes, which panics
/// where nobody reads any more.
macro_rules! say {
    ($($line:tt)*) => {
        $crate::text::print(&format!("{}\n", format_args!($($line)*)))
    };
}

/// Writes to standard error what `eprint!` takes, which panics where that cannot be written, as on a disk
/// that is full: what a program has to say is no reason for it to end.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::text::tell(format_args!($($text)*))
    };
}

/// As `tell!`.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Appends `text` broken between words into lines of [`columns()`], each after the first with `indent`
/// spaces. A word longer than a line, as URLs are, gets one of its own.
pub(crate) fn wrap(text: &str, indent: usize, out: &mut String) {
    wrap_at(columns(), text, indent, out);
}

/// The same for a width.
pub(crate) fn wrap_at(columns: usize, text: &str, indent: usize, out: &mut String) {
    let start = out.rfind('\n').map_or(0, |at| at + 1);
    let mut column = out[start..].chars().count();
    let mut is_first = true;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if !is_first {
            if column + 1 + width > columns {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += width;
        is_first = false;
    }
    out.push('\n');
}

/// `text`, cut to `width` columns with a sign that it was; control characters made visible, as
/// what clients send must not reach a terminal as it is.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if shown.chars().count() > width {
        shown = shown.chars().take(width.saturating_sub(1)).collect();
        shown.push('…');
    }
    shown
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds for people.
pub(crate) fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// A share as `91.4 %`; a dash where there is nothing to share.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_to_the_width_and_the_indent() {
        let mut out = "label   ".to_owned();
        wrap(&"word ".repeat(40), 8, &mut out);
        assert!(out.lines().all(|line| line.chars().count() <= COLUMNS), "{out}");
        assert!(out.lines().skip(1).all(|line| line.starts_with("        word")), "{out}");
        let mut narrow = "label   ".to_owned();
        wrap_at(40, &"word ".repeat(40), 8, &mut narrow);
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            ["7", "1,204", "1,000,000"],
            [7, 1_204, 1_000_000].map(thousands).each_ref().map(|s| s.as_str())
        );
        assert_eq!(
            ["312 µs", "1.2 ms", "250 ms", "3.0 s"].map(String::from),
            [312, 1_250, 250_000, 3_000_000].map(micros)
        );
        assert_eq!((percent(1, 4), percent(0, 0)), ("25.0 %".into(), "-".into()));
    }

    #[test]
    fn what_clients_send_cannot_reach_the_terminal() {
        assert_eq!(cut("a\u{1b}[2Jb", 80), "a\u{fffd}[2Jb");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
