//! Metrics of disks, by the path the configuration gives each.

use super::Writer;
use crate::stores::{StoreView, view};
use freshet_node::node::Node;
use std::fmt;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let Some(disks) = &node.shared.disks else { return Ok(()) };
    let views: Vec<StoreView> = disks.disks().iter().map(|disk| view(disk)).collect();
    let Some(first) = views.first() else { return Ok(()) };
    for (at, (name, help, _)) in first.figures().into_iter().enumerate() {
        let value = |view: &StoreView| view.figures().get(at).map_or(0.0, |figure| figure.2);
        let values = views.iter().map(|view| (view.path(), value(view)));
        out.gauges(&format!("freshet_store_{name}"), help, "store", values)?;
    }
    Ok(())
}
