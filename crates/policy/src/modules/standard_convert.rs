//! `std`'s conversions between types.
//!
//! Each takes one of several sources. Where it cannot be converted the fallback is the result, and
//! without a fallback the policy fails.

use super::{Arguments, fault, number};
use crate::calendar::days_from_civil;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run, is_writable};
use crate::strftime::format_time;
use freshet_http::date;
use std::net::IpAddr;

/// Which source is given, of those at `places`. There has to be one.
fn source(arguments: &[Value], places: &[usize], name: &str) -> Result<usize> {
    let mut given = places.iter().copied().filter(|place| arguments.is_given(*place));
    match (given.next(), given.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => fault(format!("std.{name}: not enough arguments")),
        (Some(_), Some(_)) => fault(format!("std.{name}: too many arguments")),
    }
}

/// What came of a conversion, or the fallback, or else what is wrong.
fn or_fallback(
    value: std::result::Result<Value, Option<&'static str>>,
    arguments: &[Value],
    name: &str,
) -> Result<Value> {
    match (value, arguments.at(1)) {
        (Ok(value), _) => Ok(value),
        (Err(why), Value::None) => {
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            fault(format!("std.{name}: conversion failed{why}"))
        }
        (Err(_), fallback) => Ok(fallback),
    }
}

/// A text among arguments; none where it is unset.
fn set_text(run: &Run<'_>, arguments: &[Value], place: usize) -> Option<String> {
    let text = arguments.text(place);
    (text != Text::Unset).then(|| run.string(text).into_owned())
}

fn text_at(run: &Run<'_>, arguments: &[Value], place: usize) -> String {
    run.string(arguments.text(place)).into_owned()
}

pub(super) fn duration(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = match source(arguments, &[0, 2, 3], "duration")? {
        0 => set_text(run, arguments, 0).and_then(|text| number::duration(&text)),
        place => Some(arguments.real(place)),
    };
    or_fallback(seconds.map(Value::Duration).ok_or(None), arguments, "duration")
}

pub(super) fn bytes(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = match source(arguments, &[0, 2, 3], "bytes")? {
        0 => set_text(run, arguments, 0).and_then(|text| number::bytes(&text)),
        // None that is below zero is cut to that.
        2 => Some(arguments.real(2)).filter(|b| b.is_finite() && *b >= 0.0).map(|b| b as i64),
        place => Some(arguments.int(place)),
    };
    let valid = bytes.filter(|bytes| (0..1 << 53).contains(bytes));
    or_fallback(valid.map(Value::Bytes).ok_or(None), arguments, "bytes")
}

pub(super) fn integer(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let whole = match source(arguments, &[0, 2, 3, 4, 5, 6], "integer")? {
        0 => match set_text(run, arguments, 0) {
            None => Err(None),
            Some(text) => number::whole_number(&text)
                .and_then(|value| rounded(value).filter(|_| value.fract() == 0.0).ok_or(None)),
        },
        2 => Ok(i64::from(arguments.truth(2))),
        3 => Ok(arguments.int(3)),
        place => rounded(arguments.real(place)).ok_or(None),
    };
    or_fallback(whole.map(Value::Int), arguments, "integer")
}

/// A number as a whole one, its decimals cut off.
fn rounded(number: f64) -> Option<i64> {
    // 10^15 is the largest the language can write.
    (number.is_finite() && number.abs() < 1e15).then_some(number as i64)
}

pub(super) fn ip(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if matches!(arguments.at(1), Value::Ip(None, _)) {
        return fault("std.ip: invalid fallback");
    }
    let text = text_at(run, arguments, 0);
    let (host, port) = split_port(text.trim());
    let resolves = arguments.truth(2);
    let given = match arguments.at(3) {
        Value::Text(port) if port != Text::Unset => named_port(&run.string(port)),
        _ => Some(80),
    };
    let port = match port {
        // What stands behind the address is a port or nothing that is meant.
        Some(port) => port_number(port),
        None => given,
    };
    let found = port.and_then(|port| {
        let known = host.parse().ok().or_else(|| number::ipv4(host).map(IpAddr::V4));
        let named = || if resolves { run.host.resolve(host) } else { None };
        known.or_else(named).map(|ip| (ip, port))
    });
    let found = found.map(|(ip, port)| Value::Ip(Some(ip), port));
    or_fallback(found.ok_or(None), arguments, "ip")
}

/// A host and what stands behind it as a port: `a:80`, `a 80`, `[::1]:80`, `::1`.
pub fn split_port(text: &str) -> (&str, Option<&str>) {
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
        0 => set_text(run, arguments, 0).map_or(Err(None), |text| number::decimal(&text)),
        3 => Ok(f64::from(u8::from(arguments.truth(3)))),
        4 => Ok(arguments.int(4) as f64),
        place => Ok(arguments.real(place)),
    };
    or_fallback(real.map(Value::Real), arguments, "real")
}

pub(super) fn time(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let time = match source(arguments, &[0, 2, 3], "time")? {
        0 => set_text(run, arguments, 0).and_then(|text| {
            let date =
                date::parse_by(text.as_bytes(), run.program.dates).map(|at| at.0 as f64 / 1000.0);
            let number = || number::whole_number(&text).ok().filter(|seconds| *seconds > 0.0);
            date.or_else(|| iso_date(&text)).or_else(number)
        }),
        place => Some(arguments.real(place)),
    };
    or_fallback(time.map(Value::Time).ok_or(None), arguments, "time")
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

pub(super) fn strftime(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = arguments.real(0) as i64;
    let format = text_at(run, arguments, 1);
    run.store(format_time(seconds, &format).as_bytes()).map(Value::Text)
}

pub(super) fn real2integer(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let real = arguments.real(0);
    let number = is_writable(real).then(|| rounded(real.round())).flatten();
    Ok(number.map_or_else(|| arguments.at(1), Value::Int))
}

pub(super) fn real2time(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let seconds = arguments.real(0);
    Ok(if seconds.is_finite() { Value::Time(seconds) } else { arguments.at(1) })
}

pub(super) fn time2integer(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(rounded(arguments.real(0).round()).map_or_else(|| arguments.at(1), Value::Int))
}

pub(super) fn time2real(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Real(arguments.real(0)))
}
