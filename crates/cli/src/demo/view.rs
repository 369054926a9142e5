//! What a person sees: figures that stay in place on a terminal, a line per second elsewhere.

use super::figures::{Moment, Part, Summary};
use freshet_base::units::format_bytes;
use freshet_lab::origin;
use std::collections::VecDeque;
use std::env;
use std::io::{self, Write};

/// Seconds of throughput drawn beside the figures; with them, lines have 80 columns.
const HISTORY: usize = 26;

/// Lines of text between two headings of columns.
const HEADING_EVERY: u64 = 20;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws figures.
pub(super) struct View {
    shape: Shape,
    is_coloured: bool,
    /// What is on offer, in words.
    offer: String,
}

enum Shape {
    /// Figures in place: the gigabits of the last seconds to clients and from the origin, and how
    /// many lines are to be drawn over.
    InPlace { history: VecDeque<(f64, f64)>, drawn_lines: usize },
    /// Lines: how many there were.
    Lines(u64),
}

impl View {
    /// A view of a demonstration for a terminal, or for whatever else output goes to.
    pub(super) fn new(is_terminal: bool, offer: &origin::Settings) -> Self {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let in_place = is_terminal && !is_dumb;
        let is_coloured = in_place && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let shape = match in_place {
            true => Shape::InPlace { history: VecDeque::new(), drawn_lines: 0 },
            false => Shape::Lines(0),
        };
        let offer = format!("{} live channels, {} titles", offer.channels, offer.titles);
        Self { shape, is_coloured, offer }
    }

    /// Says what this is and what to try.
    pub(super) fn introduce(&self, out: &mut dyn Write, urls: &str) -> io::Result<()> {
        let title = self.bold("freshet demo");
        writeln!(out, "{title}: an origin, a node in front of it, and viewers, on this machine")?;
        writeln!(out, "\n{urls}")?;
        out.flush()
    }

    /// Shows the figures of this moment.
    pub(super) fn refresh(&mut self, out: &mut dyn Write, moment: &Moment) -> io::Result<()> {
        match &mut self.shape {
            Shape::Lines(count) => {
                if count.is_multiple_of(HEADING_EVERY) {
                    writeln!(out, "{HEADING}")?;
                }
                *count += 1;
                writeln!(out, "{}", line(moment))?;
            }
            Shape::InPlace { history, .. } => {
                let rates = &moment.last.rates;
                history.push_back((rates.bits_per_second, rates.origin_bits_per_second));
                if history.len() > HISTORY {
                    history.pop_front();
                }
                let history = history.make_contiguous().to_vec();
                let lines = self.block(moment, &history);
                self.draw(out, &lines)?;
            }
        }
        out.flush()
    }

    /// Says how it went.
    pub(super) fn close(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        // The block stays as the last second left it, without its line about Ctrl-C.
        if let Shape::InPlace { drawn_lines, .. } = self.shape
            && drawn_lines > 0
        {
            write!(out, "\r\x1b[2A\x1b[J")?;
        }
        writeln!(out, "\n{}", self.bold(&headline(summary)))?;
        writeln!(
            out,
            "  {} to clients at {:.3} Gbit/s, {} from the origin",
            format_bytes(summary.body_bytes),
            summary.gbit_per_second,
            format_bytes(summary.origin_body_bytes)
        )?;
        writeln!(
            out,
            "  byte hit ratio {}, request hit ratio {} of {} requests",
            percent(summary.byte_hit_ratio),
            percent(summary.request_hit_ratio),
            summary.requests
        )?;
        writeln!(
            out,
            "  TTFB p50 {}, p99 {}; {} segments, {} late; {} errors",
            millis(summary.ttfb_p50_ms),
            millis(summary.ttfb_p99_ms),
            summary.segments,
            summary.late,
            summary.errors
        )?;
        out.flush()
    }

    /// Draws over what was drawn last. Lines are cut at the right edge, not wrapped: wrapped ones
    /// would not be where the next drawing begins.
    fn draw(&mut self, out: &mut dyn Write, lines: &[String]) -> io::Result<()> {
        let Shape::InPlace { drawn_lines, .. } = &mut self.shape else { return Ok(()) };
        let mut text = String::from("\x1b[?7l\r");
        if *drawn_lines > 0 {
            text.push_str(&format!("\x1b[{drawn_lines}A"));
        }
        for line in lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J\x1b[?7h");
        *drawn_lines = lines.len();
        out.write_all(text.as_bytes())
    }

    fn block(&self, moment: &Moment, history: &[(f64, f64)]) -> Vec<String> {
        let (recent, whole) = (&moment.recent, &moment.whole);
        let row = |name: &str, of: &dyn Fn(&Part) -> String, rest: &str| {
            format!("  {name:<18}{:>15}{:>16}   {rest}", of(recent), of(whole))
                .trim_end()
                .to_owned()
        };
        let top = history.iter().fold(0.0_f64, |top, (sent, fetched)| top.max(*sent).max(*fetched));
        let sent: String = history.iter().map(|(sent, _)| bar(*sent, top)).collect();
        let fetched: String = history.iter().map(|(_, fetched)| bar(*fetched, top)).collect();
        let warn = |text: String, count: u64| if count > 0 { self.red(&text) } else { text };
        let seconds = moment.seconds as u64;
        vec![
            self.bold(&format!("  {:<18}{:>15}{:>16}", "", "last 10 s", "since start")),
            row("to clients", &|part| gbit(part.rates.bits_per_second), &self.green(&sent)),
            row(
                "from the origin",
                &|part| gbit(part.rates.origin_bits_per_second),
                &self.yellow(&fetched),
            ),
            row("byte hit ratio", &|part| percent(part.hits.byte_ratio()), ""),
            row("request hit ratio", &|part| percent(part.hits.request_ratio()), ""),
            row("TTFB p50", &|part| micros(part, part.rates.first_byte.p50_us), ""),
            row("TTFB p99", &|part| micros(part, part.rates.first_byte.p99_us), ""),
            warn(row("late segments", &|part| part.rates.late.to_string(), ""), whole.rates.late),
            warn(row("errors", &|part| part.rates.errors.to_string(), ""), whole.rates.errors),
            String::new(),
            format!(
                "  {}, {} viewers, {}:{:02}. Ctrl-C ends it.",
                self.offer,
                recent.rates.viewers,
                seconds / 60,
                seconds % 60
            ),
        ]
    }

    fn bold(&self, text: &str) -> String {
        self.styled("1", text)
    }

    fn green(&self, text: &str) -> String {
        self.styled("32", text)
    }

    fn yellow(&self, text: &str) -> String {
        self.styled("33", text)
    }

    fn red(&self, text: &str) -> String {
        self.styled("31", text)
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const HEADING: &str =
    "second channels viewers  Gbit/s  byte hit  req hit  p50 ms  p99 ms  late  errors";

/// The figures of the last second under [`HEADING`], as words that scripts can split.
fn line(moment: &Moment) -> String {
    let Part { rates, hits } = &moment.last;
    let percent = |ratio: Option<f64>| {
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0))
    };
    let millis = |micros: u64| match rates.first_byte.count {
        0 => "-".to_owned(),
        _ => format!("{:.2}", micros as f64 / 1e3),
    };
    format!(
        "{:>6.0} {:>8} {:>7} {:>7.3} {:>9} {:>8} {:>7} {:>7} {:>5} {:>7}",
        moment.seconds,
        rates.channels,
        rates.viewers,
        rates.bits_per_second / 1e9,
        percent(hits.byte_ratio()),
        percent(hits.request_ratio()),
        millis(rates.first_byte.p50_us),
        millis(rates.first_byte.p99_us),
        rates.late,
        rates.errors,
    )
}

fn headline(summary: &Summary) -> String {
    format!(
        "{:.1} s with {} channels, {} titles and {} viewers",
        summary.seconds, summary.channels, summary.titles, summary.viewers
    )
}

/// `value` as a bar of a column, where `top` is the highest.
fn bar(value: f64, top: f64) -> char {
    let step = if top > 0.0 { (value / top * (BLOCKS.len() - 1) as f64).round() } else { 0.0 };
    BLOCKS.get(step as usize).copied().unwrap_or(' ')
}

fn gbit(bits_per_second: f64) -> String {
    format!("{:.3} Gbit/s", bits_per_second / 1e9)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}

fn micros(part: &Part, micros: u64) -> String {
    millis((part.rates.first_byte.count > 0).then(|| micros as f64 / 1e3))
}

fn millis(millis: Option<f64>) -> String {
    millis.map_or_else(|| "-".to_owned(), |millis| format!("{millis:.2} ms"))
}
