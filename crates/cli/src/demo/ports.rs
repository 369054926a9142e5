//! Whether an address can be had, asked before anything starts.

use anyhow::{Context, Result, anyhow, bail};
use freshet_net::address::Address;
use std::io::ErrorKind;
use std::net::TcpListener;

/// Refuses an address that cannot be listened on, with the flag that gave it. Workers share their
/// address with `SO_REUSEPORT`, so that a second node of this user could slip in beside the first one
/// and take half of its connections; a socket without the option finds out.
pub(super) fn check(text: &str, flag: &str) -> Result<()> {
    let address: Address = text.parse().with_context(|| flag.to_owned())?;
    let Address::Tcp(address) = address else {
        bail!("{flag} takes an IP address and a port here, as 127.0.0.1:8000, not `{text}`");
    };
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(anyhow!(
            "{text} is in use; choose another address with {flag}, as {flag} 127.0.0.1:0 for any \
             free port"
        )),
        Err(error) => Err(anyhow!("{flag}: cannot listen on {text}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_its_flag() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = check(&address, "--listen-tls").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address} is in use")), "{error}");
        assert!(error.contains("with --listen-tls"), "{error}");
        drop(taken);
        assert!(check(&address, "--listen-tls").is_ok());
    }

    #[test]
    fn what_is_no_address_is_told_with_its_flag() {
        for text in ["www.example:80", "unix:/run/x.sock", ""] {
            let error = format!("{:#}", check(text, "--listen").unwrap_err());
            assert!(error.starts_with("--listen"), "{error}");
        }
    }
}
