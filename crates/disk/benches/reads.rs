//! Processor time of random reads of whole objects through the store, checksums on: `bench/store/processor` runs it
//! beside fio on the same file. Arguments: a file that is made, the length of objects, reads at once, seconds.

#![allow(clippy::print_stdout, reason = "its figures are what it is for")]

use freshet_device::Device;
use freshet_device::file::FileDevice;
use freshet_disk::bench::{BenchOptions, run};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FILE_BYTES: u64 = 3_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // Others are cargo's: it tries all benches, without a file.
    let [_, path, object_bytes, depth, seconds, ..] = &arguments[..] else { return };
    let number = |text: &String| text.parse().expect("a number");
    let options = BenchOptions {
        object_bytes: number(object_bytes),
        fill_bytes: FILE_BYTES * 2 / 3,
        depth: number(depth),
        span: Duration::from_secs(number(seconds) as u64),
    };
    let device = FileDevice::create(Path::new(path), FILE_BYTES).expect("a file can be made");
    let device: Arc<dyn Device> = Arc::new(device);
    let report = run(&device, options, &mut |_, _| {}).expect("the file works");
    println!(
        "store {:6.0} MB/s {:6.3} s/GB",
        report.read_bytes_per_second / 1e6,
        report.read_processor_s_per_gb
    );
}
