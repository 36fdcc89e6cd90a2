// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a sketch as a path file.

use super::{FCS_BYTES, Part, Sketch};
use linerate_path::spec::State;
use std::fmt::Write;

/// Default frame size in bytes, FCS included. This is the minimum, which is the hardest to process
/// at line rate.
const FRAME_BYTES: u32 = 64;

/// Kind given to every stage in the path file. No build implements it, so the stages can be planned
/// but not run.
const KIND: &str = "foreign";

/// Returns a sketch as a path file. `name` is the path's name, `line_bits_per_s` the line rate, and
/// `frame_bytes` the frame size, FCS included. `state`, if given, applies to all stages.
pub fn text(
    sketch: &Sketch,
    name: &str,
    state: Option<State>,
    line_bits_per_s: Option<f64>,
    frame_bytes: Option<u32>,
) -> String {
    let mut text = String::new();
    let measured = sketch.frame_bytes.map(|bytes| bytes.round() as u32);
    let frame = frame_bytes.or(measured).unwrap_or(FRAME_BYTES).max(FRAME_BYTES);
    let _ = writeln!(text, "# A path derived from {}, for `linerate plan`.", comment(&sketch.from));
    for note in &sketch.notes {
        let _ = writeln!(text, "# - {}", comment(note));
    }
    if frame_bytes.or(measured).is_none() {
        let _ = writeln!(text, "# - frames of {FRAME_BYTES} bytes with FCS are assumed");
    }
    let _ = writeln!(text, "\nname = {}", quoted(name));
    if let Some(rate) = line_bits_per_s {
        let _ = writeln!(text, "\n[line]\nrate = \"{}\"", bit_rate(rate));
    }
    let sizes = frame - FCS_BYTES;
    let _ = writeln!(text, "\n[source]\nkind = \"generator\"\nsizes = [{sizes}]");
    for stage in &sketch.stages {
        let name = quoted(&stage.name);
        let _ = writeln!(text, "\n[[stage]]\nkind = \"{KIND}\"\nname = {name}");
    }
    let _ = writeln!(text, "\n# Workers, one line each: split and replicate as you like.");
    let _ = writeln!(text, "[mapping]\nworkers = [");
    let mut names = sketch.stages.iter().map(|stage| quoted(&stage.name));
    for (stages, replicas) in &sketch.segments {
        let stages: Vec<String> = names.by_ref().take(*stages).collect();
        let stages = stages.join(", ");
        let _ = writeln!(text, "  {{ stages = [{stages}], replicas = {replicas} }},");
    }
    let _ = writeln!(text, "]\n\n[costs]\nfrom = {}", quoted(&sketch.from));
    for stage in &sketch.stages {
        text += &cost(stage, state);
    }
    text
}

/// Writes a bit rate exactly, in the largest unit in which it is a whole number: `10Gb/s`.
fn bit_rate(rate: f64) -> String {
    let rate = rate.round();
    let units = [(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")];
    let is_whole = |(unit, _): &(f64, &str)| rate >= *unit && rate % unit == 0.0;
    let (size, unit) = units.into_iter().find(is_whole).unwrap_or((1.0, "b/s"));
    format!("{}{unit}", rate / size)
}

/// Lists what [`text()`] assumes because neither the record nor the user says it, and the options
/// that replace these assumptions. The arguments are as for [`text()`].
pub fn assumptions(sketch: &Sketch, state: Option<State>, frame_bytes: Option<u32>) -> Vec<String> {
    let mut all = Vec::new();
    let of_one_thread = sketch.stages.iter().filter(|stage| stage.threads <= 1);
    let names: Vec<String> = of_one_thread.map(|stage| format!("`{}`", stage.name)).collect();
    let replicas = "(otherwise pass --state flow or --state none)";
    match names.as_slice() {
        [] => {}
        _ if state.is_some() => {}
        [name] => all.push(format!("{name} has global state, so it has one replica {replicas}")),
        [..] => {
            let names = names.join(", ");
            all.push(format!("{names} have global state, so each has one replica {replicas}"));
        }
    }
    if frame_bytes.is_none() && sketch.frame_bytes.is_none() {
        all.push(format!("frames have {FRAME_BYTES} bytes with FCS (--frame)"));
    }
    all
}

fn cost(stage: &Part, state: Option<State>) -> String {
    let (state, why) = match state {
        Some(state) => (state, ""),
        None if stage.threads > 1 => (State::PerFlow, "    # several threads ran it"),
        None => (State::Global, "  # assumed: it is unknown whether replicas are allowed"),
    };
    let word = state.word();
    let name = quoted(&stage.name);
    let mut text = format!("\n[[costs.stages]]\nname = {name}\nstate = \"{word}\"{why}\n");
    let _ = writeln!(text, "ns = {}", figure(stage.ns));
    if stage.reach < 1.0 {
        let _ = writeln!(text, "reach = {}", figure(stage.reach));
    }
    if let Some(instructions) = stage.instructions {
        let _ = writeln!(text, "instructions = {}", figure(instructions));
    }
    text
}

/// Formats a cost with up to three decimal places, clamped to the range allowed in path files.
fn figure(value: f64) -> String {
    format!("{}", (value.clamp(1e-3, 1e7) * 1e3).round() / 1e3)
}

/// Returns `text` as a quoted TOML string, replacing characters that would need escaping with `_`.
fn quoted(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}

/// Returns `text` with line breaks and other control characters replaced with `_`.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::bit_rate;

    #[test]
    fn rates_are_exact_and_in_the_largest_unit() {
        let cases =
            [(1e10, "10Gb/s"), (2.5e9, "2500Mb/s"), (1e12, "1Tb/s"), (1_234_567.0, "1234567b/s")];
        for (rate, text) in cases {
            assert_eq!(bit_rate(rate), text);
        }
    }
}
