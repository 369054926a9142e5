//! ETSI GS MEC 030: what vehicles are provisioned with and may expect along their way, as the feed tells it,
//! and messages that apps publish for others.

use super::Stage;
use super::feeds::{answer, each, last};
use crate::platform::{Answer, Decision, Event};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_radio::distance_m;
use serde_json::{Value, json};

const ROOT: &str = "/vis/v2";
/// A place of the report counts for one that is asked about when it is this near, in metres.
const NEAR_M: f64 = 1000.0;

fn position(place: &Value) -> Option<[f64; 2]> {
    Some([place["geoArea"]["latitude"].as_f64()?, place["geoArea"]["longitude"].as_f64()?])
}

/// How far off a place of the report is: nothing for the same cell, metres else.
fn distance(wanted: &Value, known: &Value) -> Option<f64> {
    if wanted["ecgi"].is_object() && wanted["ecgi"] == known["ecgi"] {
        return Some(0.0);
    }
    Some(distance_m(position(wanted)?, position(known)?)).filter(|distance| *distance <= NEAR_M)
}

/// Reads `location_info`: `ecgi,X,Y` or `latitude,X,longitude,Y`.
fn places(text: &str) -> Result<Vec<Place>, Problem> {
    let wrong = || {
        Problem::bad_request(
            "location_info must be ecgi,CELL,… or latitude,NUMBER,…,longitude,NUMBER,…",
        )
    };
    let words: Vec<&str> = text.split(',').collect();
    let number = |text: &&str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match words.split_first() {
        Some((&"ecgi", cells)) if !cells.is_empty() => {
            Ok(cells.iter().map(|cell| Place::Cell((*cell).to_owned())).collect())
        }
        Some((&"latitude", rest)) => {
            let middle = rest.iter().position(|word| *word == "longitude").ok_or_else(wrong)?;
            let (latitudes, longitudes) = (&rest[..middle], &rest[middle + 1..]);
            if latitudes.is_empty() || latitudes.len() != longitudes.len() {
                return Err(wrong());
            }
            let pairs = latitudes.iter().zip(longitudes);
            let point = |(lat, lon)| Some(Place::Point([number(lat)?, number(lon)?]));
            pairs.map(point).collect::<Option<_>>().ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

#[derive(Debug, PartialEq)]
enum Place {
    /// A cell, by its identity.
    Cell(String),
    /// Latitude and longitude.
    Point([f64; 2]),
}

impl Place {
    fn is(&self, known: &Value) -> bool {
        match self {
            Self::Cell(cell) => known["ecgi"]["cellId"]["cellId"] == **cell,
            Self::Point(point) => {
                position(known).is_some_and(|other| distance_m(*point, other) <= NEAR_M)
            }
        }
    }
}

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    match name {
        "provisioning" => provisioning(stage),
        "distribution_servers" => distribution_servers(stage, body),
        "predicted_qos" => predicted_qos(stage, body),
        _ => Ok(publish(stage, body)),
    }
}

/// What vehicles have to know at the places that are asked about.
pub(super) fn provisioning(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let (list, member) = match stage.place().1 {
        "uu_unicast_provisioning_info" => ("unicast", "proInfoUuUnicast"),
        "uu_mbms_provisioning_info" => ("mbms", "proInfoUuMbms"),
        _ => ("pc5", "proInfoPc5"),
    };
    let report = last(stage, "v2x")?;
    let asked = stage.selection.parameters.iter().map(|(_, text)| places(text));
    let asked: Vec<Place> = asked.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let is_there = |one: &&Value| asked.iter().any(|place| place.is(&one["locationInfo"]));
    let found: Vec<&Value> = each(report, list).filter(is_there).collect();
    if found.is_empty() {
        return Err(Problem::not_found("information for this place"));
    }
    Ok(answer(report, json!({ member: found, "timeStamp": time::stamp(stage.now_ms) })))
}

/// Who distributes messages at some places; everywhere where none is named.
pub(super) fn distribution_servers(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let report = last(stage, "v2x")?;
    let places = body["locationInfo"].as_array();
    let is_there = |one: &&Value| {
        places.is_none_or(|places| {
            places.iter().any(|place| distance(place, &one["locationInfo"]).is_some())
        })
    };
    let found = each(report, "distributionServers").filter(is_there);
    let found: Vec<&Value> = found.map(|one| &one["v2xMsgDistributionServer"]).collect();
    if found.is_empty() {
        return Err(Problem::not_found("server for this place"));
    }
    let mut told = json!({ "v2xMsgDistributionServer": found });
    if let Some(places) = body.get("locationInfo") {
        told["locationInfo"] = places.clone();
    }
    Ok(answer(report, told))
}

/// The worse of two values of an indicator: the greater of a delay or a loss, else the lesser.
fn is_worse(name: &str, value: &str, than: &str) -> bool {
    let number = |text: &str| -> f64 {
        text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
    };
    let name = name.to_ascii_lowercase();
    let is_cost = ["latency", "delay", "loss", "jitter"].iter().any(|word| name.contains(word));
    if is_cost { number(value) > number(than) } else { number(value) < number(than) }
}

/// What a vehicle may expect along its ways or in an area: of each indicator the worst that the report
/// has there.
pub(super) fn predicted_qos(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let report = last(stage, "v2x")?;
    let routes = body["routes"].as_array().into_iter().flatten();
    let points = routes.flat_map(|route| route["routeInfo"].as_array().into_iter().flatten());
    let mut places: Vec<&Value> = points.map(|point| &point["location"]).collect();
    places.extend(body.pointer("/predictionArea/center"));
    if places.is_empty() {
        return Err(Problem::bad_request("routes or predictionArea must say where"));
    }
    let streams = body["qos"]["stream"].as_array().into_iter().flatten();
    let wanted: Vec<&Value> = streams
        .flat_map(|stream| stream["qosKpi"].as_array().into_iter().flatten())
        .map(|kpi| &kpi["kpiName"])
        .collect();
    let mut worst: Vec<Value> = Vec::new();
    for place in places {
        let near = each(report, "quality")
            .filter_map(|one| Some((distance(place, &one["locationInfo"])?, &one["qosKpi"])));
        let nearest = near.min_by(|one, other| one.0.total_cmp(&other.0));
        let (_, indicators) =
            nearest.ok_or_else(|| Problem::not_found("prediction for this place"))?;
        for one in indicators.as_array().into_iter().flatten() {
            if !wanted.is_empty() && !wanted.contains(&&one["kpiName"]) {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, value) = (text(&one["kpiName"]), text(&one["kpiValue"]));
            match worst.iter_mut().find(|known| known["kpiName"] == one["kpiName"]) {
                Some(known) if is_worse(&name, &value, &text(&known["kpiValue"])) => {
                    *known = one.clone();
                }
                Some(_) => {}
                None => worst.push(one.clone()),
            }
        }
    }
    let mut told = body.clone();
    told["qos"] = json!({ "stream": [{ "qosKpi": worst }] });
    Ok(answer(report, told))
}

/// An app publishes a message: who subscribed for its kind and place gets it.
pub(super) fn publish(stage: &Stage<'_>, body: &Value) -> Decision {
    let properties = &body["msgPropertiesValues"];
    let mut told = body.clone();
    told["notificationType"] = "V2xMsgNotification".into();
    told["timeStamp"] = time::stamp(stage.now_ms);
    let event = Event {
        root: ROOT.to_owned(),
        kind: "V2xMsgSubscription",
        facts: properties.clone(),
        body: told,
        only: None,
    };
    Decision { events: vec![event], ..Answer::nothing().into() }
}

/// What changed from one report to the next.
pub(super) fn events(old: &Value, new: &Value, now_ms: u64) -> Vec<Event> {
    let lists = [
        ("unicast", "ProvChgUuUniSubscription"),
        ("mbms", "ProvChgUuMbmsSubscription"),
        ("pc5", "ProvChgPc5Subscription"),
    ];
    let mut events = Vec::new();
    for (list, kind) in lists {
        for one in each(new, list).filter(|one| !each(old, list).any(|other| other == *one)) {
            let mut body = one.clone();
            body["notificationType"] = kind.replace("Subscription", "Notification").into();
            body["timeStamp"] = time::stamp(now_ms);
            // Where it is, not what it is now, is asked for.
            let facts = json!({ "locationInfo": one["locationInfo"] });
            events.push(Event { root: ROOT.to_owned(), kind, facts, body, only: None });
        }
    }
    if old["quality"] != new["quality"] {
        let of = |one: &Value| json!({ "qosKpi": one["qosKpi"] });
        let streams: Vec<Value> = each(new, "quality").map(of).collect();
        let body = json!({
            "notificationType": "PredQosNotification",
            "timeStamp": time::stamp(now_ms),
            "qos": { "stream": streams },
        });
        let kind = "PredQosSubscription";
        events.push(Event { root: ROOT.to_owned(), kind, facts: Value::Null, body, only: None });
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let cell = |text: &str| Place::Cell(text.to_owned());
        assert_eq!(places("ecgi,a,b").unwrap(), [cell("a"), cell("b")]);
        assert_eq!(
            places("latitude,1,2,longitude,3,4").unwrap(),
            [Place::Point([1.0, 3.0]), Place::Point([2.0, 4.0])]
        );
        for wrong in [
            "",
            "ecgi",
            "lattitude,1,longitude,2",
            "latitude,1",
            "latitude,1,longitude,2,3",
            "latitude,x,longitude,2",
            "latitude,longitude",
        ] {
            assert_eq!(places(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn the_worst_of_an_indicator_is_told() {
        assert!(is_worse("DL bitrate", "3 Mbit/s", "20 Mbit/s"));
        assert!(is_worse("Latency", "30 ms", "8 ms"));
        assert!(!is_worse("packet loss", "1 %", "2 %"));
    }
}
