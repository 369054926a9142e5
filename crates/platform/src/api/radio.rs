//! ETSI GS MEC 012: what is known of bearers and cells, and who is told when it changes.

use super::Stage;
use crate::platform::{Answer, Decision, Event, Told};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_radio::{Client, Neighbour, Radio, is_of_nr};
use serde::Deserialize;
use serde_json::{Value, json};

const ROOT: &str = "/rni/v2";
/// One step of an LTE timing advance is so many metres of distance (3GPP TS 36.211 §8).
const ADVANCE_STEP_M: f64 = 78.125;
/// A handover that is done, among the values of `hoStatus`.
const COMPLETED: u8 = 3;
/// Values of `eventType`, and their names from 1 on, which `s1Event` has.
const ESTABLISHED: u8 = 1;
const MODIFIED: u8 = 2;
const RELEASED: u8 = 3;
const S1_EVENTS: [&str; 3] = ["S1_BEARER_ESTABLISH", "S1_BEARER_MODIFY", "S1_BEARER_RELEASE"];
/// A report that comes by time, among the values of `trigger` and of `triggerNr`.
const PERIODICAL: u8 = 1;

/// An answer that rests on the radio network's report says whose it is.
pub(super) fn answer(stage: &Stage<'_>, body: Value) -> Decision {
    Answer::ok(body).with("Freshet-Data-Source", &*stage.radio.source).into()
}

/// Whether anything is known of the radio network.
pub(super) fn needed(stage: &Stage<'_>) -> Result<(), Problem> {
    if stage.radio.cells.is_empty() {
        return Err(Problem::new(503, "no feed tells this platform of the radio network"));
    }
    Ok(())
}

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>) -> Result<Decision, Problem> {
    needed(stage)?;
    Ok(match name {
        "rab_info" => rab_info(stage),
        "plmn_info" => plmn_info(stage),
        "s1_bearer_info" => s1_bearer_info(stage),
        _ => layer2_meas(stage),
    })
}

/// What parameters of queries ask a client for, by their names.
fn view(client: &Client) -> Value {
    let address = if client.address.is_ipv4() { "ue_ipv4_address" } else { "ue_ipv6_address" };
    let mut view = json!({
        "cell_id": client.cell,
        "erab_id": client.bearer.id,
        "qci": client.bearer.qci,
        "gtp_teid": client.bearer.teids.map(|teid| teid.to_string()),
    });
    view[address] = client.address.to_string().into();
    view
}

fn asked<'a>(stage: &'a Stage<'_>) -> impl Iterator<Item = &'a Client> {
    stage.radio.clients.iter().filter(|client| stage.selection.wants(&view(client)))
}

/// Clients of the cells that are asked for, each cell once.
fn by_cell<'a>(stage: &'a Stage<'_>) -> Vec<(&'a str, Vec<&'a Client>)> {
    let mut cells: Vec<(&str, Vec<&Client>)> = Vec::new();
    for client in asked(stage) {
        match cells.iter_mut().find(|(cell, _)| *cell == client.cell) {
            Some((_, clients)) => clients.push(client),
            None => cells.push((&client.cell, vec![client])),
        }
    }
    cells
}

/// The app instance that asks: what it says, else what its token is of.
fn app_of(stage: &Stage<'_>) -> String {
    let said = stage.selection.parameters.iter().find(|(name, _)| name == "app_ins_id");
    let own = stage.caller.app.as_deref().unwrap_or(&stage.caller.client);
    said.map_or(own, |(_, app)| app).to_owned()
}

/// Identifies a client by its address.
fn associate(client: &Client) -> Value {
    json!({ "type": if client.address.is_ipv4() { 1 } else { 2 }, "value": client.address.to_string() })
}

pub(super) fn rab_info(stage: &Stage<'_>) -> Decision {
    let cells = by_cell(stage).into_iter().map(|(cell, clients)| {
        let clients: Vec<Value> = clients
            .iter()
            .map(|client| json!({
                "associateId": [associate(client)],
                "erabInfo": [{ "erabId": client.bearer.id, "erabQosParameters": { "qci": client.bearer.qci } }],
            }))
            .collect();
        json!({ "ecgi": stage.radio.ecgi(cell), "ueInfo": clients })
    });
    answer(
        stage,
        json!({
            "timeStamp": time::stamp(stage.now_ms),
            "appInstanceId": app_of(stage),
            "requestId": stage.fresh,
            "cellUserInfo": cells.collect::<Vec<_>>(),
        }),
    )
}

pub(super) fn plmn_info(stage: &Stage<'_>) -> Decision {
    answer(
        stage,
        json!([{
            "timeStamp": time::stamp(stage.now_ms),
            "appInstanceId": app_of(stage),
            "plmn": [stage.radio.plmn_value()],
        }]),
    )
}

/// A client's bearer, with the ends of its tunnel.
fn bearer_value(client: &Client) -> Value {
    let [up, down] = client.bearer.teids.map(|teid| teid.to_string());
    let [station, core] = client.bearer.ends.map(|end| end.to_string());
    json!({
        "erabId": client.bearer.id,
        "enbInfo": { "ipAddress": station, "tunnelId": down },
        "sGwInfo": { "ipAddress": core, "tunnelId": up },
    })
}

pub(super) fn s1_bearer_info(stage: &Stage<'_>) -> Decision {
    let clients = asked(stage).map(|client| {
        json!({
            "associateId": [associate(client)],
            "ecgi": [stage.radio.ecgi(&client.cell)],
            "s1BearerInfoDetailed": [bearer_value(client)],
        })
    });
    let clients: Vec<Value> = clients.collect();
    answer(stage, json!({ "timeStamp": time::stamp(stage.now_ms), "s1UeInfo": clients }))
}

pub(super) fn layer2_meas(stage: &Stage<'_>) -> Decision {
    let cells = by_cell(stage);
    let counts = cells.iter().map(|(cell, clients)| {
        json!({
            "ecgi": stage.radio.ecgi(cell),
            "number_of_active_ue_dl_nongbr_cell": clients.len(),
            "number_of_active_ue_ul_nongbr_cell": clients.len(),
        })
    });
    let clients = asked(stage).map(|client| {
        json!({
            "ecgi": stage.radio.ecgi(&client.cell),
            "associateId": associate(client),
        })
    });
    answer(
        stage,
        json!({
            "timeStamp": time::stamp(stage.now_ms),
            "cellInfo": counts.collect::<Vec<_>>(),
            "cellUEInfo": clients.collect::<Vec<_>>(),
        }),
    )
}

/// The last report.
pub(super) fn last(stage: &Stage<'_>) -> Result<Decision, Problem> {
    needed(stage)?;
    let report = serde_json::to_value(stage.radio).expect("a report is plain data");
    Ok(answer(stage, report))
}

/// A report comes in.
pub(super) fn feed(body: &Value) -> Result<Decision, Problem> {
    let radio: Radio =
        Radio::deserialize(body).map_err(|error| Problem::bad_request(error.to_string()))?;
    if let Some(mistake) = radio.mistake() {
        return Err(Problem::bad_request(mistake));
    }
    Ok(Decision { told: Some(Told::Radio(radio)), ..Answer::nothing().into() })
}

/// What is told of a bearer that came, changed or went.
fn s1_event(radio: &Radio, client: &Client, event: u8) -> (Value, Value) {
    let ecgi = radio.ecgi(&client.cell);
    let facts = json!({ "ecgi": ecgi, "erabId": client.bearer.id, "eventType": event });
    let body = json!({
        "s1Event": S1_EVENTS[usize::from(event) - 1],
        "s1UeInfo": {
            "associateId": [associate(client)],
            "ecgi": [ecgi],
            "s1BearerInfo": [{ "s1UeInfo": [{
                "associateId": [associate(client)],
                "ecgi": [ecgi],
                "s1BearerInfoDetailed": [bearer_value(client)],
            }] }],
        },
    });
    (facts, body)
}

/// What is told of carriers that came to serve a client besides its cell, or do so no more.
fn carriers_changed(
    (old, before): (&Radio, &Client),
    (new, client): (&Radio, &Client),
) -> Option<(Value, Value)> {
    let only_in = |one: &Client, other: &Client, radio: &Radio| {
        let cells = one.secondary_cells.iter().filter(|cell| !other.secondary_cells.contains(cell));
        cells.map(|cell| json!({ "ecgi": radio.ecgi(cell) })).collect::<Vec<_>>()
    };
    let (added, removed) = (only_in(client, before, new), only_in(before, client, old));
    let ecgi = new.ecgi(&client.cell);
    let body = json!({
        "ecgi": ecgi, "secondaryCellAdd": added, "secondaryCellRemove": removed,
    });
    (!added.is_empty() || !removed.is_empty()).then(|| (json!({ "ecgi": ecgi }), body))
}

/// As 3GPP TS 36.133 §9.1.4 and §9.1.7 number ranges of power and quality in LTE.
fn lte_power(rsrp_dbm: f64) -> i64 {
    (rsrp_dbm + 141.0).floor().clamp(0.0, 97.0) as i64
}

fn lte_quality(rsrq_db: f64) -> i64 {
    (2.0 * (rsrq_db + 20.0)).floor().clamp(0.0, 34.0) as i64
}

/// As 3GPP TS 38.133 §10.1.6 and §10.1.11 number them in NR.
fn nr_power(rsrp_dbm: f64) -> i64 {
    (rsrp_dbm + 157.0).floor().clamp(0.0, 127.0) as i64
}

fn nr_quality(rsrq_db: f64) -> i64 {
    (2.0 * (rsrq_db + 43.5)).floor().clamp(0.0, 127.0) as i64
}

/// What a client measures of its cell, for subscribers of the kind that its cell is of.
fn measured(radio: &Radio, client: &Client) -> Option<(&'static str, Value, Value)> {
    let (rsrp_dbm, rsrq_db) = client.rsrp_dbm.zip(client.rsrq_db)?;
    if !is_of_nr(&client.cell) {
        let ecgi = radio.ecgi(&client.cell);
        let facts = json!({ "ecgi": ecgi, "trigger": PERIODICAL });
        let (rsrp, rsrq) = (lte_power(rsrp_dbm), lte_quality(rsrq_db));
        let body = json!({ "ecgi": ecgi, "trigger": PERIODICAL, "rsrp": rsrp, "rsrq": rsrq });
        return Some(("MeasRepUeSubscription", facts, body));
    }
    let nrcgi = radio.nrcgi(&client.cell);
    let power = |rsrp_dbm: f64| json!({ "rsrp": nr_power(rsrp_dbm) });
    let mut serving = power(rsrp_dbm);
    serving["rsrq"] = nr_quality(rsrq_db).into();
    let (nr, lte): (Vec<&Neighbour>, Vec<&Neighbour>) =
        client.neighbours.iter().partition(|one| is_of_nr(&one.cell));
    let nr = nr.iter().map(|one| {
        let nrcgi = radio.nrcgi(&one.cell);
        json!({ "nrcgi": nrcgi, "measQuantityResultsSsbCell": power(one.rsrp_dbm) })
    });
    let lte = lte
        .iter()
        .map(|one| json!({ "ecgi": radio.ecgi(&one.cell), "rsrp": lte_power(one.rsrp_dbm) }));
    let body = json!({
        "triggerNr": PERIODICAL,
        "servCellMeasInfo": [{ "nrcgi": nrcgi, "sCell": { "measQuantityResultsSsbCell": serving } }],
        "nrNeighCellMeasInfo": nr.collect::<Vec<_>>(),
        "eutraNeighCellMeasInfo": lte.collect::<Vec<_>>(),
    });
    let facts = json!({ "nrcgi": nrcgi, "triggerNr": PERIODICAL });
    Some(("NrMeasRepUeSubscription", facts, body))
}

/// What changed from one report to the next.
pub(super) fn events(old: &Radio, new: &Radio, now_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut happened = |kind: &'static str, client: &Client, mut facts: Value, mut body: Value| {
        facts["associateId"] = associate(client);
        body["associateId"] = json!([associate(client)]);
        body["timeStamp"] = time::stamp(now_ms);
        body["notificationType"] = kind.replace("Subscription", "Notification").into();
        events.push(Event { root: ROOT.to_owned(), kind, facts, body, only: None });
    };
    for client in &new.clients {
        let (ecgi, bearer) = (new.ecgi(&client.cell), client.bearer);
        let bearer_facts = json!({ "ecgi": ecgi, "qci": bearer.qci, "erabId": bearer.id });
        let quality = json!({ "qci": bearer.qci });
        let body = json!({ "ecgi": ecgi, "erabId": bearer.id, "erabQosParameters": quality });
        let before = old.client(client.address);
        let s1 = |event: u8| s1_event(new, client, event);
        let Some(before) = before else {
            happened("RabEstSubscription", client, bearer_facts, body);
            let (facts, body) = s1(ESTABLISHED);
            happened("S1BearerSubscription", client, facts, body);
            continue;
        };
        if before.bearer.qci != bearer.qci {
            happened("RabModSubscription", client, bearer_facts, body);
        }
        if before.bearer != bearer {
            let (facts, body) = s1(MODIFIED);
            happened("S1BearerSubscription", client, facts, body);
        }
        if before.cell != client.cell {
            let from = old.ecgi(&before.cell);
            let facts = json!({ "ecgi": [from, ecgi], "hoStatus": COMPLETED });
            let body = json!({ "srcEcgi": from, "trgEcgi": [ecgi], "hoStatus": COMPLETED });
            happened("CellChangeSubscription", client, facts, body);
        }
        let steps = |client: &Client| {
            client.timing_advance_m.map(|distance_m| (distance_m / ADVANCE_STEP_M).round() as i64)
        };
        if let Some(advance) = steps(client)
            && (steps(before) != Some(advance) || before.cell != client.cell)
        {
            let body = json!({ "ecgi": ecgi, "timingAdvance": advance });
            happened("MeasTaSubscription", client, json!({ "ecgi": ecgi }), body);
        }
        if let Some((facts, body)) = carriers_changed((old, before), (new, client)) {
            happened("CaReconfSubscription", client, facts, body);
        }
        if let Some((kind, facts, body)) = measured(new, client) {
            happened(kind, client, facts, body);
        }
    }
    for client in old.clients.iter().filter(|client| new.client(client.address).is_none()) {
        let (ecgi, bearer) = (old.ecgi(&client.cell), client.bearer);
        let facts = json!({ "ecgi": ecgi, "qci": bearer.qci, "erabId": bearer.id });
        let body = json!({ "ecgi": ecgi, "erabReleaseInfo": { "erabId": bearer.id } });
        happened("RabRelSubscription", client, facts, body);
        let (facts, body) = s1_event(old, client, RELEASED);
        happened("S1BearerSubscription", client, facts, body);
    }
    events
}
