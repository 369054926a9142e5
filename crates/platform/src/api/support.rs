//! ETSI GS MEC 011: time, and subscriptions of app instances.

use super::{Stage, apps};
use crate::platform::{Answer, Decision};
use freshet_documents::problem::Problem;
use serde_json::{Value, json};

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    match name {
        "timing_caps" => Ok(timing_caps(stage)),
        "current_time" => Ok(current_time(stage)),
        "confirm_ready" => apps::confirm_ready(stage, body),
        _ => apps::confirm_termination(stage, body),
    }
}

/// What is known of the machine's time: it follows no source that we could name, so that the lists are
/// empty.
pub(super) fn timing_caps(stage: &Stage<'_>) -> Decision {
    let stamp = freshet_documents::time::stamp(stage.now_ms);
    Answer::ok(json!({ "timeStamp": stamp, "ntpServers": [], "ptpMasters": [] })).into()
}

/// The machine's clock. Whether it is synchronised is the operator's to say.
pub(super) fn current_time(stage: &Stage<'_>) -> Decision {
    let mut time = freshet_documents::time::stamp(stage.now_ms);
    time["timeSourceStatus"] = "NONTRACEABLE".into();
    Answer::ok(time).into()
}

/// A subscription is of the app instance whose collection it is made in, whatever it says.
pub(super) fn admit_subscription(stage: &Stage<'_>, value: &mut Value) {
    value["appInstanceId"] = stage.app().into();
}
