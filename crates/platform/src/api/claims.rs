//! Whether a device is where it claims to be: what an app was told by the device, against what the radio
//! network measures. Each client of the platform has series of claims of its own.

use super::{Stage, radio};
use crate::platform::{Decision, Told};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_radio::position::{CLAIMS_MAX, Claim, Judged, Verdict};
use serde_json::{Value, json};
use std::net::IpAddr;

/// How far off a claim is by its own word, where it says nothing: an open sky's satellites, in metres.
const ACCURACY_M: f64 = 10.0;
/// Claims that are less accurate say nothing, in metres.
const ACCURACY_M_MAX: f64 = 10_000.0;

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    radio::needed(stage)?;
    let text = stage.route.name("address").unwrap_or_default();
    let address: IpAddr = text
        .parse()
        .map_err(|_| Problem::bad_request(format!("{text} is no address of a client")))?;
    if stage.radio.client(address).is_none() {
        return Err(Problem::not_found(&format!("client {address}")));
    }
    let who = &stage.caller.client;
    if name != "claim" {
        return Ok(radio::answer(
            stage,
            judgement(stage, stage.positions.judge(who, address, None)),
        ));
    }
    let claim = read(body, stage.now_ms)?;
    if !stage.positions.has_room(who, address) {
        let most = format!("claims of {CLAIMS_MAX} devices are the most");
        return Err(Problem::new(507, most));
    }
    let judged = stage.positions.judge(who, address, Some(claim));
    let told = Some(Told::Claim { who: who.clone(), address, claim });
    Ok(Decision { told, ..radio::answer(stage, judgement(stage, judged)) })
}

fn read(body: &Value, now_ms: u64) -> Result<Claim, Problem> {
    let position = super::location::position_of(body)?;
    let accuracy_m = body["accuracyM"].as_f64().unwrap_or(ACCURACY_M);
    if !(0.0..=ACCURACY_M_MAX).contains(&accuracy_m) {
        return Err(Problem::bad_request(format!("/accuracyM must be 0 to {ACCURACY_M_MAX}")));
    }
    Ok(Claim { position, accuracy_m, at_ms: now_ms })
}

fn judgement(stage: &Stage<'_>, judged: Option<Judged>) -> Value {
    let Some(judged) = judged else { return json!({ "verdict": "UNKNOWN" }) };
    let verdict = match judged.verdict {
        Verdict::Consistent => "CONSISTENT",
        Verdict::Doubted => "DOUBTED",
        Verdict::TooFast => "TOO_FAST",
    };
    json!({
        "verdict": verdict,
        "evidence": (judged.evidence * 100.0).round() / 100.0,
        "distanceM": judged.apart_m.round() as u64,
        "accuracyM": judged.place.accuracy_m.round() as u64,
        "timestamp": time::stamp(stage.now_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_on_earth() {
        let read = |body: Value| read(&body, 5).map_err(|problem| problem.detail);
        let claim = read(json!({"latitude": 60.0, "longitude": 25.0})).unwrap();
        assert_eq!((claim.position, claim.accuracy_m, claim.at_ms), ([60.0, 25.0], 10.0, 5));
        for wrong in [
            json!({"latitude": 91.0, "longitude": 0.0}),
            json!({"latitude": 0.0, "longitude": -181.0}),
            json!({"latitude": 0.0, "longitude": 0.0, "accuracyM": -1.0}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
