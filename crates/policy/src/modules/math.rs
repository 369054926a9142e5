//! `math`: what `math.h` has, as the module of this name for Varnish 9 gives it to policies.

use super::{Arguments, Function, Module, fault, function};
use crate::program::Value;
use crate::runtime::{Result, Run};
use std::f64::consts;
use std::num::FpCategory;

pub(super) const MODULE: Module =
    Module { name: "math", classes: &[], functions: FUNCTIONS, is_test: false };

/// Digits behind the point that a number is written with at most: what a double has no more of.
const PRECISION_MAX: usize = 1100;

/// A function of one number.
macro_rules! of_one {
    ($signature:literal, $of:path) => {
        function($signature, |_, _, all| Ok(Value::Real($of(all.real(0)))))
    };
}

/// A function of two.
macro_rules! of_two {
    ($signature:literal, $of:path) => {
        function($signature, |_, _, all| Ok(Value::Real($of(all.real(0), all.real(1)))))
    };
}

/// Whether a number is something, as C says it.
macro_rules! whether {
    ($signature:literal, $is:path) => {
        function($signature, |_, _, all| Ok(Value::Int($is(all.real(0)).into())))
    };
}

const FUNCTIONS: &[Function] = &[
    function("BOOL approx(REAL a, REAL b, REAL maxDiff = 0.0, REAL maxRelDiff = 0.0)", approx),
    function("STRING strfromd(STRING format, REAL fp)", strfromd),
    function(
        "REAL constant(ENUM {DBL_MANT_DIG, DBL_DIG, DBL_MIN_EXP, DBL_MIN_10_EXP, DBL_MAX_EXP, \
         DBL_MAX_10_EXP, DBL_MAX, DBL_EPSILON, DBL_MIN, HUGE_VAL, M_E, M_LOG2E, M_LOG10E, M_LN2, \
         M_LN10, M_PI, M_PI_2, M_PI_4, M_1_PI, M_2_PI, M_2_SQRTPI, M_SQRT2, M_SQRT1_2} name)",
        constant,
    ),
    function(
        "INT fpclass(ENUM {FP_INFINITE, FP_NAN, FP_NORMAL, FP_SUBNORMAL, FP_ZERO} name)",
        |_, _, all| Ok(Value::Int(class_named(all.word(0)))),
    ),
    function("INT fpclassify(REAL x)", |_, _, all| Ok(Value::Int(class_of(all.real(0))))),
    whether!("INT isfinite(REAL x)", f64::is_finite),
    whether!("INT isinf(REAL x)", f64::is_infinite),
    whether!("INT isnan(REAL x)", f64::is_nan),
    whether!("INT isnormal(REAL x)", f64::is_normal),
    whether!("INT signbit(REAL x)", f64::is_sign_negative),
    of_one!("REAL acos(REAL x)", f64::acos),
    of_one!("REAL acosh(REAL x)", f64::acosh),
    of_one!("REAL asin(REAL x)", f64::asin),
    of_one!("REAL asinh(REAL x)", f64::asinh),
    of_one!("REAL atan(REAL x)", f64::atan),
    of_two!("REAL atan2(REAL y, REAL x)", f64::atan2),
    of_one!("REAL atanh(REAL x)", f64::atanh),
    of_one!("REAL cbrt(REAL x)", f64::cbrt),
    of_one!("REAL ceil(REAL x)", f64::ceil),
    of_two!("REAL copysign(REAL x, REAL y)", f64::copysign),
    of_one!("REAL cos(REAL x)", f64::cos),
    of_one!("REAL cosh(REAL x)", f64::cosh),
    of_one!("REAL exp(REAL x)", f64::exp),
    of_one!("REAL exp2(REAL x)", f64::exp2),
    of_one!("REAL expm1(REAL x)", f64::exp_m1),
    of_one!("REAL fabs(REAL x)", f64::abs),
    function("REAL fdim(REAL x, REAL y)", |_, _, all| {
        let (x, y) = (all.real(0), all.real(1));
        Ok(Value::Real(if x <= y { 0.0 } else { x - y }))
    }),
    of_one!("REAL floor(REAL x)", f64::floor),
    function("REAL fma(REAL x, REAL y, REAL z)", |_, _, all| {
        Ok(Value::Real(all.real(0).mul_add(all.real(1), all.real(2))))
    }),
    of_two!("REAL fmax(REAL x, REAL y)", f64::max),
    of_two!("REAL fmin(REAL x, REAL y)", f64::min),
    function("REAL fmod(REAL x, REAL y)", |_, _, all| Ok(Value::Real(all.real(0) % all.real(1)))),
    of_two!("REAL hypot(REAL x, REAL y)", f64::hypot),
    of_one!("REAL log(REAL x)", f64::ln),
    of_one!("REAL log10(REAL x)", f64::log10),
    of_one!("REAL log1p(REAL x)", f64::ln_1p),
    of_one!("REAL log2(REAL x)", f64::log2),
    function("INT lrint(REAL x)", |_, _, all| Ok(Value::Int(all.real(0).round_ties_even() as i64))),
    function("INT lround(REAL x)", |_, _, all| Ok(Value::Int(all.real(0).round() as i64))),
    of_one!("REAL nearbyint(REAL x)", f64::round_ties_even),
    of_two!("REAL pow(REAL x, REAL y)", f64::powf),
    of_one!("REAL rint(REAL x)", f64::round_ties_even),
    of_one!("REAL round(REAL x)", f64::round),
    of_one!("REAL sin(REAL x)", f64::sin),
    of_one!("REAL sinh(REAL x)", f64::sinh),
    of_one!("REAL sqrt(REAL x)", f64::sqrt),
    of_one!("REAL tan(REAL x)", f64::tan),
    of_one!("REAL tanh(REAL x)", f64::tanh),
    of_one!("REAL trunc(REAL x)", f64::trunc),
];

fn constant(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Real(match arguments.word(0) {
        "DBL_MANT_DIG" => f64::from(f64::MANTISSA_DIGITS),
        "DBL_DIG" => f64::from(f64::DIGITS),
        "DBL_MIN_EXP" => f64::from(f64::MIN_EXP),
        "DBL_MIN_10_EXP" => f64::from(f64::MIN_10_EXP),
        "DBL_MAX_EXP" => f64::from(f64::MAX_EXP),
        "DBL_MAX_10_EXP" => f64::from(f64::MAX_10_EXP),
        "DBL_MAX" => f64::MAX,
        "DBL_EPSILON" => f64::EPSILON,
        "DBL_MIN" => f64::MIN_POSITIVE,
        "M_E" => consts::E,
        "M_LOG2E" => consts::LOG2_E,
        "M_LOG10E" => consts::LOG10_E,
        "M_LN2" => consts::LN_2,
        "M_LN10" => consts::LN_10,
        "M_PI" => consts::PI,
        "M_PI_2" => consts::FRAC_PI_2,
        "M_PI_4" => consts::FRAC_PI_4,
        "M_1_PI" => consts::FRAC_1_PI,
        "M_2_PI" => consts::FRAC_2_PI,
        "M_2_SQRTPI" => consts::FRAC_2_SQRT_PI,
        "M_SQRT2" => consts::SQRT_2,
        "M_SQRT1_2" => consts::FRAC_1_SQRT_2,
        _ => f64::INFINITY,
    }))
}

/// The classes of numbers, as glibc counts them.
fn class_named(name: &str) -> i64 {
    match name {
        "FP_NAN" => 0,
        "FP_INFINITE" => 1,
        "FP_ZERO" => 2,
        "FP_SUBNORMAL" => 3,
        _ => 4,
    }
}

fn class_of(number: f64) -> i64 {
    class_named(match number.classify() {
        FpCategory::Nan => "FP_NAN",
        FpCategory::Infinite => "FP_INFINITE",
        FpCategory::Zero => "FP_ZERO",
        FpCategory::Subnormal => "FP_SUBNORMAL",
        FpCategory::Normal => "FP_NORMAL",
    })
}

/// Whether two numbers are the same but for rounding, by what they differ in or by what share of the larger that is.
fn approx(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (a, b) = (arguments.real(0), arguments.real(1));
    let or = |given: f64, otherwise: f64| if given == 0.0 { otherwise } else { given };
    let apart = or(arguments.real(2), 4.0 * f64::EPSILON);
    let share = or(arguments.real(3), f64::EPSILON);
    let difference = (a - b).abs();
    Ok(Value::Bool(difference <= apart || difference <= a.abs().max(b.abs()) * share))
}

fn strfromd(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let format = run.string(arguments.text(0)).into_owned();
    match written(&format, arguments.real(1)) {
        Some(text) => run.store(text.as_bytes()).map(Value::Text),
        None => fault(format!("math.strfromd(\"{format}\", ...): Invalid format")),
    }
}

/// A number by a format of strfromd(3): a percent sign, how many digits, and one of `e`, `f` and `g`.
fn written(format: &str, number: f64) -> Option<String> {
    let format = format.strip_prefix('%')?;
    let (precision, kind) = match format.strip_prefix('.') {
        None => (6, format),
        Some(rest) => {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (digits, kind) = rest.split_at(digits);
            let precision = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            (precision, kind)
        }
    };
    if precision > PRECISION_MAX {
        return None;
    }
    let text = match kind.to_ascii_lowercase().as_str() {
        "e" | "f" | "g" if number.is_nan() => "nan".to_owned(),
        "e" | "f" | "g" if number.is_infinite() => {
            if number > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        "f" => format!("{number:.precision$}"),
        "e" => with_exponent(number, precision),
        "g" => shortest(number, precision.max(1)),
        _ => return None,
    };
    let is_upper = kind.bytes().all(|byte| byte.is_ascii_uppercase());
    Some(if is_upper { text.to_ascii_uppercase() } else { text })
}

/// As `%e`: an exponent with its sign and two digits at least.
fn with_exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// As `%g`: so many digits that count, in the shorter form, without zeros behind the last.
fn shortest(number: f64, digits: usize) -> String {
    let text = with_exponent(number, digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let place: i64 = exponent.parse().unwrap_or(0);
    let bare = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if place < -4 || place >= digits as i64 {
        return format!("{}e{exponent}", bare(mantissa));
    }
    let behind = (digits as i64 - 1 - place).max(0) as usize;
    bare(&format!("{number:.behind$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (format, number, expected) in [
            ("%.17e", 0.1, "1.00000000000000006e-01"),
            ("%.17f", 0.1, "0.10000000000000001"),
            ("%g", 0.1, "0.1"),
            ("%f", 999_999_999_999.999, "999999999999.999023"),
            ("%g", 1e6, "1e+06"),
            ("%G", 1.5e-7, "1.5E-07"),
            ("%g", 123_456.7, "123457"),
            ("%.3g", 0.000_123_4, "0.000123"),
            ("%.0f", 2.5, "2"),
            ("%.f", 3.5, "4"),
            ("%e", 0.0, "0.000000e+00"),
            ("%g", 100.0, "100"),
            ("%.2E", -1e120, "-1.00E+120"),
            ("%f", f64::INFINITY, "inf"),
            ("%E", f64::NAN, "NAN"),
        ] {
            assert_eq!(written(format, number).as_deref(), Some(expected), "{format} {number}");
        }
        for format in ["", "f", "%", "%5f", "%d", "%.9999f", "%.", "%ff"] {
            assert_eq!(written(format, 1.0), None, "{format}");
        }
    }
}
