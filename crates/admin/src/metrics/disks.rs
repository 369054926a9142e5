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
    for (name, help, value) in FIGURES {
        let values = views.iter().map(|view| (view.path(), value(view)));
        out.gauges(&format!("freshet_store_{name}"), help, &["store"], values)?;
    }
    Ok(())
}
