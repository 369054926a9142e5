//! eUPF's program, built from a checkout and run on the same frames.

use aya::maps::Array;
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the checkout is.
pub(crate) const CHECKOUT: &str = "BENCH_EUPF";
/// Set in the namespace that forwards.
const INSIDE: &str = "FRESHET_GAUGE_INSIDE";
const ENTRY: &str = "cmd/ebpf/xdp/n3n6_entrypoint.c";
const REDIRECT: u32 = 4;

pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn ok(program: &str, line: &str) {
    let output = Command::new(program).args(line.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {line}: {said}");
}

/// Runs this program again in a namespace where packets are forwarded: eUPF asks the kernel for routes.
pub(crate) fn again_inside() {
    let ns = format!("freshet{}-gauge", std::process::id());
    ok("ip", &format!("netns add {ns}"));
    for line in [
        "link set lo up",
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
        "addr add 10.9.0.1/24 dev v0",
        "neigh add 10.9.0.2 lladdr 02:00:00:00:00:22 dev v0 nud permanent",
        "route add default via 10.9.0.2",
    ] {
        ok("ip", &format!("-n {ns} {line}"));
    }
    for setting in ["ip_forward", "conf.all.forwarding", "conf.lo.forwarding"] {
        let path = setting.replace('.', "/");
        let command = format!("echo 1 > /proc/sys/net/ipv4/{path}");
        let output =
            Command::new("ip").args(["netns", "exec", &ns, "sh", "-c", &command]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let status = Command::new("ip")
        .args(["netns", "exec", &ns])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    ok("ip", &format!("netns delete {ns}"));
    std::process::exit(status.code().unwrap_or(1));
}

pub(crate) struct Peer(Ebpf);

impl Peer {
    /// Compiles and loads it, with so many clients, the first being that of the gauge's frames.
    pub(crate) fn load(checkout: &Path, clients: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let entry = std::fs::read_to_string(checkout.join(ENTRY)).expect("a checkout of eUPF");
        // The loader takes plain names of sections.
        let entry = entry.replace("SEC(\"xdp/upf_ip_entrypoint\")", "SEC(\"xdp\")");
        let entry_path = folder.path().join("entry.c");
        std::fs::write(&entry_path, entry).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/eupf.bpf.c");
        let object = folder.path().join("eupf.o");
        let architecture = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let output = Command::new("clang")
            .args(["-O2", "-g", "-w", "-target", "bpf", "-mcpu=v3", "-c"])
            .arg(format!("-DENTRY=\"{}\"", entry_path.display()))
            .arg(format!("-D__{}__", std::env::consts::ARCH))
            .arg("-I")
            .arg(checkout.join("cmd/ebpf"))
            .args(["-I", &architecture])
            .arg(source)
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut loader = EbpfLoader::new();
        for (map, each) in
            [("pdr_map_teid_ip4", 1), ("pdr_map_downlink_ip4", 1), ("far_map", 2), ("qer_map", 1)]
        {
            loader.map_max_entries(map, each * clients.max(64));
        }
        let mut ebpf = loader.load(&std::fs::read(object).unwrap()).unwrap();
        let mut known = Array::<_, [u8; 16]>::try_from(ebpf.map_mut("known").unwrap()).unwrap();
        let client = super::FIRST_CLIENT.to_ne_bytes();
        let [remote, own] = super::ENDS.map(|end| (end as u32).to_be_bytes());
        known
            .set(0, <[u8; 16]>::try_from([client, remote, own, [0; 4]].concat()).unwrap(), 0)
            .unwrap();
        let mut peer = Self(ebpf);
        assert_eq!(peer.once("eupf_set_up", &[0; 64], clients).0, 2);
        peer
    }

    fn once(&mut self, name: &str, frame: &[u8], repeat: u32) -> (u32, f64) {
        let program: &mut Xdp = self.0.program_mut(name).unwrap().try_into().unwrap();
        if program.fd().is_err() {
            program.load().unwrap();
        }
        let mut out = vec![0; 2048];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat,
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).unwrap();
        (result.return_value, result.duration.as_nanos() as f64)
    }

    /// Nanoseconds of a run on this frame, putting back included, and of putting back alone; see
    /// `Programs::set_gauge`.
    pub(crate) fn run(&mut self, frame: &[u8], turn: [u32; 4]) -> [f64; 2] {
        let mut kept = [0; 200];
        let head = frame.len().min(192);
        kept[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        kept[4..8].copy_from_slice(&(head as u32).to_ne_bytes());
        kept[8..8 + head].copy_from_slice(&frame[..head]);
        let mut map = Array::<_, [u8; 200]>::try_from(self.0.map_mut("kept").unwrap()).unwrap();
        map.set(0, kept, 0).unwrap();
        let mut turns = [0; 24];
        for (place, value) in turn.into_iter().enumerate() {
            turns[place * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        let mut map = Array::<_, [u8; 24]>::try_from(self.0.map_mut("turns").unwrap()).unwrap();
        map.set(0, turns, 0).unwrap();
        let (action, ns) = self.once("eupf", frame, super::REPEAT);
        assert_eq!(action, REDIRECT, "eUPF forwards the frame");
        [ns, self.once("eupf_back", frame, super::REPEAT).1]
    }
}
