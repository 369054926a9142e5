//! Processors whose cores have different guaranteed frequencies (Intel Speed Select, base frequency):
//! which are fast, what holds them there, and what the router's interrupts should run on.
//!
//! Everything is read and written below a folder, `/` on a real machine, so that another machine's
//! tree can be looked at.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What frequencies are to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Each core at its guaranteed frequency, neither less nor more: no jitter by turbo.
    Guaranteed,
    /// Fast cores from their guaranteed frequency up to turbo, the others at theirs.
    Mixed,
    /// As the hardware has it: anything from least to most.
    Free,
}

/// One logical CPU.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// Guaranteed frequency, in kHz.
    pub base_khz: u64,
    /// Least and most it is allowed now.
    pub allowed_khz: [u64; 2],
    /// Least and most the hardware can.
    pub possible_khz: [u64; 2],
}

/// A machine's CPUs, as its tree shows them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Machine {
    root: PathBuf,
    /// By number.
    pub cpus: Vec<Cpu>,
}

/// A file to be written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Write {
    /// Which.
    pub path: PathBuf,
    /// With what.
    pub value: String,
}

/// One thing the published set-up asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// What.
    pub what: &'static str,
    /// What it should be.
    pub wanted: &'static str,
    /// What was found; none where the system does not show it.
    pub found: Option<String>,
    /// Whether it is as it should be.
    pub is_good: Option<bool>,
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

impl Machine {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// That it shows no guaranteed frequencies.
    pub fn read(root: &Path) -> Result<Self, String> {
        let folder = root.join("sys/devices/system/cpu");
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut cpus: Vec<Cpu> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let number: usize = name.strip_prefix("cpu")?.parse().ok()?;
                cpu(&entry.path().join("cpufreq"), number)
            })
            .collect();
        cpus.sort_unstable_by_key(|cpu| cpu.number);
        if cpus.is_empty() {
            return Err(
                "no CPU shows a base frequency (cpufreq/base_frequency): intel_pstate is not \
                        in charge here, or this is a virtual machine"
                    .to_owned(),
            );
        }
        Ok(Self { root: root.to_path_buf(), cpus })
    }

    /// CPUs whose guaranteed frequency is above that of the others; none where all are alike.
    #[must_use]
    pub fn fast(&self) -> Vec<usize> {
        let least = self.cpus.iter().map(|cpu| cpu.base_khz).min().unwrap_or_default();
        self.cpus.iter().filter(|cpu| cpu.base_khz > least).map(|cpu| cpu.number).collect()
    }

    /// What is to be written for these frequencies. What is to be raised goes from the top down, so
    /// that the least is never above the most.
    #[must_use]
    pub fn frequencies(&self, mode: Mode) -> Vec<Write> {
        let fast = self.fast();
        let mut writes = Vec::new();
        for cpu in &self.cpus {
            let [least, most] = match mode {
                Mode::Guaranteed => [cpu.base_khz; 2],
                Mode::Mixed if fast.contains(&cpu.number) => [cpu.base_khz, cpu.possible_khz[1]],
                Mode::Mixed => [cpu.base_khz; 2],
                Mode::Free => cpu.possible_khz,
            };
            let folder =
                self.root.join(format!("sys/devices/system/cpu/cpu{}/cpufreq", cpu.number));
            let mut pair = [("scaling_max_freq", most), ("scaling_min_freq", least)];
            if most < cpu.allowed_khz[0] {
                pair.reverse();
            }
            writes.extend(
                pair.map(|(name, khz)| Write { path: folder.join(name), value: khz.to_string() }),
            );
        }
        writes
    }

    /// What is to be written so that the interrupts of these interfaces take turns on the fast CPUs.
    ///
    /// # Errors
    /// That there are no fast ones, or that an interface has no interrupts of its own.
    pub fn interrupts(&self, interfaces: &[String]) -> Result<Vec<Write>, String> {
        let fast = self.fast();
        if fast.is_empty() {
            return Err(
                "all cores have the same base frequency; none is to be preferred".to_owned()
            );
        }
        let mut writes = Vec::new();
        for name in interfaces {
            let folder = self.root.join("sys/class/net").join(name).join("device/msi_irqs");
            let entries = fs::read_dir(&folder).map_err(|_| {
                format!("{name} has no interrupts of its own ({})", folder.display())
            })?;
            let mut irqs: Vec<u32> = entries
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect();
            irqs.sort_unstable();
            for irq in irqs {
                let cpu = fast[writes.len() % fast.len()];
                let path = self.root.join(format!("proc/irq/{irq}/smp_affinity_list"));
                writes.push(Write { path, value: cpu.to_string() });
            }
        }
        Ok(writes)
    }

    /// The published set-up, item by item, with what was found.
    #[must_use]
    pub fn checks(&self) -> Vec<Check> {
        let found = |path: &str| read(&self.root.join(path));
        let check = |what, wanted, found: Option<String>, is: &dyn Fn(&str) -> bool| Check {
            what,
            wanted,
            is_good: found.as_deref().map(is),
            found,
        };
        let fast = self.fast();
        let shown = if fast.is_empty() { "inactive" } else { "active" }.to_owned();
        let pstate = "sys/devices/system/cpu/intel_pstate";
        let turbo = found(&format!("{pstate}/no_turbo"))
            .map(|text| if text == "0" { "on" } else { "off" }.to_owned());
        let hidden = |what, wanted| Check { what, wanted, found: None, is_good: None };
        vec![
            check("SST-BF", "active", Some(shown), &|text| text == "active"),
            hidden("Configure SST-BF (BIOS)", "disabled"),
            hidden("Configurable TDP (BIOS)", "disabled"),
            check("Turbo Boost", "on", turbo, &|text| text == "on"),
            check(
                "Energy Efficient Turbo",
                "off",
                found(&format!("{pstate}/energy_efficiency"))
                    .map(|text| if text == "0" { "off" } else { "on" }.to_owned()),
                &|text| text == "off",
            ),
            check("kernel", "4.20 or newer", found("proc/sys/kernel/osrelease"), &is_new),
            check("intel_pstate", "active", found(&format!("{pstate}/status")), &|text| {
                text == "active"
            }),
        ]
    }
}

/// Whether a kernel's release is 4.20 or newer.
fn is_new(release: &str) -> bool {
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) >= (4, 20)
}

fn cpu(folder: &Path, of: usize) -> Option<Cpu> {
    let khz = |name: &str| number(&folder.join(name));
    Some(Cpu {
        number: of,
        base_khz: khz("base_frequency")?,
        allowed_khz: [khz("scaling_min_freq")?, khz("scaling_max_freq")?],
        possible_khz: [khz("cpuinfo_min_freq")?, khz("cpuinfo_max_freq")?],
    })
}

impl Write {
    /// Writes it.
    ///
    /// # Errors
    /// Those of the file.
    pub fn apply(&self) -> std::io::Result<()> {
        // The file is one of the kernel's: it is there, and made by nobody.
        let mut file = fs::File::options().write(true).truncate(true).open(&self.path)?;
        std::io::Write::write_all(&mut file, self.value.as_bytes())
    }
}

/// CPUs as the mask programs take: `0x` and hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a>(pub &'a [usize]);

impl fmt::Display for Mask<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().max().map_or(1, |most| most / 4 + 1);
        to.write_str("0x")?;
        for digit in (0..digits).rev() {
            let bits = (0..4).filter(|bit| self.0.contains(&(digit * 4 + bit)));
            let value: u32 = bits.map(|bit| 1 << bit).sum();
            write!(to, "{value:x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast CPUs of Table 4: eight cores of two sockets, both threads of each.
    const TABLE_4: [usize; 32] = [
        1, 2, 10, 11, 14, 15, 16, 18, 32, 33, 36, 37, 38, 39, 46, 47, 49, 50, 58, 59, 62, 63, 64,
        66, 80, 81, 84, 85, 86, 87, 94, 95,
    ];

    /// A tree as that machine shows it: two sockets of 24 cores, two threads each.
    fn machine() -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |path: String, value: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, format!("{value}\n")).expect("it can be written");
        };
        for cpu in 0..96 {
            let base = if TABLE_4.contains(&cpu) { "2800000" } else { "2100000" };
            for (name, value) in [
                ("base_frequency", base),
                ("scaling_min_freq", "800000"),
                ("scaling_max_freq", "3600000"),
                ("cpuinfo_min_freq", "800000"),
                ("cpuinfo_max_freq", "3600000"),
            ] {
                put(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"), value);
            }
        }
        put("sys/devices/system/cpu/intel_pstate/no_turbo".to_owned(), "0");
        put("sys/devices/system/cpu/intel_pstate/status".to_owned(), "active");
        put("proc/sys/kernel/osrelease".to_owned(), "5.4.0-9-generic");
        for irq in [120, 121, 122] {
            put(format!("sys/class/net/acc0/device/msi_irqs/{irq}"), "msix");
            put(format!("proc/irq/{irq}/smp_affinity_list"), "0-95");
        }
        let machine = Machine::read(folder.path()).expect("it is whole");
        (folder, machine)
    }

    #[test]
    fn fast_cores_are_found_and_give_the_printed_mask() {
        let (_folder, machine) = machine();
        assert_eq!(machine.fast(), TABLE_4);
        assert_eq!(Mask(&machine.fast()).to_string(), "0xc0f30005cc06c0f30005cc06");
        assert_eq!(Mask(&[]).to_string(), "0x0");
    }

    #[test]
    fn frequencies_are_those_of_the_mode_and_can_be_taken_back() {
        let (folder, machine) = machine();
        let expected = [
            (Mode::Guaranteed, [2_800_000, 2_800_000], [2_100_000, 2_100_000]),
            (Mode::Mixed, [2_800_000, 3_600_000], [2_100_000, 2_100_000]),
            (Mode::Free, [800_000, 3_600_000], [800_000, 3_600_000]),
        ];
        for (mode, fast, slow) in expected {
            for write in Machine::read(folder.path()).expect("it is whole").frequencies(mode) {
                write.apply().expect("it can be written");
            }
            let after = Machine::read(folder.path()).expect("it is whole");
            for cpu in &after.cpus {
                let expected = if TABLE_4.contains(&cpu.number) { fast } else { slow };
                assert_eq!(cpu.allowed_khz, expected, "{mode:?} of CPU {}", cpu.number);
            }
        }
        // The least is never written above the most that holds then, which the kernel would refuse.
        let mut down = machine;
        down.cpus.iter_mut().for_each(|cpu| cpu.allowed_khz = [3_000_000, 3_600_000]);
        let writes = down.frequencies(Mode::Guaranteed);
        assert!(writes[0].path.ends_with("cpu0/cpufreq/scaling_min_freq"));
    }

    #[test]
    fn interrupts_take_turns_on_fast_cores() {
        let (_folder, machine) = machine();
        let writes = machine.interrupts(&["acc0".to_owned()]).expect("it has interrupts");
        let values: Vec<&str> = writes.iter().map(|write| write.value.as_str()).collect();
        assert_eq!(values, ["1", "2", "10"]);
        assert!(machine.interrupts(&["veth0".to_owned()]).is_err());
    }

    #[test]
    fn the_published_set_up_is_checked_item_by_item() {
        let (folder, machine) = machine();
        let good = |machine: &Machine| {
            let checks = machine.checks();
            checks.iter().map(|check| (check.what, check.is_good)).collect::<Vec<_>>()
        };
        assert!(good(&machine).contains(&("SST-BF", Some(true))));
        assert!(good(&machine).contains(&("kernel", Some(true))));
        assert!(good(&machine).contains(&("Energy Efficient Turbo", None)));
        fs::write(folder.path().join("proc/sys/kernel/osrelease"), "4.19.3").expect("written");
        fs::write(folder.path().join("sys/devices/system/cpu/intel_pstate/no_turbo"), "1")
            .expect("written");
        assert!(good(&machine).contains(&("kernel", Some(false))));
        assert!(good(&machine).contains(&("Turbo Boost", Some(false))));
    }

    #[test]
    fn a_machine_without_base_frequencies_is_said_to_be_one() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("sys/devices/system/cpu/cpu0")).expect("made");
        let error = Machine::read(folder.path()).expect_err("it shows none");
        assert!(error.contains("no CPU shows a base frequency"), "{error}");
    }
}
