//! What a scenario found, as it is written to JSON and read again.

use freshet_load::LabError;
use freshet_load::measurement::Measurement;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Version of this form. A file of another one is not compared.
pub const SCHEMA: u32 = 1;

/// Largest file that is read as a result: hours of intervals take some megabytes.
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// How something came out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As wanted.
    Pass,
    /// Not as wanted.
    Fail,
    /// Not judged: there is no limit.
    #[default]
    Open,
}

impl Verdict {
    /// A pass where `fine`.
    pub fn of(fine: bool) -> Self {
        if fine { Self::Pass } else { Self::Fail }
    }
}

/// A key performance indicator with its limit, and what somebody published.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Kpi {
    /// What it is.
    pub name: String,
    /// The figure; `None` when it could not be measured.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// What is wanted, in words; empty where nothing is.
    pub wanted: String,
    /// Whether it is met.
    pub verdict: Verdict,
    /// What was published, with where; empty where nothing was.
    pub published: String,
    /// Whether more is better; `None` where neither is.
    pub more_is_better: Option<bool>,
}

impl Kpi {
    /// A figure without a limit.
    pub fn new(name: impl Into<String>, value: impl Into<Option<f64>>, unit: &str) -> Self {
        Self { name: name.into(), value: value.into(), unit: unit.to_owned(), ..Self::default() }
    }

    /// The same, judged; what could not be measured is not met.
    #[must_use]
    pub fn wanted(mut self, wanted: impl Into<String>, fine: bool) -> Self {
        self.wanted = wanted.into();
        self.verdict = Verdict::of(fine && self.value.is_some());
        self
    }

    /// The same with what was published, and where.
    #[must_use]
    pub fn published(mut self, published: impl Into<String>) -> Self {
        self.published = published.into();
        self
    }

    /// The same, with which direction is better.
    #[must_use]
    pub fn better(mut self, more: bool) -> Self {
        self.more_is_better = Some(more);
        self
    }
}

/// One load of a scenario.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Step {
    /// What it is, as `256 connections`.
    pub name: String,
    /// Repetitions have the same name; this counts them from 1.
    pub run: u32,
    /// Where it stands on the axis of plots: connections, channels, bytes.
    pub x: f64,
    /// The figures.
    pub measured: Measurement,
}

/// A table that only one scenario has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExtraTable {
    /// Says what it shows.
    pub caption: String,
    /// Titles of the columns; the first is words, the others are numbers.
    pub columns: Vec<String>,
    /// Cells as they are shown.
    pub rows: Vec<Vec<String>>,
}

/// A plot that only one scenario has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExtraPlot {
    /// Says what it shows.
    pub title: String,
    /// Labels of the axes, units included.
    pub x: String,
    /// The other axis.
    pub y: String,
    /// Name and points of each line.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
    /// A line across, with its name.
    pub limit: Option<(String, f64)>,
}

/// The machine the generator ran on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Model of its processor.
    pub processor: String,
    /// Logical processors.
    pub processors: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Version of its kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map(|(_, name)| name.trim().to_owned());
        let kilobytes: Option<u64> = read("/proc/meminfo").lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse().ok()
        });
        Self {
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// All that a run of a scenario found.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the scenario, as commands have it.
    pub scenario: String,
    /// Title for people.
    pub title: String,
    /// What is repeated here: paper, section, table.
    pub source: String,
    /// What was measured, as its user calls it.
    pub server: String,
    /// Where it is.
    pub target: String,
    /// When it began, in milliseconds of Unix time.
    pub started_unix_ms: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why it is not complete, if it is not.
    pub cut_short: Option<String>,
    /// The generator's machine.
    pub machine: Machine,
    /// Settings, by name, as they would be given.
    pub settings: Vec<(String, String)>,
    /// What the axis of plots over steps is called, as `connections`.
    pub axis: String,
    /// The loads.
    pub steps: Vec<Step>,
    /// What came of it.
    pub kpis: Vec<Kpi>,
    /// More tables.
    pub tables: Vec<ExtraTable>,
    /// More plots.
    pub plots: Vec<ExtraPlot>,
    /// What a reader must not miss.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Whether all that is judged came out as wanted, and it is complete.
    pub fn is_met(&self) -> bool {
        self.cut_short.is_none() && self.kpis.iter().all(|kpi| kpi.verdict != Verdict::Fail)
    }

    /// Reads a result that was written before.
    ///
    /// # Errors
    /// [`LabError::ConfigFile`] when there is no such file or it is no result of this version.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let refuse = |why: String| LabError::ConfigFile { path: path.to_owned(), why };
        let text = freshet_base::file::read(path, RESULT_BYTES_MAX)
            .map_err(|error| refuse(error.to_string()))?;
        let outcome: Self = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("it is no result of `freshet lab`: {error}")))?;
        if outcome.schema != SCHEMA {
            let found = outcome.schema;
            return Err(refuse(format!("it is of version {found}; this program reads {SCHEMA}")));
        }
        Ok(outcome)
    }
}

/// Mean and standard deviation of some figures.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = if values.len() > 1 { (square / (count - 1.0)).sqrt() } else { 0.0 };
    (mean, deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reads_as_it_was_written_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let outcome = Outcome {
            schema: SCHEMA,
            scenario: "vod".to_owned(),
            steps: vec![Step { name: "256 connections".to_owned(), ..Step::default() }],
            kpis: vec![Kpi::new("hits", 1.0, "%").wanted("100 %", true).better(true)],
            ..Outcome::default()
        };
        std::fs::write(&path, serde_json::to_vec(&outcome).unwrap()).unwrap();
        assert_eq!(Outcome::read(&path).unwrap(), outcome);
        for (text, why) in [("{}", "no result"), ("[", "no result"), ("", "no result")] {
            std::fs::write(&path, text).unwrap();
            let error = Outcome::read(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let newer = Outcome { schema: 99, ..outcome };
        std::fs::write(&path, serde_json::to_vec(&newer).unwrap()).unwrap();
        assert!(Outcome::read(&path).unwrap_err().to_string().contains("version 99"));
        let error = Outcome::read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }

    #[test]
    fn a_kpi_that_is_wanted_and_not_measured_is_not_met() {
        let unmeasured = Kpi::new("power", None, "W").wanted("less", true);
        assert_eq!(unmeasured.verdict, Verdict::Fail);
        let outcome = Outcome { kpis: vec![unmeasured], ..Outcome::default() };
        assert!(!outcome.is_met());
        assert_eq!(Kpi::new("power", None, "W").verdict, Verdict::Open);
        assert_eq!(Kpi::new("power", 1.0, "W").wanted("less", false).verdict, Verdict::Fail);
    }

    #[test]
    fn deviations_are_of_samples() {
        let (mean, deviation) = mean_and_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(mean, 5.0);
        assert!((deviation - 2.138).abs() < 0.001);
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
    }
}
