//! Compiles the programs for the kernel, when the feature `kernel` asks for them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Another compiler than the `clang` in the path.
const CLANG: &str = "CLANG";

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed={CLANG}");
    if std::env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in ["router", "gauge", "ends"] {
        compile(Path::new(&format!("bpf/{name}.bpf.c")), &out.join(format!("{name}.o")));
    }
}

fn compile(source: &Path, object: &Path) {
    let clang = std::env::var(CLANG).unwrap_or_else(|_| "clang".to_owned());
    let arguments =
        ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"];
    let output = Command::new(&clang).args(arguments).arg(source).arg("-o").arg(object).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{clang} could not compile {}:\n{said}", source.display());
        }
        Err(error) => panic!(
            "the edge router's programs for the kernel need clang 14 or newer ({clang}: {error}).\n\
             Install it (`tools/setup test` does), or build without the feature `router`: the node \
             does not need it."
        ),
    }
}
