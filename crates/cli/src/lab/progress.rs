//! One line that says what a scenario does, how that goes and how long it will take.

use crate::text::{COLUMNS, micros, thousands};
use freshet_lab::scenario::Moment;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

/// How often the line is written anew on a terminal.
const REFRESH: Duration = Duration::from_millis(250);

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The line.
pub(super) struct Line {
    is_terminal: bool,
    step: String,
    written: Option<Instant>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), step: String::new(), written: None }
    }

    pub(super) fn show(&mut self, moment: &Moment) {
        let name = format!("{}/{} {}", moment.number, moment.steps, moment.step);
        let is_new = name != self.step;
        let every = if self.is_terminal { REFRESH } else { LINE_EVERY };
        if !is_new && self.written.is_some_and(|written| written.elapsed() < every) {
            return;
        }
        self.step = name;
        self.written = Some(Instant::now());
        let text = text(moment);
        // Whoever closed standard error does not want to know.
        let _ = match self.is_terminal {
            true => write!(stderr(), "\r\x1b[K{text}").and_then(|()| stderr().flush()),
            false => writeln!(stderr(), "{text}"),
        };
    }

    pub(super) fn end(&mut self) {
        if self.is_terminal && self.written.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn text(moment: &Moment) -> String {
    let now = &moment.progress;
    let head = format!("{}/{} {}", moment.number, moment.steps, moment.step);
    let mut tail = String::new();
    if now.at_s < 0.0 || now.requests_per_second <= 0.0 {
        tail.push_str(&format!("  {} open", now.connections));
    } else {
        tail.push_str(&format!(
            "  {:.2} Gbit/s  {}/s  99 % {}",
            now.bits_per_second / 1e9,
            thousands(now.requests_per_second.round() as u64),
            micros(now.p99_us),
        ));
    }
    if now.errors > 0 {
        tail.push_str(&format!("  {} errors", thousands(now.errors)));
    }
    // Filling goes on until it is done.
    if moment.left_s < 80_000.0 {
        tail.push_str(&format!("  {} left", left(moment.left_s)));
    }
    let room = (COLUMNS - 1).saturating_sub(tail.chars().count());
    format!("{}{tail}", crate::text::cut(&head, room))
}

fn left(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_load::Progress;

    #[test]
    fn the_line_fits_a_terminal_whatever_happens() {
        let progress = Progress {
            at_s: 12.0,
            left_s: 100.0,
            bits_per_second: 123.4e9,
            requests_per_second: 1_234_567.0,
            p99_us: 123_456,
            errors: 12_345,
            ..Progress::default()
        };
        let step = "a step with a very long name that its user came up with".repeat(3);
        let moment = Moment { step, number: 3, steps: 15, left_s: 7000.0, progress };
        let line = text(&moment);
        assert!(line.chars().count() < COLUMNS, "{line}");
        assert!(line.contains("errors") && line.ends_with("1.9 h left"), "{line}");
        assert_eq!([left(0.2), left(91.0), left(90.0)], ["1 s", "2 min", "90 s"]);
    }
}
