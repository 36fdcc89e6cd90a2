// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simple implementation of the rules in `plugin/cpu.h`, with lists that are searched linearly.

/// Eviction policy, numbered as in a machine description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    Lru,
    Fifo,
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Writes {
    Allocate,
    Around,
    Through,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contents {
    Any,
    Inclusive,
    Exclusive,
    Victim,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sets: u64,
    pub(crate) ways: usize,
    pub(crate) block_bytes: u64,
    pub(crate) policy: Policy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) l1i: Shape,
    pub(crate) l1d: Shape,
    pub(crate) writes: Writes,
    pub(crate) l2: Option<(Shape, Contents)>,
    pub(crate) l3: Option<(Shape, Contents)>,
    pub(crate) itlb: Option<Shape>,
    pub(crate) dtlb: Option<Shape>,
    pub(crate) tlb2: Option<Shape>,
    pub(crate) page_bytes: u64,
}

/// Counters in the order of `enum counter`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts(pub(crate) [u64; 18]);

const LOADS: usize = 1;
const STORES: usize = 2;
const L1I_MISSES: usize = 3;
const L1D_LOAD_MISSES: usize = 4;
const L1D_STORE_MISSES: usize = 5;
const BEYOND: [(usize, usize); 2] = [(6, 7), (8, 9)];
const ITLB: (usize, usize) = (10, 12);
const DTLB: (usize, usize) = (11, 13);
const MEMORY_READS: usize = 14;
const MEMORY_WRITES: usize = 15;

/// Numbers of the present blocks, each with the times of insertion and last use.
#[derive(Clone, Debug)]
struct Array {
    shape: Shape,
    present: Vec<(u64, u64, u64)>,
    now: u64,
    random: u64,
}

impl Array {
    fn new(shape: Shape) -> Self {
        Self { shape, present: Vec::new(), now: 0, random: 1 }
    }

    fn block(&self, address: u64) -> u64 {
        address / self.shape.block_bytes
    }

    fn use_block(&mut self, block: u64) -> bool {
        self.now += 1;
        let found = self.present.iter_mut().find(|(present, ..)| *present == block);
        found.map(|(.., used)| *used = self.now).is_some()
    }

    fn insert(&mut self, block: u64) -> Option<u64> {
        self.now += 1;
        let Shape { sets, ways, policy, .. } = self.shape;
        let mut set: Vec<_> = self
            .present
            .iter()
            .copied()
            .filter(|(present, ..)| present % sets == block % sets)
            .collect();
        let mut leaves = None;
        if set.len() == ways {
            // Newest first.
            set.sort_by_key(|&(_, came, used)| {
                std::cmp::Reverse(if policy == Policy::Lru { used } else { came })
            });
            let place = if policy == Policy::Random { self.draw() } else { ways - 1 };
            leaves = Some(set[place].0);
        }
        self.present.retain(|(present, ..)| Some(*present) != leaves);
        self.present.push((block, self.now, self.now));
        leaves
    }

    fn remove(&mut self, block: u64) {
        self.present.retain(|(present, ..)| *present != block);
    }

    fn draw(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as usize % self.shape.ways
    }
}

/// A machine and its counts.
pub(crate) struct Reference {
    writes: Writes,
    l1i: Array,
    /// L1D, then the levels beyond.
    levels: Vec<(Array, Contents)>,
    itlb: Option<Array>,
    dtlb: Option<Array>,
    tlb2: Option<Array>,
    pub(crate) counts: Counts,
}

impl Reference {
    pub(crate) fn new(machine: &Machine) -> Self {
        let beyond = [machine.l2, machine.l3].into_iter().flatten();
        let levels = std::iter::once((machine.l1d, Contents::Any)).chain(beyond);
        Self {
            writes: machine.writes,
            l1i: Array::new(machine.l1i),
            levels: levels.map(|(shape, contents)| (Array::new(shape), contents)).collect(),
            itlb: machine.itlb.map(Array::new),
            dtlb: machine.dtlb.map(Array::new),
            tlb2: machine.tlb2.map(Array::new),
            counts: Counts::default(),
        }
    }

    pub(crate) fn load(&mut self, address: u64, bytes: u64) {
        self.counts.0[LOADS] += 1;
        self.data(address, bytes, false);
    }

    pub(crate) fn store(&mut self, address: u64, bytes: u64) {
        self.counts.0[STORES] += 1;
        self.data(address, bytes, true);
    }

    pub(crate) fn fetch(&mut self, first: u64, last: u64) {
        let bytes = self.l1i.shape.block_bytes;
        for line in first / bytes..=last / bytes {
            let address = line * bytes;
            translate(&mut self.itlb, &mut self.tlb2, &mut self.counts, ITLB, address);
            if !self.l1i.use_block(line) {
                self.counts.0[L1I_MISSES] += 1;
                self.bring(1, address);
                let leaves = self.l1i.insert(line);
                self.keep_victim(1, leaves);
            }
        }
    }

    fn data(&mut self, address: u64, bytes: u64, is_store: bool) {
        let line_bytes = self.levels[0].0.shape.block_bytes;
        for line in address / line_bytes..=(address + bytes - 1) / line_bytes {
            let address = line * line_bytes;
            translate(&mut self.dtlb, &mut self.tlb2, &mut self.counts, DTLB, address);
            let is_hit = self.levels[0].0.use_block(line);
            if !is_hit {
                self.counts.0[if is_store { L1D_STORE_MISSES } else { L1D_LOAD_MISSES }] += 1;
            }
            if !is_hit && (!is_store || self.writes == Writes::Allocate) {
                self.bring(1, address);
                let leaves = self.levels[0].0.insert(line);
                self.keep_victim(1, leaves);
            }
            let goes_on = !is_hit && self.writes != Writes::Allocate;
            if is_store && (goes_on || self.writes == Writes::Through) {
                match self.levels.len() {
                    1 => self.counts.0[MEMORY_WRITES] += 1,
                    _ => self.write(address),
                }
            }
        }
    }

    /// Writes a line that L1D does not keep to L2.
    fn write(&mut self, address: u64) {
        let (array, contents) = &mut self.levels[1];
        let (contents, block) = (*contents, array.block(address));
        self.counts.0[BEYOND[0].0] += 1;
        if array.use_block(block) {
            return;
        }
        self.counts.0[BEYOND[0].1] += 1;
        self.bring(2, address);
        let leaves = self.levels[1].0.insert(block);
        if contents == Contents::Inclusive {
            self.remove_before(1, leaves);
        }
        self.keep_victim(2, leaves);
    }

    fn bring(&mut self, level: usize, address: u64) {
        let Some((array, contents)) = self.levels.get_mut(level) else {
            self.counts.0[MEMORY_READS] += 1;
            return;
        };
        let (contents, block) = (*contents, array.block(address));
        let (accesses, misses) = BEYOND[level - 1];
        self.counts.0[accesses] += 1;
        if array.use_block(block) {
            if contents == Contents::Exclusive {
                array.remove(block);
            }
            return;
        }
        self.counts.0[misses] += 1;
        self.bring(level + 1, address);
        if matches!(contents, Contents::Any | Contents::Inclusive) {
            let leaves = self.levels[level].0.insert(block);
            if contents == Contents::Inclusive {
                self.remove_before(level, leaves);
            }
            self.keep_victim(level + 1, leaves);
        }
    }

    fn remove_before(&mut self, level: usize, block: Option<u64>) {
        let Some(block) = block else { return };
        let bytes = self.levels[level].0.shape.block_bytes;
        let before = self.levels[..level].iter_mut().map(|(array, _)| array);
        for array in before.chain([&mut self.l1i]) {
            let line_bytes = array.shape.block_bytes;
            array.present.retain(|(line, ..)| line * line_bytes / bytes != block);
        }
    }

    fn keep_victim(&mut self, level: usize, block: Option<u64>) {
        let (Some(block), Some((array, contents))) = (block, self.levels.get_mut(level)) else {
            return;
        };
        if matches!(contents, Contents::Exclusive | Contents::Victim) && !array.use_block(block) {
            let leaves = array.insert(block);
            self.keep_victim(level + 1, leaves);
        }
    }
}

fn translate(
    first: &mut Option<Array>,
    second: &mut Option<Array>,
    counts: &mut Counts,
    (misses, walks): (usize, usize),
    address: u64,
) {
    let Some(first) = first else { return };
    let page = first.block(address);
    if first.use_block(page) {
        return;
    }
    counts.0[misses] += 1;
    let is_second = second.as_mut().is_some_and(|second| {
        let is_there = second.use_block(page);
        if !is_there {
            second.insert(page);
        }
        is_there
    });
    counts.0[walks] += u64::from(!is_second);
    first.insert(page);
}
