//! Numbers as people read them.

/// `value` with a fixed number of decimals and its thousands apart: `1,234.50`. Not finite: a dash.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("−", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(a, b)| (a, Some(b)));
    let is_zero = digits.chars().all(|c| c == '0' || c == '.');
    let mut out = String::with_capacity(text.len() + whole.len() / 3);
    out.push_str(if is_zero { "" } else { sign });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// `value` with about `digits` significant digits, never fewer than its whole part has: `0.0123`,
/// `12.3`, `1,234`. Trailing zeros of the fraction are dropped.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let power = value.abs().log10().floor();
    if !(-9.0..15.0).contains(&power) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as f64 - 1.0 - power).max(0.0) as usize;
    let text = fixed(value, decimals);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart_and_signs_are_kept() {
        assert_eq!(fixed(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(fixed(-1234.5, 1), "−1,234.5");
        assert_eq!(fixed(-0.001, 1), "0.0");
        assert_eq!(fixed(f64::NAN, 1), "–");
        assert_eq!(fixed(999.0, 0), "999");
    }

    #[test]
    fn significant_digits_follow_the_size() {
        let shown = [0.01234, 12.345, 1234.6, 100.0, 0.5, 1e20].map(|value| significant(value, 3));
        assert_eq!(shown, ["0.0123", "12.3", "1,235", "100", "0.5", "1.00e20"]);
    }
}
