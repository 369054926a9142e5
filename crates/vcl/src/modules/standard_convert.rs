//! `std`'s conversions between types.
//!
//! Each takes one of several sources. Where it cannot be converted the fallback is the result, and
//! without a fallback the policy fails.

use super::{Arguments, fault};
use crate::program::Value;
use crate::runtime::{Result, Run};
use crate::types;
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use std::fmt::Write as _;

/// Which source is given, of those at `places`; more than one is a mistake.
fn source(arguments: &[Value], places: &[usize], name: &str) -> Result<Option<usize>> {
    let mut given = places.iter().copied().filter(|place| arguments.is_given(*place));
    let first = given.next();
    match given.next() {
        Some(_) => fault(format!("std.{name}(): more than one source")),
        None => Ok(first),
    }
}

fn or_fallback(value: Option<Value>, arguments: &[Value], name: &str) -> Result<Value> {
    match (value, arguments.at(1)) {
        (Some(value), _) => Ok(value),
        (None, Value::None) => fault(format!("std.{name}(): conversion failed")),
        (None, fallback) => Ok(fallback),
    }
}

/// A number at the start of `text`, and what stands behind it.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_ascii_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(sign);
    let mut end = sign + whole;
    if text[end..].starts_with('.') {
        let decimals = digits(end + 1);
        if whole + decimals == 0 {
            return None;
        }
        end += 1 + decimals;
    } else if whole == 0 {
        return None;
    }
    text[..end].parse().ok().map(|number| (number, text[end..].trim_ascii()))
}

fn text_at(run: &Run<'_>, arguments: &[Value], place: usize) -> String {
    run.string(arguments.text(place)).into_owned()
}

pub(super) fn duration(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = match source(arguments, &[0, 2, 3], "duration")? {
        Some(0) => number(&text_at(run, arguments, 0))
            .and_then(|(number, unit)| Some(number * types::duration_unit(unit)?)),
        Some(place) => Some(arguments.real(place)),
        None => None,
    };
    let finite = seconds.filter(|seconds| seconds.is_finite());
    or_fallback(finite.map(Value::Duration), arguments, "duration")
}

pub(super) fn bytes(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = match source(arguments, &[0, 2, 3], "bytes")? {
        Some(0) => number(&text_at(run, arguments, 0)).and_then(|(number, unit)| {
            let factor = match unit.to_ascii_uppercase().as_str() {
                "" => 1.0,
                "P" | "PB" => 2_f64.powi(50),
                "K" | "M" | "G" | "T" => types::bytes_unit(&format!("{unit}B"))?,
                _ => types::bytes_unit(unit)?,
            };
            Some(number * factor)
        }),
        Some(place) => Some(arguments.real(place)),
        None => None,
    };
    let valid = bytes.filter(|bytes| bytes.is_finite() && *bytes >= 0.0);
    or_fallback(valid.map(|bytes| Value::Bytes(bytes as i64)), arguments, "bytes")
}

pub(super) fn integer(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let whole = match source(arguments, &[0, 2, 3, 4, 5, 6], "integer")? {
        Some(0) => number(&text_at(run, arguments, 0))
            .filter(|(_, rest)| rest.is_empty())
            .and_then(|(number, _)| rounded(number)),
        Some(2) => Some(i64::from(arguments.truth(2))),
        Some(3) => Some(arguments.int(3)),
        Some(place) => rounded(arguments.real(place)),
        None => None,
    };
    or_fallback(whole.map(Value::Int), arguments, "integer")
}

/// A number as a whole one, its decimals cut off.
fn rounded(number: f64) -> Option<i64> {
    // 10^15 is the largest the language can write.
    (number.is_finite() && number.abs() < 1e15).then_some(number as i64)
}

pub(super) fn ip(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = text_at(run, arguments, 0);
    let (host, port) = split_port(text.trim());
    let resolves = arguments.truth(2);
    let given = match arguments.at(3) {
        Value::Text(port) => named_port(&run.string(port)),
        _ => None,
    };
    let port = match port {
        // What stands behind the address is a port or nothing that is meant.
        Some(port) => port_number(port),
        None => Some(given.unwrap_or(80)),
    };
    let found = port.and_then(|port| match host.parse() {
        Ok(ip) => Some((ip, port)),
        Err(_) if resolves => run.host.resolve(host).map(|ip| (ip, port)),
        Err(_) => None,
    });
    or_fallback(found.map(|(ip, port)| Value::Ip(Some(ip), port)), arguments, "ip")
}

/// A host and what stands behind it as a port: `a:80`, `a 80`, `[::1]:80`, `::1`.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some((host, port)) = text.split_once(' ') {
        return (host, Some(port.trim()));
    }
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

fn named_port(text: &str) -> Option<u16> {
    match text {
        "http" => Some(80),
        "https" => Some(443),
        number => port_number(number),
    }
}

fn port_number(text: &str) -> Option<u16> {
    text.parse().ok()
}

pub(super) fn real(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let real = match source(arguments, &[0, 2, 3, 4, 5, 6], "real")? {
        Some(0) => number(&text_at(run, arguments, 0))
            .filter(|(_, rest)| rest.is_empty())
            .map(|(number, _)| number),
        Some(3) => Some(f64::from(u8::from(arguments.truth(3)))),
        Some(4) => Some(arguments.int(4) as f64),
        Some(place) => Some(arguments.real(place)),
        None => None,
    };
    or_fallback(real.filter(|real| real.is_finite()).map(Value::Real), arguments, "real")
}

pub(super) fn time(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let time = match source(arguments, &[0, 2, 3], "time")? {
        Some(0) => {
            let text = text_at(run, arguments, 0);
            let text = text.trim();
            date::parse(text.as_bytes())
                .map(|at| at.0 as f64 / 1000.0)
                .or_else(|| iso_date(text))
                .or_else(|| {
                    number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
                })
        }
        Some(place) => Some(arguments.real(place)),
        None => None,
    };
    let valid = time.filter(|time| time.is_finite() && *time >= 0.0);
    or_fallback(valid.map(Value::Time), arguments, "time")
}

/// `2026-11-20T12:00:00`, as ISO 8601 has it, in UTC.
fn iso_date(text: &str) -> Option<f64> {
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' '])?;
    let part = |text: &str| text.parse::<i64>().ok();
    let mut date = date.splitn(3, '-').map(part);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (part(time.next()?)?, part(time.next()?)?);
    let second: f64 = time.next()?.parse().ok()?;
    let valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute);
    let days = days_from_civil(year, month, day);
    valid.then(|| (days * 86_400 + hour * 3600 + minute * 60) as f64 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a count of days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days - era * 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) fn strftime(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = arguments.real(0) as i64;
    let format = text_at(run, arguments, 1);
    let mut out = String::new();
    format_time(seconds, &format, &mut out, 0);
    run.store(out.as_bytes()).map(Value::Text)
}

/// strftime(3) in UTC and the C locale.
fn format_time(seconds: i64, format: &str, out: &mut String, depth: u32) {
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day) = civil_from_days(days);
    let weekday = (days + 4).rem_euclid(7);
    let day_name = DAYS.get(weekday as usize).copied().unwrap_or("");
    let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or("");
    let mut rest = format.chars();
    while let Some(sign) = rest.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        let Some(code) = rest.next() else {
            out.push('%');
            return;
        };
        let combined = match code {
            'D' => "%m/%d/%y",
            'F' => "%Y-%m-%d",
            'R' => "%H:%M",
            'T' => "%H:%M:%S",
            'c' => "%a %b %e %H:%M:%S %Y",
            'r' => "%I:%M:%S %p",
            'x' => "%m/%d/%y",
            'X' => "%H:%M:%S",
            _ => "",
        };
        if !combined.is_empty() && depth == 0 {
            format_time(seconds, combined, out, 1);
            continue;
        }
        // Writing to a String cannot fail.
        let _ = match code {
            'a' => write!(out, "{}", &day_name[..3.min(day_name.len())]),
            'A' => write!(out, "{day_name}"),
            'b' | 'h' => write!(out, "{}", &month_name[..3.min(month_name.len())]),
            'B' => write!(out, "{month_name}"),
            'C' => write!(out, "{:02}", year / 100),
            'd' => write!(out, "{day:02}"),
            'e' => write!(out, "{day:2}"),
            'H' => write!(out, "{hour:02}"),
            'I' => write!(out, "{:02}", (hour + 11) % 12 + 1),
            'j' => write!(out, "{:03}", days - days_from_civil(year, 1, 1) + 1),
            'm' => write!(out, "{month:02}"),
            'M' => write!(out, "{minute:02}"),
            'n' => writeln!(out),
            'p' => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
            's' => write!(out, "{seconds}"),
            'S' => write!(out, "{second:02}"),
            't' => write!(out, "\t"),
            'u' => write!(out, "{}", if weekday == 0 { 7 } else { weekday }),
            'w' => write!(out, "{weekday}"),
            'y' => write!(out, "{:02}", year.rem_euclid(100)),
            'Y' => write!(out, "{year}"),
            'z' => write!(out, "+0000"),
            'Z' => write!(out, "GMT"),
            '%' => write!(out, "%"),
            other => write!(out, "%{other}"),
        };
    }
}

pub(super) fn real2integer(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(rounded(arguments.real(0).round()).map_or_else(|| arguments.at(1), Value::Int))
}

pub(super) fn real2time(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = arguments.real(0);
    let valid = seconds.is_finite() && seconds >= 0.0;
    Ok(if valid { Value::Time(seconds) } else { arguments.at(1) })
}

pub(super) fn time2integer(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(rounded(arguments.real(0).round()).map_or_else(|| arguments.at(1), Value::Int))
}

pub(super) fn time2real(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Real(arguments.real(0)))
}

/// An instant as a header field has it.
pub(super) fn http_date(seconds: f64, out: &mut Vec<u8>) {
    date::write(UnixMillis((seconds * 1000.0) as u64), out);
}
