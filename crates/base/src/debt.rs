//! How much a peer may ask for that is of no use to it.

use std::time::Duration;

/// A sum of debts that time and useful work pay off.
#[derive(Debug)]
pub struct Debt {
    owed: u32,
    owed_max: u32,
    per_second: u32,
    /// Up to when time has paid.
    paid: Duration,
}

impl Debt {
    /// No debt yet, of `owed_max` at most; a second pays `per_second` of it.
    pub const fn new(owed_max: u32, per_second: u32) -> Self {
        Self { owed: 0, owed_max, per_second, paid: Duration::ZERO }
    }

    /// One more, at `now` since the peer came; false when it is too much.
    pub fn owe(&mut self, now: Duration) -> bool {
        if self.owed == self.owed_max {
            let since = now.saturating_sub(self.paid).as_millis();
            let forgiven = since * u128::from(self.per_second) / 1000;
            self.forgive(u32::try_from(forgiven).unwrap_or(u32::MAX));
            self.paid = if forgiven > 0 { now } else { self.paid };
        }
        self.owed += 1;
        self.owed <= self.owed_max
    }

    /// So many fewer: something of use was done.
    pub fn forgive(&mut self, count: u32) {
        self.owed = self.owed.saturating_sub(count);
    }
}
