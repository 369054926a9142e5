//! Open files of the process, which each connection and each store takes one of.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer than this many are too few for a node that many ask, whatever it is configured for.
const FEW: u64 = 10_000;

/// Allows this process all that its hard limit does: the soft one is for programs that use `select`
/// (systemd.exec(5), `LimitNOFILE=`). Warns where those are few.
pub(crate) fn raise(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the number of open files stays where it is");
        }
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if most < FEW && most < 2 * connections_max as u64 {
        tracing::warn!(
            open_files_max = most,
            connections_max,
            "few files may be open, and each connection is one, to origins as well: give more (`ulimit -Hn`, \
             `LimitNOFILE=` of a unit), or set limits.connections_max lower"
        );
    }
}
