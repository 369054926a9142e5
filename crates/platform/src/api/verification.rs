//! CAMARA Device Location Verification 1.0: whether a device is in a circle, by the network's position of it and
//! how far off that may be.

use super::{Stage, location, radio};
use crate::platform::Decision;
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_radio::distance_m;
use freshet_radio::position::{CONFIDENCE, Overlap, overlap};
use serde_json::{Value, json};
use std::net::IpAddr;

/// Answers whether a device is where it is asked for.
pub(super) fn verify(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let centre = location::position_of(&body["area"]["center"])?;
    let radius_m = body["area"]["radius"].as_f64().unwrap_or_default();
    let address = address(&body["device"])?;
    radio::needed(stage)?;
    let Some((place, at_ms)) = stage.positions.last(address) else {
        return Err(Problem::not_found(&format!("client {address}")).coded("IDENTIFIER_NOT_FOUND"));
    };
    let mut answer = json!({ "lastLocationTime": time::write(at_ms) });
    let age_ms = stage.now_ms.saturating_sub(at_ms);
    let is_old = body["maxAge"].as_u64().is_some_and(|age_s| age_ms > age_s.saturating_mul(1000));
    let confidence =
        place.confidence_percent.map_or(CONFIDENCE, |percent| f64::from(percent) / 100.0);
    let apart_m = distance_m(centre, place.position);
    let (result, rate) = match overlap(apart_m, radius_m, place.accuracy_m, confidence) {
        _ if is_old => ("UNKNOWN", None),
        Overlap::Whole => ("TRUE", None),
        Overlap::None => ("FALSE", None),
        Overlap::Percent(rate) => ("PARTIAL", Some(rate)),
    };
    answer["verificationResult"] = result.into();
    if let Some(rate) = rate {
        answer["matchRate"] = rate.into();
    }
    Ok(radio::answer(stage, answer))
}

/// The address of a device in the mobile network: what is known of clients here.
fn address(device: &Value) -> Result<IpAddr, Problem> {
    let refuse = |code, detail| Err(Problem::new(422, detail).coded(code));
    let Some(members) = device.as_object().filter(|members| !members.is_empty()) else {
        return refuse("MISSING_IDENTIFIER", "/device: must say which one, by its address");
    };
    let v4 = &device["ipv4Address"];
    // Behind no translation both are the same; behind one, only the private one is known here.
    let texts = [&v4["privateAddress"], &v4["publicAddress"], &device["ipv6Address"]];
    let Some(text) = texts.into_iter().find_map(Value::as_str) else {
        let names = members.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let detail =
            format!("/device: clients are known by ipv4Address or ipv6Address, not {names}");
        return Err(Problem::new(422, detail).coded("UNSUPPORTED_IDENTIFIER"));
    };
    // An IPv6 address may have its length behind it.
    let text = text.split('/').next().unwrap_or_default();
    text.parse().map_err(|_| Problem::bad_request(format!("/device: {text} is no address")))
}

/// The code that CAMARA has for a status.
pub(super) const fn code(status: u16) -> &'static str {
    match status {
        400 | 413 | 414 | 415 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 => "METHOD_NOT_ALLOWED",
        406 => "NOT_ACCEPTABLE",
        429 => "TOO_MANY_REQUESTS",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
