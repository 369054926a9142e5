//! Metrics of disks, by the path the configuration gives each.

use super::writer::Writer;
use crate::stores::{FIGURES, StoreView, view};
use freshet_node::node::Node;
use std::fmt;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let disks = node.shared.disks.as_ref();
    let views: Vec<StoreView> = disks
        .map(|disks| disks.disks().iter().map(|disk| view(disk)).collect())
        .unwrap_or_default();
    let known = views.iter().filter_map(|view| Some(([view.path(), view.id()?], 1.0)));
    let help = "Which store is at a path, as `/v1/stores` tells it; always 1.";
    out.gauges_by("freshet_store_info", help, &["store", "id"], known)?;
    for (name, help, value) in FIGURES {
        let values = views.iter().map(|view| (view.path(), value(view)));
        out.gauges(&format!("freshet_store_{name}"), help, &["store"], values)?;
    }
    Ok(())
}
