//! Apps that come and go while the router runs.

use super::answers::Refusal;
use super::{Running, Watched};
use crate::app::Apps;
use crate::kernel::attach::{StartError, find_clash, find_legs};
use crate::kernel::config::{AppDescription, read_app};
use crate::kernel::health::now_ns;
use crate::kernel::interface::Interface;
use crate::kernel::programs::KernelError;
use crate::kernel::protocol::AppChanged;
use crate::rule::check::NAME_BYTES_MAX;
use std::time::Duration;

/// How long a program may take to leave an interface.
const LEAVING_NS_MAX: u64 = 2_000_000_000;
/// Pause between two looks whether it has.
const LEAVING_PAUSE: Duration = Duration::from_millis(5);

impl Running {
    /// Has an app behind the router: its interfaces have their programs when this returns, and it gets
    /// packets from its first sign of life on.
    pub(super) fn add_app(
        &mut self,
        name: String,
        description: AppDescription,
    ) -> Result<AppChanged, Refusal> {
        let refuse = |what: String| Refusal::words(format!("app `{name}`: {what}"));
        self.check_wire()?;
        let control = &self.attached.control;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(refuse(format!("its name must have 1 to {NAME_BYTES_MAX} bytes")));
        }
        if self.config.apps.iter().any(|app| app.name == name) {
            return Err(refuse("the configuration has one of this name".to_owned()));
        }
        let (app, health) =
            read_app(name.clone(), &description, &control.networks).map_err(refuse)?;
        let others: Vec<_> =
            control.apps.iter().map(|(_, app)| app).filter(|other| other.name != name).collect();
        if let Some(clash) = find_clash(&app, &self.config.ports, &others) {
            return Err(refuse(clash));
        }
        let legs = find_legs(&app).map_err(refuse)?;
        let before = control.added.get(&name);
        let number = control.apps.number(&name);
        if let (Some(number), true) = (number, before != Some(&description)) {
            self.check_is_free(number)?;
        }
        let is_same = before == Some(&description)
            && number.is_some_and(|number| self.attached.legs.get(&number) == Some(&legs));
        if is_same {
            return Ok(AppChanged { changed: false });
        }
        let mut apps = self.attached.control.apps.clone();
        let number = apps.put(app.clone()).map_err(|error| refuse(error.to_string()))?;
        // What is left of another description goes first.
        self.let_go(&name)?;
        if let Err(error) = self.put(&apps, number, &legs)? {
            self.attached.take_app(&app, number, apps.tap(number), &self.config.pins)?;
            return Err(refuse(error.to_string()));
        }
        self.attached.control.apps = apps;
        self.attached.control.added.insert(name.clone(), description);
        self.watched.insert(number, Watched::begin(health, &legs));
        self.attached.legs.insert(number, legs);
        self.save();
        self.events.add("app-added", name);
        Ok(AppChanged { changed: true })
    }

    /// Places an app. Programs leave an interface some time after they were taken off it: one that was let
    /// go a moment ago is waited for, while others are looked after.
    fn put(
        &mut self,
        apps: &Apps,
        number: u8,
        legs: &[Interface],
    ) -> Result<Result<(), StartError>, KernelError> {
        let begun_ns = now_ns();
        loop {
            match self.attached.put_app(apps, number, legs, &self.config.pins) {
                Err(StartError::Busy(_)) if now_ns() - begun_ns < LEAVING_NS_MAX => {
                    self.look_after_apps()?;
                    std::thread::sleep(LEAVING_PAUSE);
                }
                done => return Ok(done),
            }
        }
    }

    /// Has apps whose interfaces went away and came back behind the router again: the kernel knows
    /// interfaces by numbers, which are others then.
    pub(super) fn find_again(&mut self) -> Result<(), KernelError> {
        if self.off_wire.is_some() {
            return Ok(());
        }
        let dead = self.watched.iter().filter(|(_, watched)| !watched.is_alive);
        let dead: Vec<u8> = dead.map(|(number, _)| *number).collect();
        for number in dead {
            let attached = &mut self.attached;
            let (Some(app), Some(old)) =
                (attached.control.apps.get(number).cloned(), attached.legs.get(&number).cloned())
            else {
                continue;
            };
            if old.iter().all(Interface::is_there) {
                continue;
            }
            let Ok(legs) = find_legs(&app) else { continue };
            for leg in &old {
                attached.control.programs.set_leg_network(leg.index, None)?;
                attached.control.programs.set_tap_macs(leg.index, None)?;
            }
            attached.legs.insert(number, legs.clone());
            let apps = attached.control.apps.clone();
            match self.put(&apps, number, &legs)? {
                Ok(()) => self.events.add("app-found-again", app.name),
                Err(error) => {
                    // Tried anew when it is yet another interface.
                    self.events.add("app-refused", format!("{}: {error}", app.name));
                    continue;
                }
            }
            if let Some(watched) = self.watched.get_mut(&number) {
                *watched = Watched::begin(watched.health.clone(), &legs);
            }
        }
        Ok(())
    }

    /// Lets an app go that was added.
    pub(super) fn remove_app(&mut self, name: &str) -> Result<AppChanged, Refusal> {
        if self.config.apps.iter().any(|app| app.name == name) {
            return Err(Refusal::words(format!("app `{name}`: it is the configuration's")));
        }
        let Some(number) = self.attached.control.apps.number(name) else {
            return Ok(AppChanged { changed: false });
        };
        self.check_wire()?;
        self.check_is_free(number)?;
        self.let_go(name)?;
        self.save();
        self.events.add("app-removed", name.to_owned());
        Ok(AppChanged { changed: true })
    }

    /// Whether the wire is there, by whose interfaces apps are placed.
    fn check_wire(&self) -> Result<(), Refusal> {
        match &self.off_wire {
            Some(why) => Err(Refusal::words(format!("the wire is not whole: {why}"))),
            None => Ok(()),
        }
    }

    /// Whether no rule that is active leads to an app.
    fn check_is_free(&self, number: u8) -> Result<(), Refusal> {
        let control = &self.attached.control;
        let leads = |rule: &&crate::rule::Rule| rule.is_active && rule.app == Some(number);
        match (control.rules.iter().find(leads), control.apps.get(number)) {
            (Some(rule), Some(app)) => Err(Refusal::words(format!(
                "app `{}`: rule `{}` leads to it; set rules without it first",
                app.name, rule.id
            ))),
            _ => Ok(()),
        }
    }

    fn let_go(&mut self, name: &str) -> Result<(), Refusal> {
        let control = &mut self.attached.control;
        let Some(number) = control.apps.number(name) else { return Ok(()) };
        let tap = control.apps.tap(number);
        control.added.remove(name);
        let Some(app) = control.apps.remove(number) else { return Ok(()) };
        self.watched.remove(&number);
        self.attached.legs.remove(&number);
        Ok(self.attached.take_app(&app, number, tap, &self.config.pins)?)
    }
}
