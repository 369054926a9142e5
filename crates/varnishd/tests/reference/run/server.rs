//! A `varnishd`, ours or Debian's, with what it logs and counts.

use super::counters;
use super::origin::Origin;
use super::records::{Record, Records};
use crate::grammar::OTHER_POLICY;
use crate::support::Varnishd;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const OPTIONS: [&str; 24] = [
    "-a",
    "127.0.0.1:0",
    "-i",
    "tester",
    "-s",
    "s0=malloc,64m",
    "-l",
    "8m",
    "-p",
    "vcc_err_unref=off",
    "-p",
    "default_grace=0",
    "-p",
    "first_byte_timeout=2",
    "-p",
    "connect_timeout=1",
    "-p",
    "timeout_idle=20",
    "-p",
    "max_restarts=2",
    "-p",
    "max_retries=2",
    "-p",
    "vsl_reclen=4000",
];
/// Only Debian's compiles C; `tcc` takes a quarter of the time where it is installed.
const COMPILERS: [&str; 2] = ["tcc -shared -o %o %s", "gcc -O0 -pipe -fpic -shared -o %o %s"];
/// How long the log is waited for.
const LOGGED_WITHIN: Duration = Duration::from_secs(6);
/// Counters that are the same for so long have all been published.
const STANDS_STILL: Duration = Duration::from_millis(120);
const LOOKED_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Server {
    varnishd: Varnishd,
    pub(super) address: String,
    pub(super) origin: Origin,
    reader: Child,
    lines: Receiver<String>,
    pub(super) records: Records,
    counted: BTreeMap<String, i64>,
    policies: usize,
    /// Whether a request that has waited for another is counted once more.
    counts_twice: bool,
}

impl Server {
    pub(super) fn ours() -> Self {
        Self::started(Varnishd::start(&OPTIONS), false)
    }

    /// Debian's, where there is one.
    pub(super) fn debians(program: &Path) -> Self {
        let has_tcc = Command::new("tcc").arg("-v").stdout(Stdio::null()).status().is_ok();
        let compiler = format!("cc_command={}", COMPILERS[usize::from(!has_tcc)]);
        let modules = std::env::var("VMOD_PATH").map(|path| format!("vmod_path={path}"));
        let mut options = vec!["-j", "none", "-p", &compiler];
        if let Ok(modules) = &modules {
            options.extend(["-p", modules]);
        }
        options.extend(OPTIONS);
        Self::started(Varnishd::start_program(program, &options), true)
    }

    fn started(mut varnishd: Varnishd, counts_twice: bool) -> Self {
        let origin = Origin::start();
        let policy =
            format!("backend b {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}", origin.ports[0]);
        varnishd.ok(&format!("vcl.inline boot \"vcl 4.1; {}\"", policy.replace('"', "\\\"")));
        varnishd.ok("vcl.use boot");
        let other =
            format!("{policy} sub vcl_recv {{ set req.http.Other = \"1\"; return (pass); }}");
        varnishd.ok(&format!("vcl.inline other \"vcl 4.1; {}\"", other.replace('"', "\\\"")));
        varnishd.ok(&format!("vcl.label {OTHER_POLICY} other"));
        varnishd.ok("start");
        // As many digits in both, or their pages are of different lengths.
        varnishd.ok("debug.xid 100000");
        let address = varnishd.address();
        let mut reader = Command::new("varnishlog")
            .arg("-n")
            .arg(varnishd.name())
            .args(["-g", "raw", "-t", "20"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(reader.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.split(b'\n').map_while(Result::ok) {
                let line = line.into_iter().map(char::from).collect();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self {
            varnishd,
            address,
            origin,
            reader,
            lines,
            records: Records::default(),
            counted: BTreeMap::new(),
            policies: 0,
            counts_twice,
        };
        server.counts();
        server
    }

    /// Loads a policy and has it serve; what the compiler says otherwise.
    pub(super) fn load(&mut self, text: &str) -> Result<(), String> {
        self.records = Records::default();
        while self.lines.try_recv().is_ok() {}
        let name = format!("p{}", self.policies);
        let file = self.file();
        let text = text.replace("ORIGIN", &self.origin.ports[0].to_string());
        let text = text.replace("OTHER", &self.origin.ports[1].to_string());
        std::fs::write(&file, text).unwrap();
        let (status, said) = self.varnishd.command(&format!("vcl.load {name} {}", file.display()));
        if status != 200 {
            return Err(said);
        }
        self.varnishd.ok(&format!("vcl.use {name}"));
        // What is drawn at random is the same in both.
        self.varnishd.ok("debug.srandom 1");
        if self.policies > 0 {
            self.varnishd.ok(&format!("vcl.discard p{}", self.policies - 1));
        }
        self.policies += 1;
        Ok(())
    }

    /// Draws at random by another seed from now on.
    pub(super) fn draws_by(&mut self, seed: u32) {
        self.varnishd.ok(&format!("debug.srandom {seed}"));
    }

    /// Whether it ended by an assertion of its own.
    pub(super) fn has_panicked(&mut self) -> bool {
        self.varnishd.command("panic.show").0 == 200
    }

    fn file(&self) -> PathBuf {
        self.varnishd.directory.path().join("policy.vcl")
    }

    /// Takes in what is logged until all that has begun has ended, for so many sessions and
    /// requests. Whether that was so in time.
    pub(super) fn logs(&mut self, sessions: usize, requests: usize) -> bool {
        let end = Instant::now() + LOGGED_WITHIN;
        while !self.records.are_complete(sessions, requests) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { return false };
            if let Some(record) = Record::parse(&line) {
                self.records.push(record);
            }
        }
        true
    }

    /// Counters that have changed since it was asked last, with by how much, once they stand still:
    /// both publish what they have counted a little later.
    pub(super) fn counts(&mut self) -> BTreeMap<String, i64> {
        let mut counted = self.counters();
        let end = Instant::now() + LOGGED_WITHIN;
        let mut changed = Instant::now();
        while changed.elapsed() < STANDS_STILL && Instant::now() < end {
            std::thread::sleep(LOOKED_EVERY);
            let later = self.counters();
            if later != counted {
                counted = later;
                changed = Instant::now();
            }
        }
        let before = std::mem::replace(&mut self.counted, counted);
        let by = |(name, value): (&String, &i64)| {
            let by = value - before.get(name).unwrap_or(&0);
            (by != 0).then(|| (name.clone(), by))
        };
        self.counted.iter().filter_map(by).collect()
    }

    /// Those that are compared.
    fn counters(&self) -> BTreeMap<String, i64> {
        let mut counters = counters::main_counters(&self.varnishd.name());
        if let Some(woken) = counters.get("busy_wakeup").copied().filter(|_| self.counts_twice) {
            counters.entry("client_req".into()).and_modify(|count| *count -= woken);
        }
        counters.retain(|name, _| super::is_counted(name));
        counters
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.reader.kill();
        let _ = self.reader.wait();
    }
}
