// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests network interfaces in path files.

use crate::kinds::{KINDS, STEM};
use linerate_path::check::read;
use linerate_path::model::{Io, LiveSource, Path, Port, Sink, Source};

const PARSE: &str = "[[stage]]\nkind = 'parse'\n";

const TWO: &str = "[[port]]\nname = 'in'\ninterface = 'v0'\nio = 'tap'\n\
                   [[port]]\nname = 'out'\ninterface = 'v1'\npromiscuous = true\n";

fn path(text: &str) -> Path {
    read(text, STEM, KINDS).unwrap_or_else(|problems| panic!("{problems}")).path
}

fn messages(text: &str) -> String {
    match read(text, STEM, KINDS) {
        Ok(_) => "nothing".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

fn port(name: &str, interface: &str, io: Io, promiscuous: bool) -> Port {
    Port { name: name.to_owned(), interface: interface.to_owned(), io, promiscuous }
}

#[test]
fn an_interface_is_a_source_and_a_sink() {
    let text = format!(
        "[source]\nkind = 'interface'\nname = 'v0'\nsegment = 'keep'\n{PARSE}[sink]\nkind = \
         'interface'\nname = 'v1'\nio = 'af_xdp'\n"
    );
    let path = path(&text);
    let ports = vec![port("v0", "v0", Io::AfPacket, false)];
    let live = LiveSource { ports, buffer_bytes: 2048, cut_segments: false };
    assert_eq!(path.source, Source::Interface(live));
    assert_eq!(path.sink, Sink::Interface(vec![port("v1", "v1", Io::AfXdp, false)]));
    assert_eq!((path.source.file(), path.source.buffer_bytes()), (None, 2048));
}

#[test]
fn a_forwarder_has_two_ports() {
    let path = path(&format!("{TWO}[source]\nkind = 'ports'\n{PARSE}[sink]\nkind = 'ports'\n"));
    let ports = [port("in", "v0", Io::Tap, false), port("out", "v1", Io::AfPacket, true)];
    assert_eq!((path.source.ports(), path.sink.ports()), (&ports[..], &ports[..]));
}

#[test]
fn ports_and_their_use_agree() {
    let ports = "[source]\nkind = 'ports'\n";
    let generator = "[source]\nkind = 'generator'\n";
    let one = "[[port]]\nname = 'in'\ninterface = 'v0'\n";
    let same = format!("{one}{one}");
    let cases = [
        (
            format!("{ports}{PARSE}"),
            "2:8: kind = \"ports\" needs two [[port]] sections; add a [[port]] section with name \
             and interface for each port",
        ),
        (format!("{one}{ports}{PARSE}"), "1:1: a forwarder needs 2 [[port]] sections, not 1"),
        (
            format!("{same}{ports}{PARSE}"),
            "5:8: two ports are named 'in'\n6:13: two ports use the interface 'v0'",
        ),
        (
            format!("{TWO}{generator}{PARSE}"),
            "1:1: [[port]] is used by neither [source] nor [sink]; set kind = \"ports\" in both",
        ),
        (
            format!("{TWO}{generator}{PARSE}[sink]\nkind = 'ports'\n"),
            "14:8: a sink of kind 'ports' needs a source of kind 'ports'; for a single interface, \
             set kind = \"interface\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(messages(&text), expected, "{text}");
    }
}

#[test]
fn both_directions_of_an_interface_use_the_same_io() {
    let end = |section: &str, io: &str| {
        format!("[{section}]\nkind = 'interface'\nname = 'v0'\nio = '{io}'\n")
    };
    path(&format!("{}{}{PARSE}", end("source", "af_xdp"), end("sink", "af_xdp")));
    assert_eq!(
        messages(&format!("{}{}{PARSE}", end("source", "af_xdp"), end("sink", "af_packet"))),
        "8:6: the source uses the interface 'v0' with io = \"af_xdp\", the sink with io = \
         \"af_packet\"; set the same io in both"
    );
    // The first port is a TAP interface.
    let ports = format!("{TWO}[source]\nkind = 'ports'\n{PARSE}");
    let refused = messages(&format!("{ports}{}", end("sink", "af_packet")));
    assert!(refused.contains("with io = \"tap\", the sink with io = \"af_packet\""), "{refused}");
}

#[test]
fn live_packets_have_no_rate_and_no_state_in_a_replicated_first_worker() {
    let source = "[source]\nkind = 'interface'\nname = 'v0'\n";
    let rated = format!("{source}{PARSE}[run]\nrate = '1Mpps'\n");
    assert_eq!(
        messages(&rated),
        "7:8: 'rate' cannot be set for a live source; leave out 'rate'; the sender \
         determines it"
    );
    let nat = format!("{source}{PARSE}[[stage]]\nkind = 'nat44'\noutside = 'x'\n");
    let first = "[mapping]\nworkers = [{ stages = ['parse', 'nat44'], replicas = 2 }]\n";
    let refused = messages(&format!("{nat}{first}"));
    assert!(
        refused.starts_with("10:54: stage 'nat44': a 'nat44' stage keeps per-flow state"),
        "{refused}"
    );
    assert!(refused.contains("behind a ring, or set replicas = 1"), "{refused}");
    let later = "[mapping]\nworkers = [{ stages = ['parse'], replicas = 2 }, { stages = ['nat44'], \
                 replicas = 2 }]\n";
    path(&format!("{nat}{later}"));
}
