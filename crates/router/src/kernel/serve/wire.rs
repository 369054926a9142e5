//! The wire's two interfaces, which may go away and come back while the router runs.

use super::{Running, TURN_MS};
use crate::kernel::attach::StartError;
use crate::kernel::health::now_ns;
use crate::kernel::interface::Interface;
use crate::kernel::programs::KernelError;
use std::io::{self, Write};

impl Running {
    /// Puts the programs on the wire again where one of its interfaces is another one now: with the old
    /// one they are gone. Meanwhile all goes on to the core, as far as there is a way.
    pub(super) fn look_after_wire(&mut self) -> Result<(), KernelError> {
        let now = now_ns();
        if now - self.wire_looked_ns < TURN_MS as u64 * 1_000_000 {
            return Ok(());
        }
        self.wire_looked_ns = now;
        if self.off_wire.is_none() && self.attached.ports.iter().all(Interface::is_there) {
            return Ok(());
        }
        let why = match self.attached.put_wire(&self.config) {
            Ok(()) => None,
            Err(StartError::Kernel(error)) => return Err(error),
            Err(error) => Some(error.to_string()),
        };
        if why.is_none() || self.off_wire != why {
            let (what, subject) = match &why {
                Some(why) => ("wire-lost", why.clone()),
                None => ("wire-found-again", self.config.ports.join(" ")),
            };
            let _ = writeln!(io::stderr(), "{what}: {subject}");
            self.events.add(what, subject);
        }
        self.off_wire = why;
        Ok(())
    }
}
