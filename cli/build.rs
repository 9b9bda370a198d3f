//! Has the linker make the program small in the profile `dist`, on Linux with x86-64, where Rust
//! links with LLD: equal functions are stored once, and relocations that add the address of the
//! program take two bits instead of 24 bytes (glibc 2.36 or newer reads them).

use std::env;

/// Arguments of the linker.
const SMALL: [&str; 2] = ["-Wl,--icf=safe", "-Wl,-z,pack-relative-relocs"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Cargo doesn't name a profile of the workspace; only `dist` optimizes the program for size.
    let is_dist = env::var("OPT_LEVEL").is_ok_and(|level| level == "s");
    let links_with_lld =
        env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    if is_dist && links_with_lld {
        for argument in SMALL {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}
