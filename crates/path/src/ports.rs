// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the network interfaces of a path, and checks the rules for live traffic.

use crate::fields::Fields;
use crate::keys::PORTS;
use crate::mapping::Refusal;
use crate::model::{Io, LiveSource, Mapping, Port, Rate, Sink, Source};
use crate::problem::{Mistake, shown};
use crate::spec::{StageSpec, State};

/// Returns whether a source receives live packets, given its section.
pub(crate) fn is_live(source: &Fields) -> bool {
    matches!(source.variant, Some("interface" | "ports"))
}

/// Builds a live source. `fields` is its section, `file` the whole file.
pub(crate) fn source(fields: &Fields, file: &Fields) -> Option<Source> {
    let ports = match fields.variant? {
        "ports" => ports(file)?,
        _ => vec![Port { promiscuous: fields.bool("promiscuous")?, ..interface(fields)? }],
    };
    Some(Source::Interface(LiveSource {
        ports,
        buffer_bytes: fields.integer("buffer_bytes")?,
        cut_segments: fields.text("segment")? == "cut",
    }))
}

/// Builds a sink that sends on interfaces. `fields` is its section, `file` the whole file.
pub(crate) fn sink(fields: &Fields, file: &Fields) -> Option<Sink> {
    let ports = match fields.variant? {
        "ports" => ports(file)?,
        _ => vec![interface(fields)?],
    };
    Some(Sink::Interface(ports))
}

fn interface(fields: &Fields) -> Option<Port> {
    let interface = fields.text("name")?.to_owned();
    let io = Io::of_word(fields.text("io")?)?;
    Some(Port { name: interface.clone(), interface, io, promiscuous: false })
}

fn ports(file: &Fields) -> Option<Vec<Port>> {
    let port = |fields: &Fields| {
        Some(Port {
            name: fields.text("name")?.to_owned(),
            interface: fields.text("interface")?.to_owned(),
            io: Io::of_word(fields.text("io")?)?,
            promiscuous: fields.bool("promiscuous")?,
        })
    };
    file.sections("port")?.iter().map(port).collect()
}

/// Checks that the `[[port]]` sections are complete and distinct, and match the kinds of source and
/// sink.
pub(crate) fn check(file: &Fields, mistakes: &mut Vec<Mistake>) {
    let variant = |section: &str| file.section(section).and_then(|fields| fields.variant);
    let (source, sink) = (variant("source"), variant("sink"));
    if sink == Some("ports") && source.is_some_and(|kind| kind != "ports") {
        let at = file.section("sink").map_or(0..0, |fields| fields.place("kind"));
        let message = "a sink of kind 'ports' needs a source of kind 'ports'";
        let help = "for a single interface, set kind = \"interface\"";
        mistakes.push(Mistake::new(&at, message).help(help));
    }
    check_io(file, mistakes);
    let uses = source == Some("ports") || sink == Some("ports");
    let Some(sections) = file.sections("port") else {
        if uses && !file.is_given("port") {
            let section = if source == Some("ports") { "source" } else { "sink" };
            let at = file.section(section).map_or(0..0, |fields| fields.place("kind"));
            let message = "kind = \"ports\" needs two [[port]] sections";
            let help = "add a [[port]] section with name and interface for each port";
            mistakes.push(Mistake::new(&at, message).help(help));
        }
        return;
    };
    let first = sections.first().map_or(0..0, |section| section.at.clone());
    if !uses && source.is_some() {
        let message = "[[port]] is used by neither [source] nor [sink]";
        mistakes.push(Mistake::new(&first, message).help("set kind = \"ports\" in both"));
    }
    if sections.len() != PORTS {
        let at = sections.get(PORTS).map_or(first, |section| section.at.clone());
        let message =
            format!("a forwarder needs {PORTS} [[port]] sections, not {}", sections.len());
        mistakes.push(Mistake::new(&at, message));
    }
    for (key, what) in [("name", "ports are named"), ("interface", "ports use the interface")] {
        let mut seen = Vec::new();
        for section in sections {
            let Some(value) = section.text(key) else { continue };
            if seen.contains(&value) {
                let message = format!("two {what} {}", shown(value));
                mistakes.push(Mistake::new(&section.place(key), message));
            }
            seen.push(value);
        }
    }
}

/// Checks that the source and the sink use the same I/O method on an interface that they share,
/// because its queues are opened once, for both directions.
fn check_io(file: &Fields, mistakes: &mut Vec<Mistake>) {
    for (from, name) in interfaces("source", file) {
        for (to, _) in interfaces("sink", file).filter(|(_, other)| *other == name) {
            let (Some(receives), Some(sends)) = (from.text("io"), to.text("io")) else { continue };
            if receives != sends {
                let message = format!(
                    "the source uses the interface {} with io = \"{receives}\", the sink with io = \
                     \"{sends}\"",
                    shown(name)
                );
                let help = "set the same io in both";
                mistakes.push(Mistake::new(&to.place("io"), message).help(help));
            }
        }
    }
}

/// Returns the interfaces that `section` (`source` or `sink`) uses: the fields that configure each,
/// and its name.
fn interfaces<'f>(section: &str, file: &'f Fields) -> impl Iterator<Item = (&'f Fields, &'f str)> {
    let fields = file.section(section);
    let (key, sections) = match fields.and_then(|fields| fields.variant) {
        Some("interface") => ("name", fields.map(std::slice::from_ref)),
        Some("ports") => ("interface", file.sections("port")),
        _ => ("", None),
    };
    let sections = sections.unwrap_or_default().iter();
    sections.filter_map(move |fields| Some((fields, fields.text(key)?)))
}

/// Rejects a rate for a live source, whose rate the sender determines.
pub(crate) fn check_rate(rate: Rate, run: &Fields, file: &Fields, mistakes: &mut Vec<Mistake>) {
    if rate != Rate::Max && file.section("source").is_some_and(is_live) {
        let message = "'rate' cannot be set for a live source";
        let help = "leave out 'rate'; the sender determines it";
        mistakes.push(Mistake::new(&run.place("rate"), message).help(help));
    }
}

/// Returns why a live source rules out a mapping. The kernel distributes packets over the replicas
/// of the first segment by its own flow hash, so flows that share state could end up on different
/// replicas. `specs` are the specifications of the stages, in path order.
pub(crate) fn refusal(mapping: &Mapping, specs: &[StageSpec]) -> Option<Refusal> {
    let first = mapping.segments.first().filter(|segment| segment.replicas > 1)?;
    let stages = specs.iter().enumerate().filter(|(stage, _)| first.stages.contains(stage));
    let (stage, spec) = { stages }.find(|(_, spec)| spec.state == State::PerFlow)?;
    Some(Refusal::LiveFlowState { segment: 0, stage, kind: spec.kind })
}
