//! Numbers with units as people write them: `25 MB`, `0.12 USD/kWh`, `75.76 USD/year/RU`.
//!
//! `k`, `M`, `G`, `T`, `P` are powers of 1000, `Ki`, `Mi`, `Gi`, `Ti`, `Pi` powers of 1024 (IEC
//! 80000-13). A month is a twelfth of a year, a year 365 days, as the papers count them.

use crate::quantity::{DIMENSIONS, Exponents};
use freshet_base::nearest::nearest;
use thiserror::Error;

/// Why a text is not the quantity that was asked for.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum UnitError {
    /// No number at the start.
    #[error("`{0}` does not start with a number")]
    NoNumber(String),
    /// A number with a comma.
    #[error("`{0}` has a comma: write numbers with a point and without thousands apart, as 1200.5")]
    Comma(String),
    /// The number is too large to count with.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// A unit nobody knows.
    #[error("`{unit}` is not a unit here{help}")]
    UnknownUnit {
        /// What stood there.
        unit: String,
        /// What to write instead, as the end of the sentence.
        help: String,
    },
    /// A quantity of something else.
    #[error("`{text}` is {is}, not {expected}")]
    WrongDimension {
        /// What stood there.
        text: String,
        /// What that is.
        is: &'static str,
        /// What is wanted.
        expected: &'static str,
    },
}

/// A unit: its powers, and how many base units it is. Money has a currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Powers of the base dimensions.
    pub exponents: Exponents,
    /// Base units in one of it.
    pub factor: f64,
    /// The currency, where money is part of it.
    pub currency: Option<&'static str>,
}

/// Which prefixes a unit takes.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Prefixes {
    None,
    /// Powers of 1000 from kilo.
    Decimal,
    /// These and powers of 1024.
    Binary,
    /// Powers of 1000 from kilo, and milli and micro.
    Small,
}

const DATA: [i8; 6] = [1, 0, 0, 0, 0, 0];
const TIME: [i8; 6] = [0, 1, 0, 0, 0, 0];
const ENERGY: [i8; 6] = [0, 0, 1, 0, 0, 0];
const POWER: [i8; 6] = [0, -1, 1, 0, 0, 0];
const MONEY: [i8; 6] = [0, 0, 0, 1, 0, 0];
const CARBON: [i8; 6] = [0, 0, 0, 0, 1, 0];
const DAY_S: f64 = 86_400.0;
const YEAR_S: f64 = 365.0 * DAY_S;

/// Symbols, longer ones where one ends with another are told apart by their whole text.
const SYMBOLS: &[(&str, [i8; 6], f64, Prefixes)] = &[
    ("bit", DATA, 1.0, Prefixes::Binary),
    ("B", DATA, 8.0, Prefixes::Binary),
    ("bps", [1, -1, 0, 0, 0, 0], 1.0, Prefixes::Decimal),
    ("s", TIME, 1.0, Prefixes::Small),
    ("min", TIME, 60.0, Prefixes::None),
    ("h", TIME, 3_600.0, Prefixes::None),
    ("d", TIME, DAY_S, Prefixes::None),
    ("day", TIME, DAY_S, Prefixes::None),
    ("days", TIME, DAY_S, Prefixes::None),
    ("week", TIME, 7.0 * DAY_S, Prefixes::None),
    ("weeks", TIME, 7.0 * DAY_S, Prefixes::None),
    ("month", TIME, YEAR_S / 12.0, Prefixes::None),
    ("months", TIME, YEAR_S / 12.0, Prefixes::None),
    ("year", TIME, YEAR_S, Prefixes::None),
    ("years", TIME, YEAR_S, Prefixes::None),
    ("Hz", [0, -1, 0, 0, 0, 0], 1.0, Prefixes::Decimal),
    // Packets a second.
    ("pps", [0, -1, 0, 0, 0, 0], 1.0, Prefixes::Decimal),
    // Drive writes per day.
    ("DWPD", [0, -1, 0, 0, 0, 0], 1.0 / DAY_S, Prefixes::None),
    // No milli: `mWh` is always a slip for `MWh`, as in paper 002.
    ("W", POWER, 1.0, Prefixes::Decimal),
    ("Wh", ENERGY, 3_600.0, Prefixes::Decimal),
    ("J", ENERGY, 1.0, Prefixes::Decimal),
    ("gCO2e", CARBON, 1.0, Prefixes::Decimal),
    ("tCO2e", CARBON, 1e6, Prefixes::Decimal),
    ("RU", [0, 0, 0, 0, 0, 1], 1.0, Prefixes::None),
    ("%", [0; 6], 0.01, Prefixes::None),
];

/// Currencies, by their ISO 4217 codes.
const CURRENCIES: &[&str] = &[
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HUF", "INR", "JPY", "KRW",
    "MXN", "NOK", "NZD", "PLN", "RON", "SEK", "SGD", "TRY", "TWD", "USD", "ZAR",
];

const DECIMAL: &[(&str, f64)] = &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)];
const BINARY: &[(&str, f64)] = &[
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
];
const SMALL: &[(&str, f64)] = &[("m", 1e-3), ("µ", 1e-6), ("u", 1e-6)];

/// The number and the unit of a text. A bare number has no dimension.
///
/// # Errors
/// Names the part that is wrong.
pub fn parse(text: &str) -> Result<(f64, Unit), UnitError> {
    let text = text.trim();
    let (number, unit) = split(text);
    if unit.starts_with(',') {
        return Err(UnitError::Comma(text.to_owned()));
    }
    let digits = number.replace('_', "");
    let value: f64 = digits.parse().map_err(|_| UnitError::NoNumber(text.to_owned()))?;
    if !value.is_finite() || value.abs() > 1e30 {
        return Err(UnitError::TooLarge(text.to_owned()));
    }
    Ok((value, parse_unit(unit)?))
}

/// Where the number ends: after digits, sign, point and exponent.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let continues = match byte {
            b'0'..=b'9' | b'.' | b'_' => true,
            b'+' | b'-' => end == 0 || matches!(bytes.get(end - 1), Some(b'e' | b'E')),
            // `3e6` is a number, `3 eggs` and `3eggs` are not.
            b'e' | b'E' => {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                end > 0 && is_digit(end + 1 + sign)
            }
            _ => false,
        };
        if !continues {
            break;
        }
        end += 1;
    }
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// A unit by itself: symbols with prefixes, divided from left to right.
///
/// # Errors
/// Names the symbol that is not known and the nearest that is.
pub fn parse_unit(text: &str) -> Result<Unit, UnitError> {
    let mut unit = Unit { exponents: Exponents::NONE, factor: 1.0, currency: None };
    if text.is_empty() {
        return Ok(unit);
    }
    for (index, part) in text.split('/').enumerate() {
        let part = part.trim();
        // `1/year`: once in a year.
        let one = if index == 0 && (part.is_empty() || part == "1") {
            Unit { exponents: Exponents::NONE, factor: 1.0, currency: None }
        } else {
            symbol(part)?
        };
        if index == 0 {
            unit = one;
        } else {
            unit.exponents = unit.exponents.over(one.exponents);
            unit.factor /= one.factor;
            unit.currency = unit.currency.or(one.currency);
        }
    }
    Ok(unit)
}

fn symbol(text: &str) -> Result<Unit, UnitError> {
    if let Some(code) = CURRENCIES.iter().find(|code| **code == text) {
        return Ok(Unit { exponents: Exponents(MONEY), factor: 1.0, currency: Some(code) });
    }
    for (symbol, exponents, factor, prefixes) in SYMBOLS {
        let Some(prefix) = text.strip_suffix(symbol) else { continue };
        let scale = if prefix.is_empty() {
            Some(1.0)
        } else {
            let of = |table: &[(&str, f64)]| {
                table.iter().find(|(name, _)| *name == prefix).map(|(_, scale)| *scale)
            };
            match prefixes {
                Prefixes::None => None,
                Prefixes::Decimal => of(DECIMAL),
                Prefixes::Binary => of(DECIMAL).or_else(|| of(BINARY)),
                Prefixes::Small => of(SMALL),
            }
        };
        if let Some(scale) = scale {
            let exponents = Exponents(*exponents);
            return Ok(Unit { exponents, factor: factor * scale, currency: None });
        }
    }
    Err(UnitError::UnknownUnit { unit: text.to_owned(), help: help(text) })
}

/// What to write instead, as the end of a sentence.
fn help(text: &str) -> String {
    let hint = |meant: &str| format!("; did you mean `{meant}`?");
    match text {
        "KB" | "Kb" => return hint("kB"),
        "mWh" => return hint("MWh"),
        "mW" => return hint("MW"),
        "$" => return hint("USD"),
        "€" => return hint("EUR"),
        "£" => return hint("GBP"),
        "CO2" | "kgCO2" | "kg" => return hint("kgCO2e"),
        "tCO2" | "t" => return hint("tCO2e"),
        "U" => return hint("RU"),
        _ => {}
    }
    // `Mb` is megabits to some and megabytes to others.
    if let Some(prefix) = text.strip_suffix('b').filter(|prefix| prefix.len() <= 2) {
        return format!("; write `{prefix}bit` or `{prefix}B`");
    }
    let plain = SYMBOLS.iter().map(|(symbol, ..)| (*symbol).to_owned());
    let prefixed = SYMBOLS.iter().filter(|(.., prefixes)| *prefixes != Prefixes::None).flat_map(
        |(symbol, ..)| DECIMAL.iter().map(move |(prefix, _)| format!("{prefix}{symbol}")),
    );
    let currencies = CURRENCIES.iter().map(|code| (*code).to_owned());
    let known: Vec<String> = plain.chain(prefixed).chain(currencies).collect();
    match nearest(text, known.iter().map(String::as_str)) {
        Some(near) => hint(near),
        None => {
            "; units are such as MB, GiB, Gbit/s, min, year, kW, MWh, USD, kgCO2e, RU, %".to_owned()
        }
    }
}

/// What something of these powers is called.
pub(crate) fn name_of(exponents: Exponents) -> &'static str {
    let known = DIMENSIONS.iter().find(|(powers, ..)| *powers == exponents);
    known.map_or("something else", |(_, name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{Data, EnergyPrice, Quantity, Rate, SpacePrice, Time};
    use proptest::prelude::*;

    #[test]
    fn units_read_as_written() {
        let bytes = |text| Quantity::<Data>::parse(text).unwrap().to("B");
        assert_eq!(bytes("25 MB"), 25e6);
        assert_eq!(bytes("25MiB"), 25.0 * 1_048_576.0);
        assert_eq!(bytes("1_000 bit"), 125.0);
        assert_eq!(bytes("2.5e3 kB"), 2.5e6);
        assert_eq!(Quantity::<Rate>::parse("1 Tbps"), Quantity::<Rate>::parse("1000 Gbit/s"));
        assert_eq!(Quantity::<Time>::parse("5 years").unwrap().to("h"), 43_800.0);
        assert!(
            (Quantity::<EnergyPrice>::parse("125 USD/MWh").unwrap().to("USD/kWh") - 0.125).abs()
                < 1e-15
        );
        let rack = Quantity::<SpacePrice>::parse("75.76 USD/year/RU").unwrap();
        assert!((rack.to("USD/month/RU") - 75.76 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn slips_get_the_right_word() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert_eq!(message("12.5 USD/mWh"), "`mWh` is not a unit here; did you mean `MWh`?");
        assert_eq!(message("3 Mb"), "`Mb` is not a unit here; write `Mbit` or `MB`");
        assert_eq!(message("3 GBit"), "`GBit` is not a unit here; did you mean `Gbit`?");
        assert_eq!(message("0.1 UDS/kWh"), "`UDS` is not a unit here; did you mean `USD`?");
        assert_eq!(message("MB"), "`MB` does not start with a number");
        assert!(message("1e300 B").contains("too large"));
        assert!(message("4 parsec/fortnight").contains("units are such as"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_number_survives_its_unit(number in -1e12f64..1e12, index in 0..SYMBOLS.len()) {
            let (symbol, exponents, factor, _) = SYMBOLS[index];
            let (value, unit) = parse(&format!("{number:e} {symbol}")).unwrap();
            prop_assert_eq!(value, number);
            prop_assert_eq!(unit.exponents, Exponents(exponents));
            prop_assert_eq!(unit.factor, factor);
        }
    }
}
