//! Values of parameters: reading, bounds and showing.

use super::Kind;
use freshet_node::transcript::Tag;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fmt;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Integer(u64),
    Real(f64),
    Bytes(u64),
    /// The flags that are set, in the table's order.
    Flags(Vec<&'static str>),
    /// Numbers of the tags that are not written.
    Mask(BTreeSet<u8>),
    Pool([u64; 3]),
    Text(String),
}

/// Bounds as the table has them; empty where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounded {
    pub(super) minimum: &'static str,
    pub(super) maximum: &'static str,
}

impl Kind {
    /// Reads a value of the parameter of this name. `before` are the value in force and the default, which flags build on.
    pub(super) fn parse(
        self,
        name: &str,
        text: &str,
        before: Option<(&Value, &Value)>,
        bounds: Bounded,
    ) -> Result<Value, String> {
        Ok(match self {
            Self::Bool => Value::Bool(bool(text)?),
            Self::Integer => {
                let number = integer(text)?;
                bounds.check(number, integer, WHOLE)?;
                Value::Integer(number)
            }
            Self::Real | Self::Duration => {
                let number = real(text)?;
                bounds.check(number, real, ["greater or equal to", "less than or equal to"])?;
                Value::Real(number)
            }
            Self::Bytes => {
                let number = bytes(text)?;
                bounds.check(number, bytes, WHOLE)?;
                Value::Bytes(number)
            }
            Self::Flags(names) => Value::Flags(flags(text, (name, names), before)?),
            Self::LogMask => Value::Mask(mask(text, before)?),
            Self::Pool => Value::Pool(pool(text)?),
            Self::Text => Value::Text(text.into()),
        })
    }
}

/// How bounds of whole numbers are called; those of others have words of their own.
const WHOLE: [&str; 2] = ["at least", "no more than"];

impl Bounded {
    fn check<T: PartialOrd>(
        self,
        number: T,
        read: impl Fn(&str) -> Result<T, String>,
        [at_least, at_most]: [&str; 2],
    ) -> Result<(), String> {
        if !self.minimum.is_empty() && read(self.minimum).is_ok_and(|minimum| number < minimum) {
            return Err(format!("Must be {at_least} {}", self.minimum));
        }
        if !self.maximum.is_empty() && read(self.maximum).is_ok_and(|maximum| number > maximum) {
            return Err(format!("Must be {at_most} {}", self.maximum));
        }
        Ok(())
    }
}

impl Value {
    pub(super) fn json(&self) -> Json {
        match self {
            Self::Bool(on) => json!(on),
            Self::Integer(number) | Self::Bytes(number) => json!(number),
            Self::Real(number) => json!(number),
            Self::Pool([least, most, age]) => {
                json!({ "min_pool": least, "max_pool": most, "max_age": age })
            }
            Self::Flags(_) | Self::Mask(_) | Self::Text(_) => json!(self.to_string()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Integer(number) => number.fmt(f),
            // The one parameter that is neither an integer nor seconds has one decimal.
            Self::Real(number) if *number == 0.9 => f.write_str("0.9"),
            Self::Real(number) => write!(f, "{number:.3}"),
            Self::Bytes(number) => f.write_str(&show_bytes(*number)),
            Self::Flags(flags) if flags.is_empty() => f.write_str("none"),
            Self::Flags(flags) => {
                let flags: Vec<_> = flags.iter().map(|flag| format!("+{flag}")).collect();
                f.write_str(&flags.join(","))
            }
            Self::Mask(masked) if masked.is_empty() => f.write_str("(all enabled)"),
            Self::Mask(masked) => {
                let names = Tag::ALL.iter().filter(|tag| masked.contains(&tag.number()));
                let names: Vec<_> = names.map(|tag| format!("-{}", tag.name())).collect();
                f.write_str(&names.join(","))
            }
            Self::Pool([least, most, age]) => write!(f, "{least},{most},{age}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

fn bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "enable" => Ok(true),
        "off" | "false" | "no" | "disable" => Ok(false),
        _ => Err("use \"on\" or \"off\"".into()),
    }
}

fn integer(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::from(u32::MAX));
    }
    text.parse().map_err(|_| format!("Not a number ({text})"))
}

/// Digits before the point of a number with decimals (RFC 8941 §3.3.2).
const DIGITS_MAX: usize = 12;

fn real(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        None => (text, 1.0),
        Some(at) => {
            let scale = match &text[at..] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "w" => 7.0 * 86_400.0,
                "y" => 365.0 * 86_400.0,
                _ => return Err(format!("Invalid number ({text})")),
            };
            // Newer versions let a space stand before the unit.
            (text[..at].trim_end(), scale)
        }
    };
    let digits = number.trim_start_matches('-').bytes().take_while(u8::is_ascii_digit).count();
    if digits > DIGITS_MAX {
        return Err(format!("Too many digits ({text})"));
    }
    let number: f64 = number.parse().map_err(|_| format!("Invalid number ({text})"))?;
    Ok(number * scale)
}

/// Bytes with a suffix for powers of 1024 and an optional fraction.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let wrong = |why: &str| {
        format!("Could not convert to bytes.\n{why}\n  Try something like '80k' or '120M'")
    };
    if !number.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(wrong("Invalid number"));
    }
    let suffix = suffix.to_ascii_lowercase();
    let suffix =
        if suffix.len() > 1 { suffix.strip_suffix('b').unwrap_or(&suffix) } else { &suffix };
    let shift = match suffix {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(wrong("Unknown BYTES unit of measurement ([KMGTP][B])")),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(|| wrong("Too many digits"));
    }
    if shift == 0 {
        return Err(wrong("Fractional BYTES not allowed"));
    }
    let number: f64 = number.parse().map_err(|_| wrong("Invalid number"))?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of a unit that is at most 2^50"
    )]
    let bytes = (number * (1_u64 << shift) as f64).round() as u64;
    Ok(bytes)
}

/// As short as it is exact.
fn show_bytes(number: u64) -> String {
    if number == 0 || number & 0xff != 0 {
        return format!("{number}b");
    }
    let mut number = number;
    for suffix in ["k", "M", "G", "T", "P", "E"] {
        if number & 0x300 != 0 {
            return match number {
                0..1024 => format!("0.{:02}{suffix}", number * 100 / 1024),
                _ => format!("{}.{:02}{suffix}", number >> 10, (number & 0x3ff) * 100 / 1024),
            };
        }
        number >>= 10;
        if number & 0xff != 0 {
            return format!("{number}{suffix}");
        }
    }
    format!("{number}E")
}

/// Words of a list: by commas and white space.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t']).filter(|word| !word.is_empty())
}

fn flags(
    text: &str,
    (what, names): (&str, &'static [&'static str]),
    before: Option<(&Value, &Value)>,
) -> Result<Vec<&'static str>, String> {
    let (mut set, default) = match before {
        Some((Value::Flags(now), Value::Flags(default))) => (now.clone(), default.clone()),
        _ => (Vec::new(), Vec::new()),
    };
    for word in words(text) {
        if word == "none" {
            set.clear();
            continue;
        }
        if word == "default" {
            set.clone_from(&default);
            continue;
        }
        let unknown = || format!("Unknown {what} bit ({word})");
        let name =
            word.strip_prefix(['+', '-']).ok_or_else(|| format!("Missing '+' or '-' ({word})"))?;
        let name = names.iter().find(|known| known.eq_ignore_ascii_case(name));
        let name = name.ok_or_else(unknown)?;
        set.retain(|flag| flag != name);
        if word.starts_with('+') {
            set.push(name);
        }
    }
    Ok(names.iter().filter(|name| set.contains(name)).copied().collect())
}

fn mask(text: &str, before: Option<(&Value, &Value)>) -> Result<BTreeSet<u8>, String> {
    let default = || Tag::MASKED.iter().map(|tag| tag.number()).collect::<BTreeSet<_>>();
    let mut masked = match before {
        Some((Value::Mask(now), _)) => now.clone(),
        _ => BTreeSet::new(),
    };
    for word in words(text) {
        if word == "default" {
            masked = default();
            continue;
        }
        if word == "all" {
            masked.clear();
            continue;
        }
        let name =
            word.strip_prefix(['+', '-']).ok_or_else(|| format!("Missing '+' or '-' ({word})"))?;
        let tag = Tag::ALL.iter().find(|tag| tag.name().eq_ignore_ascii_case(name));
        let tag = tag.ok_or_else(|| format!("Unknown VSL tag '{name}'"))?;
        if word.starts_with('-') {
            masked.insert(tag.number());
        } else {
            masked.remove(&tag.number());
        }
    }
    Ok(masked)
}

fn pool(text: &str) -> Result<[u64; 3], String> {
    /// Seconds an unused piece may be kept at most.
    const AGE_MAX: u64 = 1_000_000;
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let [least, most, age] = words[..] else {
        return Err("Three fields required: min_pool, max_pool and max_age".into());
    };
    let (least, most, age) = (integer(least)?, integer(most)?, integer(age)?);
    if age > AGE_MAX {
        return Err(format!("Must be no more than {AGE_MAX}"));
    }
    if least > most {
        return Err("min_pool cannot be larger than max_pool".into());
    }
    Ok([least, most, age])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_may_follow_seconds_behind_a_space() {
        assert_eq!((real("1.5 m"), real("2h"), real("3")), (Ok(90.0), Ok(7200.0), Ok(3.0)));
        assert!(real("1 x").is_err());
    }

    #[test]
    fn bytes_are_shown_as_they_are_written() {
        for text in
            ["0b", "128b", "255b", "0.25k", "0.75k", "2k", "80k", "0.25M", "0.25G", "1M", "4G"]
        {
            assert_eq!(show_bytes(bytes(text).expect(text)), text);
        }
        assert_eq!(bytes("1m"), Ok(1 << 20));
        assert_eq!(bytes("10MB"), Ok(10 << 20));
        assert!(bytes("1x").is_err() && bytes("").is_err());
    }
}
