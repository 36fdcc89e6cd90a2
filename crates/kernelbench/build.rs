// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the C peers: our own always, and external ones if the feature `peers` is set and they
//! are found. A peer that is missing or does not compile never fails the build: it is omitted, and
//! the program reports the reason.
//!
//! For each peer that is found, sets `cfg(peer_NAME)` and `PEER_NAME_SOURCE`, which holds its
//! version; for each other peer, sets `PEER_NAME_REASON`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=peers");
    println!("cargo::rustc-check-cfg=cfg(peer_masked_loop, peer_steps, peer_dpdk, peer_lwip)");
    let is_wanted = std::env::var_os("CARGO_FEATURE_PEERS").is_some();
    let of_others = |find: fn() -> Found| {
        if is_wanted { find() } else { Err("built without the feature `peers`".into()) }
    };
    let peers = [
        ("masked_loop", own("masked_loop")),
        ("steps", own("steps")),
        ("dpdk", of_others(dpdk)),
        ("lwip", of_others(lwip)),
    ];
    for (name, found) in peers {
        let upper = name.to_uppercase();
        match found {
            Ok(source) => {
                println!("cargo::rustc-cfg=peer_{name}");
                println!("cargo::rustc-env=PEER_{upper}_SOURCE={source}");
            }
            Err(reason) => println!("cargo::rustc-env=PEER_{upper}_REASON={reason}"),
        }
    }
}

/// A compiled peer's version, or why it was not compiled, on one line.
type Found = Result<String, String>;

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.std("gnu11").opt_level(2).warnings(true).extra_warnings(true);
    build
}

/// Compiles the sources into an archive. Compiler messages go to the build's own log.
fn compile(build: &cc::Build, archive: &str) -> Result<(), String> {
    let cannot = |_| format!("{archive} does not compile here; see the build log");
    build.try_compile(archive).map_err(cannot)
}

fn pkg_config(question: &str) -> Option<String> {
    let output = Command::new("pkg-config").args([question, "libdpdk"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Compiles a peer of our own.
fn own(name: &str) -> Found {
    let target = std::env::var("TARGET").unwrap_or_default();
    if !target.starts_with("x86_64") {
        return Err(format!("it needs AVX-512, which {target} does not have"));
    }
    let file = format!("peers/{name}_avx512.c");
    compile(compiler().file(file), &format!("linerate_{name}"))?;
    Ok("written here".into())
}

/// Compiles the DPDK header with the flags from its package.
fn dpdk() -> Found {
    let target = std::env::var("TARGET").unwrap_or_default();
    if std::env::var("HOST").as_deref() != Ok(&target) || !target.starts_with("x86_64") {
        return Err(format!("skipped when building for {target}"));
    }
    let version =
        pkg_config("--modversion").ok_or("DPDK is not installed (apt install libdpdk-dev)")?;
    let flags = pkg_config("--cflags").ok_or("pkg-config --cflags libdpdk failed")?;
    let mut build = compiler();
    // Our warning flags are disabled for third-party headers.
    build.file("peers/dpdk.c").opt_level(3).warnings(false).extra_warnings(false);
    flags.split_whitespace().for_each(|flag| _ = build.flag(flag));
    compile(&build, "linerate_dpdk")?;
    Ok(format!("DPDK {version}, rte_ip.h"))
}

/// Compiles the lwIP checksum from the directory that `cargo xtask fetch lwip` fills.
fn lwip() -> Found {
    let folder = Path::new("../../third-party/lwip");
    let sources: PathBuf = folder.join("src");
    // Cargo would treat a missing file as changed in every build, so it is not watched; `cargo
    // xtask fetch lwip` touches this file instead.
    if !sources.join("core/inet_chksum.c").exists() {
        return Err("lwIP was not fetched (cargo xtask fetch lwip)".into());
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    let version = std::fs::read_to_string(folder.join("version.txt")).unwrap_or_default();
    for algorithm in ["1", "2", "3"] {
        let mut build = compiler();
        build.file("peers/lwip/lwip.c").define("LWIP_CHKSUM_ALGORITHM", algorithm);
        build.include("peers/lwip").include(sources.join("include")).include(&sources);
        build.warnings(false).extra_warnings(false);
        compile(&build, &format!("linerate_lwip{algorithm}"))?;
    }
    Ok(format!("lwIP {}, inet_chksum.c", version.trim()))
}
