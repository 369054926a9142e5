//! Lifetimes, ages and timeouts in policies that are run: read to the second, and set to what both keep.

use super::Grammar;
use super::values::fits_version;
use freshet_vcl::variables::{Definition, VARIABLES};
use freshet_vcl::{State, Type};

/// As long as no request takes, and none at all.
const LONG: [&str; 6] = ["30s", "1m", "1.5h", "100.25s", "12345ms", "1w"];
/// Shorter than some answers of the origin take, and longer than the others do.
const SHORT: [&str; 3] = ["400ms", "0.4s", "5s"];

/// Whether a policy can say how long an origin may take.
fn is_of_fetch(one: &Definition) -> bool {
    one.name.starts_with("bereq.") && one.name.ends_with("_timeout")
}

fn is_span(one: &Definition) -> bool {
    one.of == Type::Duration && !one.name.contains("deadline")
}

impl Grammar {
    fn spans(&self, has: impl Fn(&Definition, State) -> bool) -> Vec<&'static Definition> {
        let (state, version) = (self.state, self.version);
        let fits = |one: &&Definition| is_span(one) && fits_version(one, version);
        VARIABLES.iter().filter(fits).filter(|one| has(one, state)).collect()
    }

    /// Shows how much is left or has gone by, to the second: both have needed some moments by then.
    pub(super) fn reads_span(&mut self) {
        // What a policy has not set of a fetch reads as 0 in Varnish 7.1.
        let readable = self.spans(|one, state| one.read.has(state) && !is_of_fetch(one));
        if readable.is_empty() || !self.has_fields(true) {
            return self.set();
        }
        let (name, field) = (self.draw.of(&readable).name, self.field(true));
        let whole = match self.draw.below(3) {
            0 => format!("std.integer(duration={name} + 250ms, fallback=-7)"),
            1 => format!("std.real2integer(std.real(duration={name} + 0.25s), -7)"),
            _ => format!("std.duration(integer=std.integer(duration=250ms + {name}))"),
        };
        self.line(&format!("set {field} = \"\" + {whole};"));
    }

    /// Sets a timeout, and shows what it is then.
    pub(super) fn sets_timeout(&mut self) {
        let settable = self.spans(|one, state| {
            one.write.has(state) && (is_of_fetch(one) || one.name.starts_with("sess."))
        });
        if settable.is_empty() {
            return self.set();
        }
        let one = self.draw.of(&settable);
        let short = is_of_fetch(one) && !one.name.contains("connect") && self.draw.once_in(2);
        let value = self.draw.of(if short { &SHORT[..] } else { &LONG[..] });
        let value = match self.draw.below(3) {
            0 => format!("std.duration(\"{value}\", 20s)"),
            1 => format!("{value} + 1s"),
            _ => value.to_owned(),
        };
        self.line(&format!("set {} = {value};", one.name));
        if self.draw.once_in(3) {
            let (operator, by) =
                self.draw.of(&[&("*=", "2.0"), &("+=", "1s"), &("/=", "1.25"), &("-=", "100ms")]);
            self.line(&format!("set {} {operator} {by};", one.name));
        }
        if self.has_fields(true) {
            let field = self.field(true);
            self.line(&format!("set {field} = \"\" + {};", one.name));
        }
    }
}
