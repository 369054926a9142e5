//! Rules that settle: connections that began before stay where they are for a while.

use super::control::{Control, Refused, RuleSet};
use super::health::now_ns;
use super::layout;
use super::programs::{BEFORE, KernelError, Programs, map_error, unless_absent};
use crate::rule::Rule;
use crate::rule::check;
use crate::rule::compile::Table;
use aya::maps::HashMap;
use std::collections::BTreeMap;

/// How long connections stay where they began after rules were replaced, at most.
pub(super) const SETTLING_MS: u64 = 30_000;
/// The programs' clock is behind by a tick of the kernel's.
const TICK_NS: u64 = 20_000_000;

/// When rules settle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling {
    since_ns: u64,
    until_ns: u64,
}

impl Settling {
    /// Rules are replaced now: since when and until when they settle. What was not settled yet settles with
    /// them.
    pub(super) fn begin(&mut self, now_ns: u64) -> [u64; 2] {
        if self.until_ns <= now_ns {
            self.since_ns = now_ns.saturating_sub(TICK_NS);
        }
        self.until_ns = now_ns + SETTLING_MS * 1_000_000;
        [self.since_ns, self.until_ns]
    }

    /// For how long rules settle yet; 0 is that they do not.
    fn left_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.saturating_sub(now_ns)
    }
}

impl Programs {
    /// Says which rules were there before, for connections that began with them: these stay where they are
    /// for as long as rules settle. `since_ns` is when they began to.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn settle(
        &mut self,
        before: &Table,
        since_ns: u64,
        until_ns: u64,
    ) -> Result<(), KernelError> {
        self.set_table(BEFORE, before)?;
        self.set_settling([since_ns, until_ns])
    }

    /// Says since when and until when rules settle.
    ///
    /// # Errors
    /// What the kernel refused.
    fn set_settling(&mut self, [since_ns, until_ns]: [u64; 2]) -> Result<(), KernelError> {
        let value = layout::settling(since_ns, until_ns);
        let mut settling = self.array::<{ layout::SETTLING_BYTES }>("settling")?;
        settling.set(0, value, 0).map_err(map_error("settling"))
    }

    /// Says anew which rules were there before.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_before(&mut self, before: &Table) -> Result<(), KernelError> {
        self.set_table(BEFORE, before)
    }

    /// Forgets what connections began with, where that is one of these apps.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn forget_connections(&mut self, apps: impl Fn(u8) -> bool) -> Result<(), KernelError> {
        const SIZES: [usize; 2] = layout::CONNECTION_BYTES;
        let wrong = map_error("connections");
        let mut map =
            HashMap::<_, [u8; SIZES[0]], [u8; SIZES[1]]>::try_from(self.map("connections"))
                .map_err(&wrong)?;
        let found: Vec<_> = map.iter().filter_map(Result::ok).collect();
        let mut own = found.iter().filter(|(_, begun)| apps(layout::app_of(begun)));
        own.try_for_each(|(key, _)| unless_absent(map.remove(key))).map_err(wrong)
    }

    /// When an app last got a packet that no rule of now leads to it, in nanoseconds of the monotonic clock;
    /// 0 is never.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn kept_ns(&mut self, app: u8) -> Result<u64, KernelError> {
        let bytes = self.array("kept_apps")?.get(&app.into(), 0).map_err(map_error("kept_apps"))?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// An app's number is another's from now on.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn clear_kept(&mut self, app: u8) -> Result<(), KernelError> {
        self.array::<8>("kept_apps")?.set(app.into(), [0; 8], 0).map_err(map_error("kept_apps"))
    }
}

impl Control {
    /// Sets rules of which connections notice nothing that began before, for some time.
    pub(super) fn settle(&mut self, set: RuleSet, generation: u64) -> Result<u64, Refused> {
        let checked =
            check::check(&set.rules, &self.apps, &self.names).map_err(Refused::Mistakes)?;
        let ends = |rules: &[Rule]| -> Vec<_> {
            let active = rules.iter().filter(|rule| rule.is_active);
            active.map(|rule| (rule.priority, rule.act, rule.app, rule.filters.clone())).collect()
        };
        if ends(&checked) != ends(&self.rules) {
            let before = self.table(&self.rules).expect("they were taken before");
            let [since_ns, until_ns] = self.settling.begin(now_ns());
            self.programs.settle(&before, since_ns, until_ns).map_err(Refused::Kernel)?;
        }
        self.set_checked(set, None, generation)
    }

    /// An app is dead. What begins at the core meanwhile, where rules lead to the app, stays there for some time
    /// after it lives again: an app resets connections that it has never heard of.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn settle_beside(&mut self, dead: u8) -> Result<(), KernelError> {
        let (now_ns, most_ns) = (now_ns(), SETTLING_MS * 1_000_000);
        let leads = |rule: &Rule| rule.is_active && rule.app == Some(dead);
        let left_ns = self.settling.left_ns(now_ns);
        if left_ns > most_ns / 2 || !self.rules.iter().any(leads) {
            return Ok(());
        }
        let times = self.settling.begin(now_ns);
        if left_ns == 0 {
            let now = self.table(&self.rules).expect("they were taken before");
            self.programs.set_before(&now)?;
        }
        self.programs.set_settling(times)
    }

    /// Nothing that began with an app stays with it: it goes.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn unsettle(&mut self, app: u8) -> Result<(), KernelError> {
        let now = self.table(&self.rules).expect("they were taken before");
        self.programs.set_before(&now)?;
        self.programs.forget_connections(|one| one == app)
    }

    /// How long ago apps got packets of connections that stay with them, by name, while rules settle.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn kept_ms(&mut self) -> Result<BTreeMap<String, u64>, KernelError> {
        let (now_ns, mut found) = (now_ns(), BTreeMap::new());
        for (number, app) in self.apps.iter() {
            let at_ns = self.programs.kept_ns(number)?;
            let ago_ms = now_ns.saturating_sub(at_ns) / 1_000_000;
            if at_ns > 0 && ago_ms < SETTLING_MS {
                found.insert(app.name.clone(), ago_ms);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_settled_settles_with_what_comes() {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut settling = Settling::default();
        let [first, until] = settling.begin(100 * SECOND_NS);
        assert_eq!(until - 100 * SECOND_NS, SETTLING_MS * 1_000_000);
        assert_eq!(settling.begin(until - 1)[0], first);
        assert_eq!(settling.left_ns(until), SETTLING_MS * 1_000_000 - 1);
        assert_eq!(settling.left_ns(300 * SECOND_NS), 0);
        let [second, _] = settling.begin(300 * SECOND_NS);
        assert!(second > until, "what began before is over");
    }
}
