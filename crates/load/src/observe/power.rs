//! Power: from the processor's counters of energy (RAPL), from sensors (hwmon), or from a meter that
//! the user names. Where there is none, there is none: nothing is guessed.

use crate::error::LabError;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most that a meter can sensibly read, in watts: a rack.
const WATTS_MAX: f64 = 1e6;

/// Where to look for power.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PowerSource {
    /// RAPL, else a power sensor of the machine.
    #[default]
    Local,
    /// A file that holds the watts of the moment, written by something that reads a meter.
    File(PathBuf),
    /// A command that prints the watts of the moment.
    Command(String),
    /// Nowhere.
    Off,
}

/// One domain of RAPL.
#[derive(Clone, Debug, PartialEq)]
struct Domain {
    file: PathBuf,
    /// Where its counter begins again.
    range_uj: f64,
    before_uj: f64,
}

/// How power is measured.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Counters of energy in microjoules.
    Rapl(Vec<Domain>),
    /// Sensors of power in microwatts.
    Sensors(Vec<PathBuf>),
    File(PathBuf),
    Command(String),
}

/// A meter of power.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    kind: Kind,
    joules: f64,
    /// Seconds and watts of the last look at something that tells watts only.
    before: Option<(f64, f64)>,
}

impl Power {
    /// Finds a meter.
    ///
    /// # Errors
    /// What was looked for and why there is none, in words for the user.
    pub fn find(source: &PowerSource) -> Result<Self, LabError> {
        Self::find_below(Path::new("/sys"), source)
    }

    /// What it is and what its figure includes.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Rapl(domains) => {
                format!(
                    "RAPL, {} domain(s): processor packages and DRAM, not the whole server",
                    domains.len()
                )
            }
            Kind::Sensors(files) => {
                format!("hwmon, {} sensor(s) of this machine", files.len())
            }
            Kind::File(path) => format!("meter, read from {}", path.display()),
            Kind::Command(command) => format!("meter, read by `{command}`"),
        }
    }

    fn find_below(sys: &Path, source: &PowerSource) -> Result<Self, LabError> {
        let none = |what: &str, why: String| LabError::LocalSystem { what: what.to_owned(), why };
        let kind = match source {
            PowerSource::Off => return Err(none("power", "not measured, as told".to_owned())),
            PowerSource::File(path) => {
                if let Err(error) = fs::read_to_string(path) {
                    return Err(none(&format!("--meter {}", path.display()), error.to_string()));
                }
                Kind::File(path.clone())
            }
            PowerSource::Command(command) => Kind::Command(command.clone()),
            PowerSource::Local => {
                let domains = rapl_domains(sys);
                let sensors = sensors(sys);
                if !domains.is_empty() {
                    Kind::Rapl(domains)
                } else if !sensors.is_empty() {
                    Kind::Sensors(sensors)
                } else {
                    return Err(none(
                        "power",
                        "not measured: this machine shows neither RAPL (/sys/class/powercap, \
                         readable by root) nor a power sensor (/sys/class/hwmon); name a meter with \
                         --meter or --meter-command"
                            .to_owned(),
                    ));
                }
            }
        };
        let mut power = Self { kind, joules: 0.0, before: None };
        if power.joules(0.0).is_none() {
            return Err(none(&power.describe(), "it does not tell watts as a number".to_owned()));
        }
        power.before = None;
        power.joules = 0.0;
        Ok(power)
    }

    /// Joules since the first call; `now_s` is the time on a clock that goes on.
    pub(crate) fn joules(&mut self, now_s: f64) -> Option<f64> {
        let watts = match &mut self.kind {
            Kind::Rapl(domains) => {
                let mut sum = 0.0;
                for domain in domains {
                    let now: f64 = number_in(&domain.file)?;
                    let step = now - domain.before_uj;
                    // The counter begins again at its range.
                    sum += if step < 0.0 { step + domain.range_uj } else { step };
                    domain.before_uj = now;
                }
                self.joules += sum / 1e6;
                return Some(self.joules);
            }
            Kind::Sensors(files) => {
                let microwatts = files.iter().map(|file| number_in(file)).sum::<Option<f64>>()?;
                microwatts / 1e6
            }
            Kind::File(path) => number_in(path)?,
            Kind::Command(command) => {
                let output = Command::new("sh").args(["-c", command]).output().ok()?;
                number(&String::from_utf8_lossy(&output.stdout))?
            }
        };
        if !(0.0..=WATTS_MAX).contains(&watts) {
            return None;
        }
        if let Some((then_s, before)) = self.before {
            self.joules += (now_s - then_s).max(0.0) * (watts + before) / 2.0;
        }
        self.before = Some((now_s, watts));
        Some(self.joules)
    }
}

/// Packages, and the memory where it is counted apart. Parts of a package (cores, uncore) are left out:
/// they are in the package's figure.
fn rapl_domains(sys: &Path) -> Vec<Domain> {
    let mut domains = Vec::new();
    let Ok(entries) = fs::read_dir(sys.join("class/powercap")) else { return domains };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = fs::read_to_string(path.join("name")).unwrap_or_default();
        let name = name.trim();
        if !name.starts_with("package") && name != "dram" {
            continue;
        }
        let file = path.join("energy_uj");
        let range_uj = number_in(&path.join("max_energy_range_uj")).unwrap_or(0.0);
        if let Some(before_uj) = number_in(&file) {
            domains.push(Domain { file, range_uj, before_uj });
        }
    }
    domains
}

fn sensors(sys: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(sys.join("class/hwmon")) else { return files };
    for entry in entries.flatten() {
        for name in ["power1_average", "power1_input"] {
            let file = entry.path().join(name);
            if number_in(&file).is_some() {
                files.push(file);
                break;
            }
        }
    }
    files
}

fn number_in(path: &Path) -> Option<f64> {
    number(&fs::read_to_string(path).ok()?)
}

/// The number a text begins with. A unit that follows is the watt: a kilowatt that was read as one would
/// be wrong by a thousand, and nobody would see it.
fn number(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.trim_end_matches(['W', 'w']).parse().ok()?;
    let is_unit = |word: &&str| word.starts_with(char::is_alphabetic);
    let is_watt = |word: &str| ["w", "watt", "watts"].contains(&word.to_lowercase().as_str());
    words.next().filter(is_unit).is_none_or(is_watt).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rapl(sys: &Path, name: &str, energy_uj: u64) -> PathBuf {
        let path = sys.join("class/powercap").join(format!("intel-rapl-{name}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("name"), name).unwrap();
        fs::write(path.join("max_energy_range_uj"), "10000000").unwrap();
        fs::write(path.join("energy_uj"), energy_uj.to_string()).unwrap();
        path.join("energy_uj")
    }

    #[test]
    fn counters_of_energy_are_summed_over_packages_and_their_wrap() {
        let sys = tempfile::tempdir().unwrap();
        let package = rapl(sys.path(), "package-0", 9_000_000);
        let memory = rapl(sys.path(), "dram", 0);
        rapl(sys.path(), "core", 5);
        let mut power = Power::find_below(sys.path(), &PowerSource::Local).unwrap();
        fs::write(package, "1000000").unwrap();
        fs::write(memory, "500000").unwrap();
        assert_eq!(power.joules(1.0), Some(2.5));
        assert!(power.describe().contains("2 domain"), "{}", power.describe());
    }

    #[test]
    fn a_meter_tells_watts_that_add_up_over_time() {
        let sys = tempfile::tempdir().unwrap();
        let file = sys.path().join("watts");
        fs::write(&file, "100 W\n").unwrap();
        let source = PowerSource::File(file.clone());
        let mut power = Power::find_below(sys.path(), &source).unwrap();
        assert_eq!(power.joules(10.0), Some(0.0));
        fs::write(&file, "200").unwrap();
        assert_eq!(power.joules(12.0), Some(300.0));
        let source = PowerSource::Command("echo 5".to_owned());
        let mut power = Power::find_below(sys.path(), &source).unwrap();
        power.joules(0.0);
        assert_eq!(power.joules(2.0), Some(10.0));
    }

    #[test]
    fn without_a_meter_it_says_so_and_guesses_nothing() {
        let sys = tempfile::tempdir().unwrap();
        let error = Power::find_below(sys.path(), &PowerSource::Local).unwrap_err().to_string();
        assert!(error.contains("not measured") && error.contains("--meter"), "{error}");
        let source = PowerSource::File("/nope".into());
        let error = Power::find_below(sys.path(), &source).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        for said in ["none", "1.1 kW", "900 mW", "0.3kW", ""] {
            let source = PowerSource::Command(format!("echo '{said}'"));
            assert!(Power::find_below(sys.path(), &source).is_err(), "{said}");
        }
        for said in ["220", "220W", "220 W", "220.0 Watts\n", "220 230"] {
            assert_eq!(number(said), Some(220.0), "{said}");
        }
    }
}
