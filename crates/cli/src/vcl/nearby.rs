//! What a policy that an editor has open is compiled with.

use freshet_node::vcl::Files;
use freshet_vcl::{NoFiles, Report, Source, Sources};
use std::net::SocketAddr;
use std::path::Path;

/// Compiles a text beside the files in its folder.
pub(super) fn compile(source: Source, folder: Option<&Path>) -> Report {
    let mut files = Nearby(Files::default());
    if let Some(folder) = folder {
        files.0.folders.insert(0, folder.into());
    }
    freshet_vcl::compile(source, &files, &freshet_node::vcl::language([])).1
}

/// The files around a text. Names of hosts are taken as they are: whoever types waits for no name
/// server, and what a node can reach is not known here.
struct Nearby(Files);

impl Sources for Nearby {
    fn include(&self, name: &str, from: &str, glob: bool) -> Result<Vec<Source>, String> {
        self.0.include(name, from, glob)
    }

    fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        Ok(NoFiles.resolve(host, port).unwrap_or_default())
    }

    fn service(&self, name: &str) -> Option<u16> {
        self.0.service(name)
    }
}
