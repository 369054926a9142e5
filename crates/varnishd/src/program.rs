//! A policy: VCL as it was given, and what the node makes of it.

use crate::manager::State;
use freshet_node::config::settings;
use freshet_node::config::{Document, Settings};
use freshet_node::snapshot::Snapshot;
use freshet_origin::Origin;
use std::sync::Arc;

/// A compiled policy.
pub(crate) struct Program {
    name: String,
    source: (String, String),
    snapshot: Snapshot,
    origins: Vec<(String, Arc<Origin>)>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

fn value(text: &str, key: &str) -> Option<String> {
    let at = text.find(key)?;
    let rest = &text[at + key.len()..];
    let a = rest.find('"')?;
    let b = rest[a + 1..].find('"')?;
    Some(rest[a + 1..a + 1 + b].into())
}

impl Program {
    /// Compiles a policy.
    pub(crate) fn compile(
        name: &str,
        source: &str,
        text: &str,
        state: &State,
    ) -> Result<Self, String> {
        let mut document = Document::default();
        let host = value(text, ".host").unwrap_or("127.0.0.1".into());
        let port = value(text, ".port").unwrap_or("80".into());
        document.push("origin", &[("name", "s1"), ("url", &format!("http://{host}:{port}"))])?;
        let mut settings = Settings::from_document(&document).map_err(|wrong| wrong.join("\n"))?;
        settings.listeners = state
            .options
            .endpoints
            .iter()
            .map(|endpoint| settings::Listener {
                name: Some(endpoint.name.clone()),
                address: endpoint.address.clone(),
                tls: false,
                proxy_protocol: endpoint.proxy,
            })
            .collect();
        let snapshot = Snapshot::new(settings, None)?;
        let origins = snapshot
            .upstreams
            .board
            .origins()
            .iter()
            .map(|origin| (origin.settings.name.clone(), Arc::clone(origin)))
            .collect();
        Ok(Self { name: name.into(), source: (source.into(), text.into()), snapshot, origins })
    }

    /// What the node goes by with this policy and the parameters in force.
    pub(crate) fn snapshot(&self, _: &State) -> Result<Snapshot, String> {
        Ok(self.snapshot.clone())
    }

    /// Its backends by name.
    pub(crate) fn origins(&self) -> &[(String, Arc<Origin>)] {
        &self.origins
    }

    /// Labels it goes to.
    pub(crate) fn labels(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Names and texts of what it was made of.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::once((self.source.0.as_str(), self.source.1.as_str()))
    }
}

/// The policy that `-b` stands for.
pub(crate) fn text_of_backend(backend: &str) -> Result<String, String> {
    if backend == "none" {
        return Ok("vcl 4.1;\n\nbackend default none;\n".into());
    }
    if backend.starts_with('/') {
        return Ok(format!("vcl 4.1;\n\nbackend default {{\n    .path = \"{backend}\";\n}}\n"));
    }
    let addresses = crate::cli::listener::resolve(backend).map_err(|error| error.to_string())?;
    let Some(address) = addresses.first() else {
        return Err(format!("{backend}: no address"));
    };
    let port = if address.port() == 0 { 80 } else { address.port() };
    Ok(format!(
        "vcl 4.1;\n\nbackend default {{\n    .host = \"{}\";\n    .port = \"{port}\";\n}}\n",
        address.ip()
    ))
}

/// The policy behind every policy.
pub(crate) fn builtin() -> &'static str {
    ""
}
