//! From when until when a certificate holds (RFC 5280 §4.1.2.5).

use rustls_pki_types::CertificateDer;

/// From when until when a certificate holds, both in seconds of Unix time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Validity {
    /// Its first second.
    pub from_s: i64,
    /// Its last.
    pub until_s: i64,
}

impl Validity {
    /// What a certificate says; `None` where it is not one.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, mut fields) = expect(behind_version(certificate)?, INTEGER)?;
        // The algorithm of the signature, the issuer.
        for tag in [SEQUENCE, SEQUENCE] {
            (_, fields) = expect(fields, tag)?;
        }
        let (validity, _) = expect(fields, SEQUENCE)?;
        let (from_s, rest) = time(validity)?;
        Some(Self { from_s, until_s: time(rest)?.0 })
    }
}

/// The serial number of a certificate (RFC 5280 §4.1.2.2), as it is encoded.
pub(super) fn serial_of<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    expect(behind_version(certificate)?, INTEGER).map(|(serial, _)| serial)
}

/// What is behind the version of a certificate.
fn behind_version<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (outer, _) = expect(certificate, SEQUENCE)?;
    let (fields, _) = expect(outer, SEQUENCE)?;
    match fields.first() {
        Some(&VERSION) => expect(fields, VERSION).map(|(_, fields)| fields),
        _ => Some(fields),
    }
}

pub(super) const INTEGER: u8 = 0x02;
pub(super) const SEQUENCE: u8 = 0x30;
/// `[0]`, explicit.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The content of the element at the beginning, if it has this tag, and what is behind it.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // Two bytes of length are 64 KiB, and no certificate here is as long as three.
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length))?
}

/// The time at the beginning, and what is behind it: `YYMMDDHHMMSSZ` until 2049, else
/// `YYYYMMDDHHMMSSZ`.
pub(super) fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let is_short = bytes.first() == Some(&UTC_TIME);
    let (text, rest) = expect(bytes, if is_short { UTC_TIME } else { GENERALIZED_TIME })?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let (year, of_year) = digits.split_at_checked(if is_short { 2 } else { 4 })?;
    let year = match (is_short, number(year)) {
        (true, year @ 50..) => 1900 + year,
        (true, year) => 2000 + year,
        (false, year) => year,
    };
    let parts: Vec<i64> = of_year.chunks(2).map(number).collect();
    let &[month, day, hour, minute, second] = parts.as_slice() else { return None };
    if of_year.len() != 10 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days_to(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds, rest))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with the leap day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_certificate_are_read() {
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(1999, 12, 31);
        parameters.not_after = rcgen::date_time_ymd(2055, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let made = parameters.self_signed(&key).unwrap();
        let found = Validity::of(made.der()).unwrap();
        // `date -u -d 1999-12-31 +%s`, and of 2055-03-01.
        assert_eq!(found, Validity { from_s: 946_598_400, until_s: 2_687_472_000 });
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_is_none_or_another() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let bytes = made.cert.der().to_vec();
        for length in 0..100.min(bytes.len()) {
            assert_eq!(Validity::of(&bytes[..length].into()), None);
        }
        for at in 0..bytes.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let _ = Validity::of(&bytes.as_slice().into());
            }
        }
    }
}
