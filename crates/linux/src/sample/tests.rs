// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::perf::{SOFTWARE, Selector};
use proptest::prelude::*;

const CPU_CLOCK: Selector = Selector::new(SOFTWARE, 0);
const USER: u16 = 2;
const PLAIN: Fields = Fields {
    has_count: false,
    is_raw: false,
    has_registers: false,
    has_chain: false,
    stack_bytes: 0,
};
const RAW_ONLY: Fields = Fields { is_raw: true, ..PLAIN };
const CHAINS: Fields = Fields::chains(0);

fn with_header(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = body.len() as u16 + 8;
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
}

fn sample_bytes(sample: &Sample<'_>, fields: Fields) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(sample.ip.to_ne_bytes());
    body.extend(sample.pid.to_ne_bytes());
    body.extend(sample.tid.to_ne_bytes());
    body.extend(sample.time_ns.to_ne_bytes());
    body.extend(sample.cpu.to_ne_bytes());
    body.extend(0u32.to_ne_bytes());
    if fields.has_count {
        let words = [1, 1000, 900, sample.count.unwrap_or_default()];
        body.extend(words.into_iter().flat_map(u64::to_ne_bytes));
    }
    if fields.has_chain {
        body.extend((sample.chain.len() as u64 / 8).to_ne_bytes());
        body.extend(sample.chain);
    }
    if fields.is_raw {
        body.extend((sample.raw.len() as u32).to_ne_bytes());
        body.extend(sample.raw);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    if fields.has_registers {
        let of_user = |r: Registers| [&[ABI_64][..], &r[..8], &[sample.user_ip], &r[8..]].concat();
        let words = sample.registers.map_or(vec![0], of_user);
        body.extend(words.into_iter().flat_map(u64::to_ne_bytes));
    }
    if fields.stack_bytes > 0 {
        let room = if sample.registers.is_some() { fields.stack_bytes as usize } else { 0 };
        body.extend((room as u64).to_ne_bytes());
        body.extend(sample.stack);
        body.resize(body.len() + room - sample.stack.len(), 0);
        if room > 0 {
            body.extend((sample.stack.len() as u64).to_ne_bytes());
        }
    }
    with_header(SAMPLE, if sample.is_kernel { MODE_KERNEL } else { USER }, &body)
}

#[test]
fn records_are_read_in_order() {
    let raw = [1, 2, 3, 4, 5];
    let sample = Sample {
        ip: 0xffff_0000_1234_5678,
        is_kernel: true,
        pid: 7,
        tid: 8,
        time_ns: 9,
        cpu: 3,
        count: None,
        raw: &raw,
        registers: None,
        user_ip: 0,
        stack: &[],
        chain: &[],
    };
    let lost = with_header(LOST, 0, &[5u64.to_ne_bytes(), 77u64.to_ne_bytes()].concat());
    let exit = with_header(4, 0, &[0; 24]);
    let bytes = [sample_bytes(&sample, RAW_ONLY), lost, exit].concat();
    let found: Vec<_> = records(&bytes, RAW_ONLY).collect();
    assert_eq!(found, [Record::Sample(sample), Record::Lost(77), Record::Other(4)]);
    let sample = Sample { raw: &[], is_kernel: false, ..sample };
    let bytes = sample_bytes(&sample, PLAIN);
    assert_eq!(records(&bytes, PLAIN).collect::<Vec<_>>(), [Record::Sample(sample)]);
}

#[test]
fn registers_follow_the_raw_record() {
    let fields = Fields { is_raw: true, has_registers: true, ..PLAIN };
    let registers = Some(std::array::from_fn(|number| 1000 + number as u64));
    let sample = Sample { ip: 1, raw: &[1, 2, 3, 4], registers, ..Sample::default() };
    let of_kernel_thread = Sample { registers: None, ..sample };
    let bytes = [sample_bytes(&sample, fields), sample_bytes(&of_kernel_thread, fields)].concat();
    let found: Vec<_> = records(&bytes, fields).collect();
    assert_eq!(found, [Record::Sample(sample), Record::Sample(of_kernel_thread)]);
}

#[test]
fn the_count_precedes_the_call_chain() {
    let fields = Fields { has_count: true, has_chain: true, ..PLAIN };
    let chain = 0x1000u64.to_ne_bytes();
    let sample = Sample { ip: 1, count: Some(77), chain: &chain, ..Sample::default() };
    let bytes = sample_bytes(&sample, fields);
    assert_eq!(records(&bytes, fields).collect::<Vec<_>>(), [Record::Sample(sample)]);
    // A record that ends within the count.
    let cut = with_header(SAMPLE, USER, &bytes[8..8 + 32 + 24]);
    assert_eq!(records(&cut, fields).collect::<Vec<_>>(), [Record::Other(SAMPLE)]);
}

#[test]
fn the_stack_is_as_long_as_what_was_copied() {
    let fields = Fields::chains(64);
    let registers = Some(std::array::from_fn(|number| 1000 + number as u64));
    let stack = [7; 40];
    let sample = Sample { ip: 1, registers, user_ip: 77, stack: &stack, ..Sample::default() };
    let of_kernel_thread = Sample { registers: None, user_ip: 0, stack: &[], ..sample };
    let bytes = [sample_bytes(&sample, fields), sample_bytes(&of_kernel_thread, fields)].concat();
    let found: Vec<_> = records(&bytes, fields).collect();
    assert_eq!(found, [Record::Sample(sample), Record::Sample(of_kernel_thread)]);
}

#[test]
fn a_chain_is_read_with_the_mode_of_each_address() {
    let words = [CONTEXT_KERNEL, 0xffff_8000, 0xffff_9000, -512_i64 as u64, 0x1000, 0x2000];
    let chain: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
    let sample = Sample { is_kernel: true, chain: &chain, ..Sample::default() };
    let bytes = sample_bytes(&sample, CHAINS);
    let found: Vec<_> = records(&bytes, CHAINS).collect();
    let [Record::Sample(read)] = found.as_slice() else { panic!("{found:?}") };
    let expected = [(0xffff_8000, true), (0xffff_9000, true), (0x1000, false), (0x2000, false)];
    assert_eq!(read.chain().collect::<Vec<_>>(), expected);
}

#[test]
fn changes_of_processes_are_read() {
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    let trailer = words(&[7, 1234, 0]);
    let pair = |first: u32, second: u32| {
        let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    };
    let head = words(&[pair(7, 8), 0x4000, 0x1000, 0x2000, pair(254, 1), 99, 0, pair(5, 2)]);
    let mapped = [&head[..], b"/usr/bin/x\0\0\0\0\0\0", &trailer].concat();
    let named = [&words(&[pair(7, 7)])[..], b"worker\0\0", &trailer].concat();
    let started = [&words(&[pair(9, 7), pair(9, 7), 55])[..], &trailer].concat();
    let bytes =
        [with_header(10, 0, &mapped), with_header(3, 1 << 13, &named), with_header(7, 0, &started)];
    let bytes = bytes.concat();
    let found: Vec<_> = records(&bytes, CHAINS).collect();
    let mapping = Mapped {
        pid: 7,
        start: 0x4000,
        bytes: 0x1000,
        offset: 0x2000,
        device: (254, 1),
        inode: 99,
        path: b"/usr/bin/x",
        time_ns: 1234,
    };
    let name = b"worker";
    let named = Change::Named { pid: 7, tid: 7, name, is_exec: true, time_ns: 1234 };
    let started = Change::Started { pid: 9, parent: 7, tid: 9, time_ns: 1234 };
    let expected = [Change::Mapped(mapping), named, started].map(Record::Process);
    assert_eq!(found, expected);
}

#[test]
fn a_short_sample_is_not_a_sample() {
    let bytes = with_header(SAMPLE, 0, &[0; 24]);
    assert_eq!(records(&bytes, PLAIN).collect::<Vec<_>>(), [Record::Other(SAMPLE)]);
    // The raw bytes extend beyond the end of the record.
    let mut body = [0; 40];
    body[32..36].copy_from_slice(&u32::MAX.to_ne_bytes());
    let bytes = with_header(SAMPLE, 0, &body);
    assert_eq!(records(&bytes, RAW_ONLY).collect::<Vec<_>>(), [Record::Other(SAMPLE)]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        bytes in prop::collection::vec(any::<u8>(), 0..512),
        has_count: bool,
        is_raw: bool,
        has_registers: bool,
        has_chain: bool,
        stack_bytes in prop::sample::select(vec![0, 64]),
    ) {
        let fields = Fields { has_count, is_raw, has_registers, has_chain, stack_bytes };
        // Every record takes up at least its header.
        prop_assert!(records(&bytes, fields).count() <= bytes.len() / 8);
    }

    #[test]
    fn damaged_records_are_read_to_an_end(
        damage in prop::collection::vec((0usize..160, any::<u8>()), 0..8),
        has_count: bool,
        is_raw: bool,
        has_registers: bool,
        has_chain: bool,
        stack_bytes in prop::sample::select(vec![0, 64]),
    ) {
        let fields = Fields { has_count, is_raw, has_registers, has_chain, stack_bytes };
        let mut bytes = sample_bytes(&Sample::default(), fields).repeat(4);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        prop_assert!(records(&bytes, fields).count() <= bytes.len() / 8);
    }

    #[test]
    fn a_ring_is_read_in_the_order_of_positions(tail: u64, length in 0usize..=64) {
        let bytes: Vec<u64> = (0..length as u64).map(|at| tail.wrapping_add(at)).collect();
        let mut ring = [u64::MAX; 64];
        for &position in &bytes {
            ring[(position % 64) as usize] = position;
        }
        let pieces = pieces(tail, tail.wrapping_add(length as u64), 64);
        let read: Vec<u64> =
            pieces.iter().flat_map(|&(from, bytes)| ring[from..from + bytes].to_vec()).collect();
        prop_assert_eq!(read, bytes);
    }
}

#[test]
fn positions_further_apart_than_the_ring_give_nothing() {
    assert_eq!(pieces(0, 65, 64), [(0, 0); 2]);
    assert_eq!(pieces(9, 8, 64), [(0, 0); 2]);
}

/// Samples this thread every 0.2 ms of CPU time into a ring of 1 page. Samples that do not fit are
/// counted.
#[test]
fn the_own_thread_is_sampled_and_what_is_lost_is_counted() {
    let request = Request { exclude_kernel: true, disabled: false, ..Request::new(CPU_CLOCK) };
    let sampling = Sampling { period: 100_000, fields: PLAIN, skips_idle: false };
    let opened = open(&request, &sampling, Target::CurrentThread);
    let Ok(event) = opened else {
        println!("SKIP: software events are refused");
        return;
    };
    let Ok(mut ring) = Ring::map(&event, 1, PLAIN) else {
        println!("SKIP: locking memory is not permitted");
        return;
    };
    let tid = crate::thread_id();
    let (mut samples, mut lost, mut drained) = (0u64, 0u64, 0u64);
    let mut drain = |ring: &mut Ring| {
        drained += 1;
        ring.drain(|record| match record {
            Record::Sample(sample) => {
                assert_eq!((sample.tid, sample.is_kernel), (tid, false));
                samples += 1;
            }
            Record::Lost(records) => lost += records,
            Record::Throttled | Record::Process(_) | Record::Other(_) => {}
        });
    };
    spin(&event, 60_000_000);
    drain(&mut ring);
    spin(&event, 80_000_000);
    drain(&mut ring);
    // One page holds 102 samples of 40 bytes each.
    assert!(samples > 100, "{samples} samples, {lost} lost");
    assert!(lost > 50, "{samples} samples, {lost} lost");
}

/// Keeps the thread busy until it has run for `until_ns` since `event` was opened.
fn spin(event: &Event, until_ns: u64) {
    let mut sum = 1u64;
    while event.read().unwrap().values()[0] < until_ns {
        for i in 0..20_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(i | 1));
        }
    }
}

#[test]
fn a_ring_has_at_least_the_bytes_that_were_asked_for() {
    let opened = open(
        &Request::new(CPU_CLOCK),
        &Sampling { period: 1_000_000_000, fields: PLAIN, skips_idle: false },
        Target::CurrentThread,
    );
    let of_bytes = |event: &Event, bytes| Ring::map_bytes(event, bytes, PLAIN);
    let Some(Ok(ring)) = opened.ok().map(|event| of_bytes(&event, 20_000)) else {
        println!("SKIP: software events or locking memory are not permitted");
        return;
    };
    // With pages of 4 or 16 KiB, and of 64 KiB.
    assert_eq!(ring.data_bytes, crate::page_bytes().max(32_768));
}
