//! How often a token may be used (the claims `catreplay` and `catpor` of CTA-5007).

use super::claims::number_of;
use super::cose::digest;
use crate::denied::Denied;
use crate::limits::REFUSED_S;
use crate::question::Question;
use crate::used::Noted;
use ciborium::Value;

/// What of that a token says.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// It may be used once: this is the digest of it.
    pub(super) once: Option<u128>,
    pub(super) chance: Option<Chance>,
}

/// How often a token is to be refused, and all that have its name with it.
#[derive(Debug, PartialEq)]
pub(super) struct Chance {
    /// From 0 to 1.
    probability: f64,
    name: u128,
    /// Until when, once it was.
    until_s: Option<f64>,
}

impl Chance {
    /// Reads `[probability, name]` or `[probability, name, until]`.
    pub(super) fn read(value: &Value) -> Result<Self, Denied> {
        let Value::Array(parts) = value else { return Err(Denied::Malformed) };
        let (probability, name, until) = match parts.as_slice() {
            [probability, Value::Bytes(name)] => (probability, name, None),
            [probability, Value::Bytes(name), until] => (probability, name, Some(until)),
            _ => return Err(Denied::Malformed),
        };
        let probability = number_of(probability)?;
        if !(0.0..=1.0).contains(&probability) {
            return Err(Denied::Malformed);
        }
        // Not what is signed of any token.
        let name = digest(&[b"catpor", name.as_slice()].concat());
        Ok(Self { probability, name, until_s: until.map(number_of).transpose()? })
    }
}

impl Uses {
    /// Uses a token that is good otherwise, which ends `expires_s`.
    pub(super) fn take(
        &self,
        expires_s: Option<f64>,
        question: &Question<'_>,
        leeway_s: u64,
    ) -> Result<(), Denied> {
        let now_s = question.now_s;
        let seconds = |time: f64| (time.max(0.0).ceil() as u64).saturating_add(leeway_s);
        if let Some(chance) = &self.chance {
            let used = question.used.ok_or(Denied::Claim)?;
            if used.has(chance.name, now_s) {
                return Err(Denied::Chance);
            }
            if random() < chance.probability {
                let until_s = chance.until_s.or(expires_s).map(seconds);
                let until_s = until_s.unwrap_or_else(|| now_s.saturating_add(REFUSED_S));
                used.note(chance.name, until_s, now_s);
                return Err(Denied::Chance);
            }
        }
        if let Some(digest) = self.once {
            let used = question.used.ok_or(Denied::Claim)?;
            // One without an end would have to be remembered for good.
            let until_s = seconds(expires_s.ok_or(Denied::Endless)?);
            if used.note(digest, until_s.saturating_add(1), now_s) != Noted::New {
                return Err(Denied::Used);
            }
        }
        Ok(())
    }
}

/// From 0, to less than 1. Where there is no randomness there is no chance either.
fn random() -> f64 {
    let mut bytes = [0; 4];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / 2_f64.powi(32),
        Err(_) => 0.0,
    }
}
