// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file that describes a path, from outside: what is read, what is refused, what is written.

mod kinds;
#[test]
fn show() {
    for t in [
        r#"
nmae = "x"
burst = 3
[lines]
[source]
kind = "captur"
[[stage]]
kind = "parse"
"#,
        r#"
[source]
kind = "generator"
sizes = [40, 9000, "x", 1500]
file = "x"
[line]
[[stage]]
kind = "verify"
l4 = 3
[[stage]]
kind = "nat44"
flows = 0
[[stage]]
kind = "count"
[[stage]]
kind = "count"
[mapping]
strands = [ { stages = ["verify", "nat"], replica = 2 }, {stages=[]} ]
[run]
time = "2s"
packets = 4
rate = "lin"
burst = "32"
ring = 300
full-ring = "wait"
"#,
        "",
        r#"
[source]
kind = "generator"
sizes = 1500
buffer_octets=1000
[stage]
kind = parse
[run]
rate = 10Gb/s
burst =
ring = 1000
"#,
        r#"
[source]
kind = "generator"
buffer_octets=1000
[[stage]]
kind = "parse"
[[stage]]
kind = "count"
[[stage]]
kind = "filter"
rules = [1]
otherwise = "pas"
[run]
rate = "capture"
time = "0s"
[mapping]
strands = [ { stages = ["parse", "filter"], cpus=[1,2] }, {stages=["count"], replicas=65, cpus=[1, 9999]} ]
"#,
        r#"
[source]
kind = "generator"
[[stage]]
kind = "parse"
[[stage]]
kind = "count"
[run]
rate = "line"
time = "2 parsecs"
[mapping]
strands = [ { stages = ["parse"], cpus=[1,2], replicas=63 }, {stages=["count"], replicas=2, cpus=[1, 3]} ]
"#,
        r#"[source
x = 1
"#,
        "a = 'x\nb=[1,\n",
        "[run]\nrate=3\n[run]\nrate=5Mpp\n",
        "[run]\nrate='5Mpp'\n[source]\n[[stage]]\n[[stage]]\nkind='parse'\nname='a b'\n",
    ] {
        println!(
            "{}",
            linerate_path::check::read(t, kinds::STEM, kinds::KINDS)
                .unwrap_err()
                .display("edge.toml")
        );
        println!("=======");
    }
    println!("{}", linerate_path::help::help(kinds::KINDS));
}
