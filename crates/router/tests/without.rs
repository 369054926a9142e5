//! Says so where the programs for the kernel were not built, and so not tested.
#![cfg(not(feature = "kernel"))]

#[path = "../../../tests/skip.rs"]
mod skip;

#[test]
fn programs_for_the_kernel() {
    skip::skip("built without the feature `kernel`: `tools/test` builds it with");
}
