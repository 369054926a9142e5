//! Hashes of passwords as `crypt(3)` and Apache write them.

use super::PASSWORD_BYTES_MAX;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{self, SHA256, SHA512};
use md5::{Digest as _, Md5};
use std::ops::RangeInclusive;

/// Rounds of SHA crypt that are allowed: below the first, `crypt(3)` takes the first; above the second
/// a check would hold up others for more than a second.
const ROUNDS: RangeInclusive<u32> = 1_000..=1_000_000;
const ROUNDS_USUAL: u32 = 5_000;
/// The costs of bcrypt that are allowed, as powers of two; each one more doubles the time.
const COSTS: RangeInclusive<u32> = 4..=14;

/// A password's hash with what it was made with.
#[derive(Clone)]
pub(super) enum Hash {
    Bcrypt { cost: u32, salt: [u8; 16], sum: [u8; 23] },
    Sha { kind: Sha, rounds: u32, salt: Box<[u8]>, sum: Box<[u8]> },
    Apr1 { salt: Box<[u8]>, sum: Box<[u8]> },
}

/// Which digest SHA crypt is made of.
#[derive(Clone, Copy)]
pub(super) enum Sha {
    Sha256,
    Sha512,
}

impl Hash {
    /// From its text.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let parts: Vec<&str> = text.split('$').collect();
        match *parts.as_slice() {
            ["", "2a" | "2b" | "2y", cost, rest] => bcrypt(cost, rest),
            ["", "5", ref rest @ ..] => sha(Sha::Sha256, rest),
            ["", "6", ref rest @ ..] => sha(Sha::Sha512, rest),
            ["", "apr1", salt, sum] if is_salt(salt, 8) && sum.len() == 22 => {
                Ok(Self::Apr1 { salt: salt.as_bytes().into(), sum: sum.as_bytes().into() })
            }
            ["", "y", ..] => Err("yescrypt is not read here"),
            ["", ..] => Err("the hash is of no kind that is read here"),
            _ if text.starts_with("{SHA}") => Err("SHA-1 without salt hides no password"),
            _ => Err("this is a password, or a hash that hides none"),
        }
    }

    /// Whether it is that of this password; compared in constant time.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let password = password.get(..PASSWORD_BYTES_MAX).unwrap_or(password);
        match self {
            Self::Bcrypt { cost, salt, sum } => {
                // What is behind 72 bytes counts for nothing there, with the zero at the end.
                let mut key: Vec<u8> = password.to_vec();
                key.push(0);
                key.truncate(72);
                let made = bcrypt::bcrypt(*cost, *salt, &key);
                verify_slices_are_equal(made.get(..23).unwrap_or(&made), sum).is_ok()
            }
            Self::Sha { kind, rounds, salt, sum } => {
                let made = kind.crypt(password, salt, *rounds);
                verify_slices_are_equal(&made, sum).is_ok()
            }
            Self::Apr1 { salt, sum } => verify_slices_are_equal(&apr1(password, salt), sum).is_ok(),
        }
    }
}

fn is_salt(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn bcrypt(cost: &str, rest: &str) -> Result<Hash, &'static str> {
    const WRONG: &str = "the hash is no whole one of bcrypt";
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::GeneralPurpose::new(
        &base64::alphabet::BCRYPT,
        base64::engine::general_purpose::NO_PAD.with_decode_allow_trailing_bits(true),
    );
    let cost: u32 = cost.parse().map_err(|_| WRONG)?;
    let (salt, sum) = rest.split_at_checked(22).filter(|(_, sum)| sum.len() == 31).ok_or(WRONG)?;
    let decode = |text: &str| engine.decode(text).map_err(|_| WRONG);
    if !COSTS.contains(&cost) {
        return Err("a check of its cost takes too long, or none");
    }
    Ok(Hash::Bcrypt {
        cost,
        salt: decode(salt)?.try_into().map_err(|_| WRONG)?,
        sum: decode(sum)?.try_into().map_err(|_| WRONG)?,
    })
}

fn sha(kind: Sha, parts: &[&str]) -> Result<Hash, &'static str> {
    const WRONG: &str = "the hash is no whole one of SHA crypt";
    let (rounds, salt, sum) = match *parts {
        [salt, sum] => (ROUNDS_USUAL, salt, sum),
        [rounds, salt, sum] => {
            let rounds = rounds.strip_prefix("rounds=").ok_or(WRONG)?;
            (rounds.parse::<u32>().map_err(|_| WRONG)?.max(*ROUNDS.start()), salt, sum)
        }
        _ => return Err(WRONG),
    };
    if rounds > *ROUNDS.end() {
        return Err("a check of so many rounds takes too long");
    }
    // `crypt(3)` takes no more of it either.
    if !is_salt(salt, 16) || sum.len() != kind.text_bytes() {
        return Err(WRONG);
    }
    Ok(Hash::Sha { kind, rounds, salt: salt.as_bytes().into(), sum: sum.as_bytes().into() })
}

impl Sha {
    fn text_bytes(self) -> usize {
        match self {
            Self::Sha256 => 43,
            Self::Sha512 => 86,
        }
    }

    fn of(self, parts: &[&[u8]]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &SHA256,
            Self::Sha512 => &SHA512,
        };
        let mut context = digest::Context::new(algorithm);
        parts.iter().for_each(|part| context.update(part));
        context.finish().as_ref().to_vec()
    }

    /// SHA crypt by Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6.
    fn crypt(self, password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
        let both = self.of(&[password, salt, password]);
        let mut first: Vec<&[u8]> = vec![password, salt];
        first.extend(pieces(&both, password.len()));
        let mut bits = password.len();
        while bits > 0 {
            first.push(if bits & 1 == 1 { &both } else { password });
            bits >>= 1;
        }
        let mut sum = self.of(&first);
        let of_password = self.of(&vec![password; password.len()]);
        let password: Vec<u8> = pieces(&of_password, password.len()).concat();
        let times = 16 + usize::from(sum.first().copied().unwrap_or(0));
        let of_salt = self.of(&vec![salt; times]);
        let salt: Vec<u8> = pieces(&of_salt, salt.len()).concat();
        for round in 0..rounds {
            let (front, back) = if round % 2 == 1 { (&password, &sum) } else { (&sum, &password) };
            let third: &[u8] = if round % 3 == 0 { &[] } else { &salt };
            let seventh: &[u8] = if round % 7 == 0 { &[] } else { &password };
            sum = self.of(&[front, third, seventh, back]);
        }
        self.text(&sum)
    }

    /// The sum as text: its bytes in an order of their own.
    fn text(self, sum: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text_bytes());
        match self {
            Self::Sha256 => {
                let (mut a, mut b, mut c) = (0, 10, 20);
                for _ in 0..10 {
                    sixty_four(sum, [Some(a), Some(b), Some(c)], 4, &mut out);
                    (a, b, c) = (c + 1, a + 1, b + 1);
                }
                sixty_four(sum, [None, Some(31), Some(30)], 3, &mut out);
            }
            Self::Sha512 => {
                let (mut a, mut b, mut c) = (0, 21, 42);
                for _ in 0..21 {
                    sixty_four(sum, [Some(a), Some(b), Some(c)], 4, &mut out);
                    (a, b, c) = (b + 1, c + 1, a + 1);
                }
                sixty_four(sum, [None, None, Some(63)], 2, &mut out);
            }
        }
        out
    }
}

/// Apache's MD5, `apr_md5_encode`.
fn apr1(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let of = |parts: &[&[u8]]| {
        let mut context = Md5::new();
        parts.iter().for_each(|part| context.update(part));
        context.finalize().to_vec()
    };
    let both = of(&[password, salt, password]);
    let mut first: Vec<&[u8]> = vec![password, b"$apr1$", salt];
    first.extend(pieces(&both, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        first.push(if bits & 1 == 1 { &[0] } else { password.get(..1).unwrap_or(&[]) });
        bits >>= 1;
    }
    let mut sum = of(&first);
    for round in 0..1000 {
        let (front, back): (&[u8], &[u8]) =
            if round % 2 == 1 { (password, &sum) } else { (&sum, password) };
        let third: &[u8] = if round % 3 == 0 { &[] } else { salt };
        let seventh: &[u8] = if round % 7 == 0 { &[] } else { password };
        sum = of(&[front, third, seventh, back]);
    }
    let mut out = Vec::with_capacity(22);
    for (a, b, c) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        sixty_four(&sum, [Some(a), Some(b), Some(c)], 4, &mut out);
    }
    sixty_four(&sum, [None, None, Some(11)], 2, &mut out);
    out
}

/// As many bytes of `sum`, over and over, as `bytes` says.
fn pieces(sum: &[u8], bytes: usize) -> Vec<&[u8]> {
    let mut out = vec![sum; bytes / sum.len().max(1)];
    out.push(sum.get(..bytes % sum.len().max(1)).unwrap_or(&[]));
    out
}

/// Three bytes, the first the highest, as text of so many signs of six bits, the lowest first.
fn sixty_four(sum: &[u8], places: [Option<usize>; 3], signs: u32, out: &mut Vec<u8>) {
    const SIGNS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let byte = |place: Option<usize>| place.and_then(|place| sum.get(place)).copied().unwrap_or(0);
    let bits = places.into_iter().fold(0_u32, |bits, place| bits << 8 | u32::from(byte(place)));
    for sign in 0..signs {
        let index = usize::try_from(bits >> (6 * sign) & 63).unwrap_or(0);
        out.push(SIGNS.get(index).copied().unwrap_or(b'.'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the third by glibc's `crypt(3)`, the last by `openssl passwd -apr1`.
    #[test]
    fn hashes_of_other_programs_are_read() {
        let long = "x".repeat(100);
        for (password, text) in [
            (
                "password",
                "$6$saltstring$adDbXsJjcDlq2662QPgd.tkSOVmnG9Tt3oXl4HR60SusC3AGjirnDenVZp3DGwLwqy6iYKCzannhaX9DR72nN1",
            ),
            ("päss wort", "$5$rounds=7000$abcdefgh$cwJoC/qnYUarRJB.L2gRquBLQnKhuMqY1et3RzaQzG."),
            (
                &long,
                "$6$rounds=1000$roundstoolow$.H5nSc.taLWZJGQvXL.j.1i1z/U1rhpsrkkAZrjeDF.7V92ZCkPTTN683YKMVso7JIAfVC60E4hPNvwd82c6m0",
            ),
            ("password", "$apr1$abcdefgh$FBwExRW4dCc8aL.OvjpIE1"),
            ("a longer password than sixteen bytes", "$apr1$xyz$FiV6yfJh8VlvyIAXBs4qZ."),
        ] {
            let hash = Hash::parse(text).unwrap();
            assert!(hash.verify(password.as_bytes()), "{text}");
            assert!(!hash.verify(b"another"), "{text}");
        }
    }
}
