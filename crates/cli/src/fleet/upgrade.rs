//! `freshet fleet upgrade`: nodes hand over to the program that is installed on their machines, a few at a
//! time, and back to the one before where they fare worse.

use super::config::{Tolerance, millis, time};
use super::stages::{Labels, share, stages};
use super::{REPORTS_WITHIN, Which, tell_disbelieved};
use anyhow::{Result, bail};
use clap::Args;
use freshet_fleet::limits::DRAIN_MAX_MS;
use freshet_fleet::nats::{Heard, Link, Report, Reports, Watch};
use freshet_fleet::upgrade::{Fate, NO_PROGRAM, Program, Reached, Recall, Step, Terms, Waves};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a node may take to hand over once it has left: its new process has half a minute to be ready, and
/// a disk that is full of objects takes its time besides.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at what is to be done.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// `freshet fleet upgrade`
#[derive(Args)]
#[command(after_help = "Install the program on the machines first, with their packages.\n\n\
                        Examples:\n  freshet fleet upgrade\n  \
                        freshet fleet upgrade --to 0.2.0 --canary berlin --hold 5m\n  \
                        freshet fleet upgrade --only edge-1,edge-2 --drain 0s\n  \
                        freshet fleet upgrade --back --at-once 25%")]
pub(super) struct Arguments {
    /// Have nodes hand over to the program that they ran before the one that they run.
    #[arg(long)]
    back: bool,
    /// Version that all are to run; nodes that run it are left alone. Otherwise all hand over, to what the
    /// first of them has installed.
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// The nodes that come first: a label, a share (5%), a number or a node.
    #[arg(long, value_name = "STAGE", default_value = "1")]
    canary: String,
    /// How many at a time after them: a share or a number.
    #[arg(long, value_name = "N", default_value = "5%")]
    at_once: String,
    /// No others than these: labels or nodes.
    #[arg(long, value_name = "STAGE,...", value_delimiter = ',')]
    only: Vec<String>,
    /// How long routers send a node no new clients before it hands over.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = drain)]
    drain: Duration,
    #[command(flatten)]
    tolerance: Tolerance,
    #[command(flatten)]
    which: Which,
}

fn drain(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    match millis(time) > DRAIN_MAX_MS {
        true => Err(format!("no longer than {} s", DRAIN_MAX_MS / 1000)),
        false => Ok(time),
    }
}

/// Sees to an upgrade until all nodes run the program, or one fares worse with it.
///
/// # Errors
/// The upgrade stopped, with the reason; or the servers of the fleet cannot be reached.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let link = arguments.which.link().await?;
    link.permitted(upgrade(&link, arguments)).await
}

async fn upgrade(link: &Link, arguments: Arguments) -> Result<ExitCode> {
    let names = link.nodes().await?;
    let Reports { reports, disbelieved } = link.reports(REPORTS_WITHIN).await?;
    tell_disbelieved(&disbelieved);
    let silent: Vec<_> =
        names.into_iter().filter(|name| !reports.iter().any(|one| one.node == *name)).collect();
    let (reports, stuck): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|report| !arguments.back || report.before.is_some());
    if reports.is_empty() && !stuck.is_empty() {
        bail!("each node stays: {NO_PROGRAM}");
    }
    let waves = arguments.waves(&reports)?;
    let terms = Terms {
        program: if arguments.back { Program::Before } else { Program::Installed },
        to: arguments.to.clone(),
        drain_ms: millis(arguments.drain),
        hold_ms: millis(arguments.tolerance.hold),
        patience_ms: millis(PATIENCE),
        band: arguments.tolerance.band(),
    };
    let mut seeing = Seeing {
        waves: Waves::new(new_id()?, terms, waves, 0),
        recall: None,
        watch: link.watch(None).await?,
        link: link.clone(),
        begun: Instant::now(),
        told_wave: None,
        told_done: BTreeSet::new(),
        is_silent: arguments.which.form.is_json(),
    };
    let outcome = seeing.see_to().await?;
    if outcome.is_some() && !arguments.back {
        seeing.take_back().await?;
    }
    // Nodes that run what was asked for need none to go back to.
    let runs_it = |report: &&Report| arguments.to.as_ref() == Some(&report.version);
    let stuck = stuck.iter().filter(|report| !runs_it(report)).map(|report| report.node.as_str());
    seeing.end(outcome, &silent, &stuck.collect::<Vec<_>>(), arguments.which.form.is_json())
}

/// What tells one word from others.
pub(super) fn new_id() -> Result<u64> {
    let now_ms = millis(std::time::SystemTime::UNIX_EPOCH.elapsed()?);
    Ok(now_ms << 16 | u64::from(std::process::id() & 0xffff))
}

fn standing<'a>(
    (node, reached, version): (&'a str, Reached, &'a str),
) -> (&'a str, serde_json::Value) {
    (node, json!({"reached": reached, "version": version}))
}

/// A line for all nodes that are equally far and run the same version, those that are farthest first.
fn where_they_stand<'a>(nodes: impl Iterator<Item = (&'a str, Reached, &'a str)>) -> String {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (node, reached, version) in nodes {
        groups.entry((reached, version)).or_default().push(node);
    }
    let mut out = String::new();
    for ((reached, version), names) in groups {
        let what = match reached {
            Reached::Done => "handed over, and well",
            Reached::Watched => "handed over, and not seen to be well",
            Reached::Asked => "asked to hand over",
            Reached::Before => "as before",
            Reached::Back => "back, or as before",
        };
        out += &format!("  {version}, {what}: {}\n", names.join(", "));
    }
    out
}

impl Arguments {
    /// Who comes first, and who then, by what nodes say of themselves.
    fn waves(&self, reports: &[Report]) -> Result<Vec<Vec<String>>> {
        let labels = |report: &Report| {
            report.config.as_ref().map_or_else(Vec::new, |config| config.labels.clone())
        };
        let mut nodes: Labels =
            reports.iter().map(|report| (report.node.clone(), labels(report))).collect();
        if nodes.is_empty() {
            bail!("no node of the fleet answers");
        }
        if !self.only.is_empty() {
            // The last stage is of all that no word has named.
            let mut named = stages(&self.only, &nodes)?;
            named.pop();
            let named: BTreeSet<_> = named.into_iter().flatten().collect();
            nodes.retain(|name, _| named.contains(name));
        }
        let Some(at_once) = share(&self.at_once, nodes.len()) else {
            bail!("--at-once is a share (5%) or a number, not `{}`", self.at_once);
        };
        let mut waves = stages(std::slice::from_ref(&self.canary), &nodes)?;
        let rest = waves.pop().unwrap_or_default();
        let rest: Vec<_> = rest
            .into_iter()
            .filter(|name| !waves.iter().flatten().any(|one| one == name))
            .collect();
        waves.extend(spread(&rest, at_once.max(1)));
        Ok(waves)
    }
}

/// Waves of `at_once` at most. Names beside each other are often machines beside each other: those of a wave
/// are as far apart as can be, so that no place is without all of its own.
fn spread(names: &[String], at_once: usize) -> Vec<Vec<String>> {
    let waves = names.len().div_ceil(at_once);
    (0..waves).map(|wave| names.iter().skip(wave).step_by(waves).cloned().collect()).collect()
}

/// An upgrade under way.
struct Seeing {
    waves: Waves,
    /// The way back, once it has stopped.
    recall: Option<Recall>,
    link: Link,
    watch: Watch,
    begun: Instant,
    told_wave: Option<String>,
    told_done: BTreeSet<String>,
    is_silent: bool,
}

impl Seeing {
    /// Why it stopped; nothing where all are done.
    async fn see_to(&mut self) -> Result<Option<String>> {
        loop {
            let step = self.waves.next(millis(self.begun.elapsed()));
            self.tell()?;
            match step {
                Step::Finished => return Ok(None),
                Step::Stopped(why) => return Ok(Some(why)),
                Step::Ask(node, ask) => {
                    // Where it is lost, as servers are away, it is given again.
                    if let Err(error) = self.link.ask_to_upgrade(&node, &ask).await
                        && !self.is_silent
                    {
                        say!("{node} cannot be asked: {error}")?;
                    }
                }
                Step::Wait => {
                    for heard in self.watch.heard(LOOK_EVERY).await {
                        if let Heard::Report(report) = heard {
                            self.waves.heard(&report.said(), millis(self.begun.elapsed()));
                        }
                    }
                }
            }
        }
    }

    /// Has the nodes of the wave go back that were not seen to be well.
    async fn take_back(&mut self) -> Result<()> {
        let now_ms = millis(self.begun.elapsed());
        let recall = self.recall.insert(self.waves.recall(new_id()?, now_ms));
        while let Some(words) = recall.next(millis(self.begun.elapsed())) {
            for (node, ask) in words {
                // Lost, it is given again.
                let _ = self.link.ask_to_upgrade(&node, &ask).await;
            }
            for heard in self.watch.heard(LOOK_EVERY).await {
                if let Heard::Report(report) = heard {
                    recall.heard(&report.said(), millis(self.begun.elapsed()));
                }
            }
        }
        Ok(())
    }

    /// Where all stand: those that were to go back as they do now.
    fn reached(&self) -> Vec<(&str, Reached, &str)> {
        let fates: BTreeMap<_, _> = self.recall.iter().flat_map(Recall::fates).collect();
        let now = |(node, reached, version)| match fates.get(node) {
            Some(Fate::Back(version)) => (node, Reached::Back, version.as_str()),
            _ => (node, reached, version),
        };
        self.waves.reached().map(now).collect()
    }

    /// The last words, and whether all is as it was asked to be.
    ///
    /// # Errors
    /// It is not.
    fn end(
        &self,
        outcome: Option<String>,
        silent: &[String],
        stuck: &[&str],
        is_json: bool,
    ) -> Result<ExitCode> {
        let done: Vec<_> = self.waves.done().collect();
        let to = self.waves.to();
        let is_well = outcome.is_none() && silent.is_empty() && stuck.is_empty();
        if is_json {
            let nodes: BTreeMap<_, _> = self.reached().into_iter().map(standing).collect();
            let answer = json!({
                "to": to, "done": done, "stopped": outcome, "silent": silent, "nodes": nodes,
                "stuck": stuck,
            });
            say!("{answer}")?;
            return Ok(ExitCode::from(u8::from(!is_well)));
        }
        if let Some(why) = outcome {
            let left = "nobody is asked any more; the same command again goes on from here";
            let reached = self.reached();
            bail!("{why}\n{}{}{left}", self.not_back(), where_they_stand(reached.into_iter()));
        }
        match (done.len(), to) {
            (0, _) => say!("all nodes run it already")?,
            (count, Some(to)) => say!("{count} handed over to {to}")?,
            (count, None) => say!("{count} handed over")?,
        }
        if !stuck.is_empty() {
            stuck.iter().try_for_each(|node| say!("{node} stays: {NO_PROGRAM}"))?;
        }
        match silent {
            [] => Ok(ExitCode::from(u8::from(!is_well))),
            _ => bail!("as they were, since they do not answer: {}", silent.join(", ")),
        }
    }

    /// A line for each node that was to go back and has not.
    fn not_back(&self) -> String {
        let mut out = String::new();
        for (node, fate) in self.recall.iter().flat_map(Recall::fates) {
            let why = match fate {
                Fate::Back(_) => continue,
                Fate::Stays(why) => why.as_str(),
                Fate::Silent => "it was not heard of",
            };
            out += &format!("{node} did not go back: {why}\n");
        }
        out
    }

    /// Says what is new.
    fn tell(&mut self) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        let new: Vec<_> =
            self.waves.done().filter(|name| !self.told_done.contains(*name)).collect();
        for name in &new {
            say!("  {name} serves with {}", self.waves.to().unwrap_or("it"))?;
        }
        let new: Vec<_> = new.into_iter().map(str::to_owned).collect();
        self.told_done.extend(new);
        if let Some((at, nodes)) = self.waves.wave()
            && self.told_wave.as_ref() != Some(&at)
        {
            say!("wave {at}: {}", crate::text::cut(&nodes.join(", "), NAMES_COLUMNS))?;
            self.told_wave = Some(at);
        }
        Ok(())
    }
}

/// What is left of a line for names, behind `wave 1000 of 1000: `.
const NAMES_COLUMNS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beside_each_other_are_in_different_waves() {
        let names: Vec<_> = (0..10).map(|number| format!("n{number}")).collect();
        let waves = spread(&names, 3);
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(waves[0], ["n0", "n4", "n8"]);
        assert_eq!(spread(&[], 3), Vec::<Vec<String>>::new());
    }

    #[test]
    fn nodes_that_stand_alike_are_in_one_line() {
        let nodes = [
            ("a", Reached::Done, "2.0.0"),
            ("b", Reached::Before, "1.0.0"),
            ("c", Reached::Watched, "2.0.0"),
            ("d", Reached::Before, "1.0.0"),
            ("e", Reached::Done, "2.0.0"),
        ];
        let want = "  2.0.0, handed over, and well: a, e\n\
                    \x20 2.0.0, handed over, and not seen to be well: c\n\
                    \x20 1.0.0, as before: b, d\n";
        assert_eq!(where_they_stand(nodes.into_iter()), want);
    }
}
