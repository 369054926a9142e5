//! Databases of places, as a program asks them.

use freshet_geo::File;
use freshet_vcl::Places;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A database for a policy.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn open_places(path: &str) -> Result<Arc<dyn Places>, String> {
    let file = File::open(Path::new(path));
    file.map(|file| Arc::new(PolicyFile(file)) as Arc<dyn Places>)
        .map_err(|error| error.to_string())
}

/// A file as a policy asks it.
#[derive(Debug)]
struct PolicyFile(Arc<File>);

impl Places for PolicyFile {
    fn look_up(&self, address: IpAddr, path: &str) -> Option<String> {
        self.0.database().text(address, path)
    }
}
