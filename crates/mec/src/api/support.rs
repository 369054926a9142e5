//! ETSI GS MEC 011: time, and subscriptions of app instances.

use super::Stage;
use crate::platform::{Answer, Decision};
use serde_json::{Value, json};

/// What is known of the machine's time: it follows no source that we could name, so that the lists are
/// empty.
pub(super) fn timing_caps(stage: &Stage<'_>) -> Decision {
    let stamp = crate::time::stamp(stage.now_ms);
    Answer::ok(json!({ "timeStamp": stamp, "ntpServers": [], "ptpMasters": [] })).into()
}

/// The machine's clock. Whether it is synchronised is the operator's to say.
pub(super) fn current_time(stage: &Stage<'_>) -> Decision {
    let mut time = crate::time::stamp(stage.now_ms);
    time["timeSourceStatus"] = "NONTRACEABLE".into();
    Answer::ok(time).into()
}

/// A subscription is of the app instance whose collection it is made in, whatever it says.
pub(super) fn admit_subscription(stage: &Stage<'_>, value: &mut Value) {
    value["appInstanceId"] = stage.app().into();
}
