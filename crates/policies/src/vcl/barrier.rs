//! Waiting at a test's barrier, for the module `vtc`. A policy can use it only where the node was
//! told that it is being tested: the worker stands still meanwhile.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a test that gives no limit may hold up a worker.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Connects to a barrier's socket, `address:port` or a path, and waits until the other end closes;
/// whether it did.
pub(super) fn sync(address: &str, timeout: Duration) -> bool {
    let limit = if timeout.is_zero() { WAIT_MAX } else { timeout.min(WAIT_MAX) };
    let closed = |mut stream: Box<dyn Read>| stream.read(&mut [0; 32]).is_ok_and(|len| len == 0);
    let connect = || -> io::Result<Box<dyn Read>> {
        if address.starts_with('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(limit))?;
            return Ok(Box::new(stream));
        }
        // varnishtest writes address and port with a space or a colon between.
        let stream = TcpStream::connect(address.replace(' ', ":"))?;
        stream.set_read_timeout(Some(limit))?;
        Ok(Box::new(stream))
    };
    connect().is_ok_and(closed)
}
