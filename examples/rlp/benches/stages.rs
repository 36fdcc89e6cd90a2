// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the per-packet cost of the application's stages with 342-byte packets, on the forward
//! path of `examples/rlp-config2.toml`, and compares each with a lower bound.
//!
//! Each iteration processes one burst with the application and one with the lower bounds. The
//! application copies a frame from the line into a buffer, runs `PDSN_RX`, `RLP` and `ATIF_TX`, and
//! copies the packet out. Where one worker would hand off packets to the next there is a ring, both
//! ends of which run on this thread. The bound for the two outer stages is the same copying and
//! ring traffic without any stage. The bound for `RLP` is the minimum that retransmission requires:
//! each packet's bytes are copied into a ring of the session, and to their place in the first
//! frame. They are not read back from the ring: that is unnecessary, and an immediate read would
//! stall on the cache lines just written.
//!
//! A round is a few thousand packets; application and bounds take turns running first. Rounds that
//! are not clean windows are dropped. Ticks are TSC ticks.
//!
//! `cargo bench -p linerate-rlp --bench stages [-- ROUNDS]`

use linerate_rlp::app::EXTENSION;
use linerate_rlp::envelope::{Ends, HEADER_BYTES, write_header};
use linerate_rlp::frame::{FRAME_HEADER_BYTES, PACKET_HEADER_BYTES};

use linerate_stage_api::bench::provenance;
use linerate_stage_api::bench::ticks;
use linerate_stage_api::bench::{self, Dropped, Estimate, Machine, Window};
use linerate_stage_api::bench::{CONFIDENCE, median_interval, orders, paired_ratio};
use linerate_stage_api::ring::{Consumer, Producer, ring};
use linerate_stage_api::testing::Pool;
use linerate_stage_api::{BuildContext, Burst, Packet, Stage, StageContext, Verdict};
use std::hint::black_box;

/// Frame length without FCS.
const FRAME_BYTES: usize = 338;
const PAYLOAD_BYTES: usize = FRAME_BYTES - HEADER_BYTES;
const BUFFER_BYTES: usize = 2_048;
const BURST: usize = 32;
const TURNS: usize = 128;
const ROUNDS: usize = 400;
/// Frames that the line cycles through, about as many as the example's capture yields: 2 MB, which
/// exceeds most L2 caches. Repeating only a few frames would keep them in L1.
const CAPTURED: usize = 6_400;
const RLP_TICKS_MAX: f64 = 600.0;
const COPY_RATIO_MAX: f64 = 1.5;
/// Default size of a session's retransmission ring.
const RING_BYTES: usize = 16 << 10;
const ENDS: Ends = Ends {
    ethernet: [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0b],
    ipv4: [192, 0, 2, 1, 192, 0, 2, 2],
};

/// Separately timed steps: the application's, then their bounds in the same order.
const PARTS: [&str; 6] = [
    "copied in, PDSN_RX",
    "RLP",
    "ATIF_TX, copied out",
    "bound: copied in",
    "bound: kept in a ring, moved",
    "bound: copied out",
];

/// Creates the stage of this kind with the example path's parameters.
fn stage(text: &str, kind: &str) -> Box<dyn Stage> {
    let path = EXTENSION.read(text, "rlp-config2").expect("the example is a path");
    let used = path.stages.iter().find(|stage| stage.kind == kind).expect("the example has it");
    let kind = EXTENSION.stage(kind).expect("it is in the table");
    let context = BuildContext { replica: 0, replicas: 1 };
    (kind.build)(&used.params, &context).expect("the example's parameters are in range")
}

/// Ring between two workers.
struct Link<'p> {
    tx: Producer<Packet<'p>>,
    rx: Consumer<Packet<'p>>,
    items: Vec<Packet<'p>>,
}

impl<'p> Link<'p> {
    fn new() -> Self {
        let (tx, rx) = ring(256);
        Self { tx, rx, items: Vec::with_capacity(BURST) }
    }

    fn push(&mut self, burst: &mut Burst<'p>) {
        self.items.extend(burst.drain());
        self.tx.push_from(&mut self.items);
    }

    fn pop(&mut self, burst: &mut Burst<'p>) {
        self.rx.pop_into(&mut self.items, BURST);
        self.items.drain(..).for_each(|packet| burst.push(packet));
    }
}

/// Frames from the line, rotating through the sessions. Each copy gets its session's next GRE
/// sequence number.
struct Line {
    frames: Vec<[u8; FRAME_BYTES]>,
    sequences: Vec<u32>,
    /// Indices of the next frame and of its session.
    next: [usize; 2],
}

/// Returns the next index in a circular list of `places` entries.
fn after(place: usize, places: usize) -> usize {
    if place + 1 == places { 0 } else { place + 1 }
}

impl Line {
    fn new(sessions: usize, frames: usize) -> Self {
        let frame = |frame: usize| {
            let session = frame % sessions;
            let mut frame = [session as u8; FRAME_BYTES];
            let header = frame.first_chunk_mut().expect("longer than a header");
            assert!(write_header(header, &ENDS, session as u32 + 1, 0, PAYLOAD_BYTES));
            frame
        };
        let frames = (0..frames / sessions * sessions).map(frame).collect();
        Self { frames, sequences: vec![0; sessions], next: [0; 2] }
    }

    /// Copies the next frame into a buffer.
    #[inline]
    fn fill(&mut self, packet: &mut Packet<'_>) {
        let [frame, session] = self.next;
        self.next = [after(frame, self.frames.len()), after(session, self.sequences.len())];
        let number = &mut self.sequences[session];
        *number = number.wrapping_add(1);
        assert!(packet.fill(&self.frames[frame]), "a frame is shorter than a buffer");
        packet.bytes_mut()[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&number.to_be_bytes());
    }
}

/// Lower bound for `RLP`: only copies the bytes into a ring, and to the place after the headers of
/// a frame.
struct Rings {
    rings: Vec<Box<[u8]>>,
    places: Vec<usize>,
    next: usize,
}

impl Rings {
    fn new(sessions: usize) -> Self {
        // One packet longer than the ring, so that no copy wraps.
        let ring = || vec![0; RING_BYTES + PAYLOAD_BYTES].into();
        let rings = (0..sessions).map(|_| ring()).collect();
        Self { rings, places: vec![0; sessions], next: 0 }
    }

    #[inline]
    fn pass(&mut self, packet: &mut Packet<'_>) -> Verdict {
        let session = self.next;
        self.next = after(session, self.rings.len());
        let at = self.places[session];
        self.places[session] = (at + PAYLOAD_BYTES) & (RING_BYTES - 1);
        let kept = &mut self.rings[session][at..at + PAYLOAD_BYTES];
        let frame = packet.bytes_mut();
        kept.copy_from_slice(&frame[HEADER_BYTES..]);
        black_box(kept);
        frame.copy_within(HEADER_BYTES.., PACKET_HEADER_BYTES + FRAME_HEADER_BYTES);
        Verdict::Pass
    }
}

/// The application, the bounds, and the buffers and rings they use.
struct Bench<'p> {
    stages: [Box<dyn Stage>; 3],
    contexts: [StageContext; 3],
    lines: [Line; 2],
    rings: Rings,
    links: [Link<'p>; 2],
    burst: Burst<'p>,
    /// Free buffers, for the application and for the bounds.
    free: [Vec<Packet<'p>>; 2],
    out: Vec<[u8; BUFFER_BYTES]>,
}

impl<'p> Bench<'p> {
    fn new(text: &str, sessions: usize, frames: usize, free: [Vec<Packet<'p>>; 2]) -> Self {
        Self {
            stages: ["PDSN_RX", "RLP", "ATIF_TX"].map(|kind| stage(text, kind)),
            contexts: [(); 3].map(|()| StageContext::default()),
            lines: [(); 2].map(|()| Line::new(sessions, frames)),
            rings: Rings::new(sessions),
            links: [Link::new(), Link::new()],
            burst: Burst::new(),
            free,
            out: vec![[0; BUFFER_BYTES]; BURST],
        }
    }

    /// Step 1: copies a burst from the line and pushes it to the first ring. `way` is 0 for the
    /// application, 1 for the bounds.
    fn take_in(&mut self, way: usize) {
        let waiting = self.free[way].len();
        for mut packet in self.free[way].drain(waiting - BURST..) {
            self.lines[way].fill(&mut packet);
            self.burst.push(packet);
        }
        if way == 0 {
            self.stages[0].process(&mut self.burst, &mut self.contexts[0]);
        }
        self.links[0].push(&mut self.burst);
    }

    /// Step 2: moves a burst from the first ring to the second, through `RLP` or its bound.
    fn keep(&mut self, way: usize) {
        self.links[0].pop(&mut self.burst);
        match way {
            0 => self.stages[1].process(&mut self.burst, &mut self.contexts[1]),
            _ => {
                let rings = &mut self.rings;
                self.burst.sift(&mut self.contexts[1], |packet, _| rings.pass(packet));
            }
        }
        self.links[1].push(&mut self.burst);
    }

    /// Step 3: copies a burst from the second ring to the line and frees its buffers.
    fn give_out(&mut self, way: usize) {
        self.links[1].pop(&mut self.burst);
        if way == 0 {
            self.stages[2].process(&mut self.burst, &mut self.contexts[2]);
        }
        for (packet, out) in self.burst.drain().zip(&mut self.out) {
            out[..packet.length()].copy_from_slice(packet.bytes());
            self.free[way].push(packet);
        }
        black_box(&mut self.out);
    }

    /// Returns each step's ticks per packet. `first` (0 or 1) runs first in each iteration.
    ///
    /// # Errors
    /// Returns the reason if the round is not a clean window.
    fn round(&mut self, first: usize, clock: &Machine) -> Result<[f64; PARTS.len()], Dropped> {
        let (mut costs, window) = ([0; PARTS.len()], Window::open(clock));
        for _ in 0..TURNS {
            for way in [first, 1 - first] {
                let steps: [fn(&mut Self, usize); 3] = [Self::take_in, Self::keep, Self::give_out];
                for (part, step) in steps.into_iter().enumerate() {
                    let start = ticks();
                    step(self, way);
                    costs[3 * way + part] += ticks() - start;
                }
            }
        }
        window.close().keep(costs.map(|ticks| ticks as f64 / (TURNS * BURST) as f64))
    }
}

fn compare(text: &str, sessions: usize, frames: usize, rounds: usize) {
    let [mut app, mut bounds] = [0, 1].map(|_| Pool::new(2 * BURST, BUFFER_BYTES));
    let mut bench = Bench::new(text, sessions, frames, [app.packets(0), bounds.packets(1)]);
    let mut costs = [const { Vec::new() }; PARTS.len()];
    let (clock, mut next) = (Machine::counter(), orders(2, ticks()));
    for round in 0..=rounds {
        let took = bench.round(next()[0], &clock);
        // Round 0 only warms the caches.
        if let Some(took) = took.ok().filter(|_| round > 0) {
            costs.iter_mut().zip(took).for_each(|(all, one)| all.push(one));
        }
    }
    let dropped: u64 = bench.contexts.iter().map(|context| context.account.dropped().packets).sum();
    assert_eq!(dropped, 0, "every packet is in order");
    println!(
        "{sessions} sessions on a worker, {frames} frames on the line, {} undisturbed rounds",
        costs[0].len()
    );
    if costs[0].is_empty() {
        return;
    }
    for (name, all) in PARTS.iter().zip(&costs) {
        let cost = median_interval(all, CONFIDENCE);
        println!("{name:34} {:7.1} ticks ({:.1} to {:.1})", cost.value, cost.low, cost.high);
    }
    let rlp = median_interval(&costs[1], CONFIDENCE);
    let said = verdict(&rlp, RLP_TICKS_MAX);
    println!("{:34} {:7.1} ticks, goal: at most {RLP_TICKS_MAX}: {said}", "RLP", rlp.value);
    for (name, part, goal) in RATIOS {
        let (bound, cost) = (&costs[3 + part], &costs[part]);
        let ratio = paired_ratio(bound, cost, CONFIDENCE);
        let [value, low, high] = [ratio.value, ratio.low, ratio.high];
        let added: Vec<f64> = cost.iter().zip(bound).map(|(cost, bound)| cost - bound).collect();
        let added = median_interval(&added, CONFIDENCE).value;
        let mut said = format!(" ({low:.3} to {high:.3}), {added:+.1} ticks");
        if let Some(goal) = goal {
            said += &format!(", goal: at most {goal}: {}", verdict(&ratio, goal));
        }
        if high < 1.0 {
            said += "; BELOW ITS BOUND, which is therefore not a lower bound";
        }
        println!("{name:34} {value:7.3}{said}");
    }
    println!();
}

/// Printed ratios: name, index of the application's step (the index of its bound is higher by
/// three), and the maximum ratio, if any.
const RATIOS: [(&str, usize, Option<f64>); 3] = [
    ("PDSN_RX / straight copy", 0, Some(COPY_RATIO_MAX)),
    ("RLP / kept and moved", 1, None),
    ("ATIF_TX / straight copy", 2, Some(COPY_RATIO_MAX)),
];

/// Returns in words whether the measured value is at most `goal`.
fn verdict(measured: &Estimate, goal: f64) -> &'static str {
    match (measured.low <= goal, measured.high <= goal) {
        (_, true) => "met",
        (false, _) => "MISSED",
        (true, false) => "indistinguishable, the interval contains both",
    }
}

/// Describes the CPU and system for the heading.
fn machine() -> String {
    let on = provenance("stages", None, "", "");
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{}, {} logical processors, hypervisor {}, {}; {:.0} million ticks per second; load {:.1}",
        or_unknown(on.cpu),
        on.cpus.len(),
        or_unknown(on.hypervisor),
        or_unknown(on.kernel),
        on.ticks_per_s.unwrap_or(f64::NAN) / 1e6,
        on.load_1min.unwrap_or(f64::NAN),
    )
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let rounds = if test { 1 } else { asked.unwrap_or(ROUNDS) };
    println!("{}", machine());
    let cpu = bench::allowed_cpus().expect("the kernel reports the CPUs")[0];
    bench::pin_current_thread(cpu).expect("the processor may be used");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../rlp-config2.toml");
    let text = std::fs::read_to_string(file).expect("the example is there");
    println!("forward path of examples/rlp-config2.toml, 342 bytes, burst {BURST}\n");
    for (sessions, frames) in [(16, 16), (16, CAPTURED), (64, CAPTURED)] {
        compare(&text, sessions, frames, rounds);
    }
}
