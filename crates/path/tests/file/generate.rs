// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates valid path files in all notations of TOML, and valid mappings.

use crate::kinds::KINDS;
use linerate_path::model::{Mapping, Segment};
use linerate_path::spec::{StageSpec, State};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns a proptest configuration with a fixed seed and this many cases.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() }
}

/// Returns the specifications of the test stages of these kinds.
pub(crate) fn specs<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<StageSpec> {
    let spec =
        |kind| *KINDS.stages.iter().find(|spec| spec.kind == kind).expect("a kind of the tests");
    kinds.into_iter().map(spec).collect()
}

/// Generates valid mappings of these stages.
pub(crate) fn mapping(stages: Vec<StageSpec>) -> impl Strategy<Value = Mapping> {
    let cuts = prop::collection::vec(any::<bool>(), stages.len() - 1);
    let replicas = prop::collection::vec((1_u32..4, any::<bool>()), stages.len());
    (cuts, replicas, 0_u32..99).prop_map(move |(cuts, replicas, first_cpu)| {
        let mut segments: Vec<Segment> = Vec::new();
        let mut start = 0;
        let mut cpu = first_cpu;
        for end in 1..=stages.len() {
            if end < stages.len() && !cuts[end - 1] {
                continue;
            }
            let global = stages[start..end].iter().any(|spec| spec.state == State::Global);
            let (wanted, pinned) = replicas[start];
            let replicas = if global { 1 } else { wanted };
            let cpus = if pinned { (cpu..cpu + replicas).collect() } else { Vec::new() };
            cpu += replicas;
            segments.push(Segment { stages: start..end, replicas, cpus });
            start = end;
        }
        Mapping { segments }
    })
}

/// A valid path file and the kinds of its stages.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) text: String,
    pub(crate) kinds: Vec<&'static str>,
}

const STAGES: &[(&str, &str)] = &[
    ("verify", "l4 = false"),
    ("verify", "only = 'ipv6' # c-only"),
    ("filter", "rules = [ 'a', \"b # no comment\" ] # c-rules"),
    ("filter", "otherwise = 'drop'"),
    ("nat44", "outside = \"192.0.2.1\"\nflows = 0x100"),
    ("count", ""),
    ("count", "only = \"other\""),
];

const SOURCES: &[&str] = &[
    "[source] # c-source\nkind = \"capture\"\nfile = \"edge.pcapng\"\n",
    "[source]\nkind = 'generator'\nsizes = [\n  60, # c-size\n  1514,\n]\n",
    "[source]\nkind = 'generator'\nsizes = 'imix'\nflows = 7\nseed = 9_000\n",
    "[source]\nkind = 'cells'\nfile = \"a.pcap\"\nbytes = 338 # c-bytes\nlost = 0.01\n",
    "[source]\nkind = 'cells' # c-back\nfile = 'a.pcap'\nway = 'out'\nbytes = 60\n",
];

const KERNELS: &[&str] =
    &["", "kernels = 'avx2' # c-kernels\n", "# c-best\nkernels = \"selected\"\n"];

const LINES: &[&str] = &["", "[line]\nrate = \"10Gb/s\" # c-rate\nports = 2\n"];

const SINKS: &[&str] = &["", "[sink]\n", "[sink]\nkind = \"capture\"\nfile = \"out.pcap\"\n"];

/// Notations of the section `run` that must precede the first section header: dotted keys, and an
/// inline table.
const RUN_ABOVE: &[&str] =
    &["run.time = '1s' # c-time\nrun.ring = 512\n", "run = { packets = 100, burst = 7 } # c-run\n"];

const RUN_BELOW: &[&str] =
    &["", "[run]\n", "[run]\n# c-burst-before\nburst   =  8   # c-burst\nrate = \"2Mpps\"\n"];

/// Notation of the section `mapping` that must precede the first section header. `{}` is replaced
/// by the workers' tables. The notation with `[[…]]` is built separately.
const MAPPING_ABOVE: &str = "mapping = { workers = [{}] } # c-mapping\n";
const MAPPINGS_BELOW: &[&str] = &[
    "# c-before-mapping\n[mapping] # c-mapping\nworkers = [\n  {},\n] # c-workers\n# c-after\n",
    "[mapping]\nworkers = [{}]\n",
];

fn inline(mapping: &Mapping, names: &[String], separator: &str) -> String {
    let worker = |segment: &Segment| {
        let Segment { stages, replicas, cpus } = segment;
        format!(
            "{{ stages = {:?}, replicas = {replicas}, cpus = {cpus:?} }}",
            &names[stages.clone()]
        )
    };
    mapping.segments.iter().map(worker).collect::<Vec<_>>().join(separator)
}

fn tables(mapping: &Mapping, names: &[String]) -> String {
    let worker = |segment: &Segment| {
        let Segment { stages, replicas, .. } = segment;
        let stages = &names[stages.clone()];
        format!("[[mapping.workers]]\nstages = {stages:?}\nreplicas = {replicas}\n")
    };
    mapping.segments.iter().map(worker).collect()
}

/// Possible costs of a stage; `{}` is replaced by its name.
const COSTS: &[&str] = &[
    "[[costs.stages]] # c-cost\nname = '{}'\nns = 40\nprocessed = 0.25\n",
    "[[costs.stages]]\nname = '{}'\nstate = 'flow'\nreach = 0.5\nns = 1.5e2\nassumed = ['ns']\n",
    "[[costs.stages]]\nname = '{}'\ninstructions = 0x100\nl1_misses = 2.5\nfitted = []\n",
];

/// Notation of a generated file: parts of its text, and indices into the tables above.
#[derive(Clone, Debug)]
struct Form {
    kernels: &'static str,
    source: &'static str,
    line: &'static str,
    sink: &'static str,
    run: usize,
    mapping: usize,
    /// Index into [`COSTS`] for the costs of every stage; out of range for a file without costs.
    costs: usize,
    line_feed_only: bool,
}

fn form() -> impl Strategy<Value = Form> {
    let pick = prop::sample::select::<&'static str>;
    let sections = (pick(KERNELS), pick(SOURCES), pick(LINES), pick(SINKS));
    (sections, 0..5_usize, 0..5_usize, 0..6_usize, any::<bool>()).prop_map(
        |((kernels, source, line, sink), run, mapping, costs, line_feed_only)| Form {
            kernels,
            source,
            line,
            sink,
            run,
            mapping,
            costs,
            line_feed_only,
        },
    )
}

/// Generates valid path files.
pub(crate) fn file() -> impl Strategy<Value = File> {
    let stages = prop::collection::vec(prop::sample::select(STAGES), 0..5);
    (form(), stages)
        .prop_flat_map(|(form, stages)| {
            let kinds: Vec<_> =
                std::iter::once("parse").chain(stages.iter().map(|(kind, _)| *kind)).collect();
            (Just(form), Just(stages), Just(kinds.clone()), mapping(specs(kinds)))
        })
        .prop_map(|(form, stages, kinds, mapping)| {
            let text = written(&form, &stages, &mapping);
            let text = if form.line_feed_only { text } else { text.replace('\n', "\r\n") };
            File { text, kinds }
        })
}

fn written(form: &Form, stages: &[(&str, &str)], mapping: &Mapping) -> String {
    let names: Vec<String> = std::iter::once("parse".to_owned())
        .chain(stages.iter().enumerate().map(|(i, (kind, _))| format!("{kind}-{i}")))
        .collect();
    let mut text = "# c-top\nname = 'edge' # c-name\n".to_owned();
    text += form.kernels;
    text += RUN_ABOVE.get(form.run).unwrap_or(&"");
    if form.mapping == 0 {
        text += &MAPPING_ABOVE.replace("{}", &inline(mapping, &names, ", "));
    }
    text += form.line;
    text += form.source;
    text += "\n# c-stages\n[[stage]]\nkind = 'parse'\n";
    for ((kind, params), name) in stages.iter().zip(&names[1..]) {
        text +=
            &format!("[[stage]] # c-stage-{name}\nkind = \"{kind}\"\nname = '{name}'\n{params}\n");
    }
    text += form.sink;
    if let Some(below) = form.mapping.checked_sub(1).and_then(|i| MAPPINGS_BELOW.get(i)) {
        text += &below.replace("{}", &inline(mapping, &names, ",\n  "));
    } else if form.mapping == 3 {
        text += "# c-before-workers\n";
        text += &tables(mapping, &names);
    }
    text += form.run.checked_sub(2).map_or("", |i| RUN_BELOW[i]);
    if let Some(cost) = COSTS.get(form.costs) {
        text += "[costs] # c-costs\nfrom = 'a test'\nspread = 0.1\n";
        names.iter().for_each(|name| text += &cost.replace("{}", name));
        text += "[[costs.neighbours]]\nname = 'idle'\ndoes = 'spin'\ncpus = [900, 901]\n";
    }
    text
}
