// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappings from outside ports to the inside endpoints that own them.
//!
//! Each group of ports (bucket, pool address, protocol) has its own small table: an array of
//! owners, one per port, and a hash index from inside endpoints to positions in the array. An
//! outside port's owner is found without a search, and groups do not affect each other. All memory
//! is allocated up front. A lookup from inside touches one cache line of the index and one of the
//! owners.
//!
//! ```text
//! port = 1024 + bucket + BUCKETS * position
//! index: open addressing, linear probing, at most half full; 0 is empty, else position + 1
//! ```
//!
//! Positions are allocated in ascending order. Once all are taken, the least recently used port is
//! evicted, which takes a scan over at most 504 owners.

use super::way::{Group, TRANSPORTS};
use linerate_stage_api::BUCKETS;

/// First allocatable port, a multiple of [`BUCKETS`]. Ports below it are system ports (RFC 6335).
const FIRST_PORT: u16 = 1024;
/// Number of ports per bucket, pool address and protocol.
const PORTS_PER_GROUP: usize = (65536 - FIRST_PORT as usize) / BUCKETS;

/// An inside address and port (or ICMP identifier).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: u32,
    pub(super) port: u16,
}

#[derive(Clone, Copy, Default)]
struct Owner {
    inside: Endpoint,
    /// [`Table::now`] at the port's last use by a packet from inside; 0 if the port was never used.
    used_at: u64,
}

/// Result of looking up, and if necessary creating, the mapping of an inside endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outbound {
    /// The endpoint already had a mapping, with this port.
    Known(u16),
    /// A mapping was created on this free port.
    Made(u16),
    /// A mapping was created on this port, after its previous mapping was evicted.
    Evicted(u16),
    /// No port is free, and eviction is off.
    Full,
}

/// All mappings of one replica.
pub(super) struct Table {
    pool_addresses: usize,
    /// Number of usable ports per group.
    ports: usize,
    /// Number of outbound packets so far, which serves as logical time for finding the least
    /// recently used port. Only the order of uses within a group matters, not the value.
    now: u64,
    /// Number of positions allocated per group; `ports` if all are taken.
    taken: Vec<u16>,
    /// Port owners, `ports` per group.
    owners: Vec<Owner>,
    /// Index slots, `1 << index_bits` per group.
    index: Vec<u16>,
    index_bits: u32,
}

impl Table {
    /// Creates a table for `flows` mappings per protocol, or fewer if the pool has too few ports.
    pub(super) fn new(pool_addresses: u32, flows: usize) -> Self {
        let pool_addresses = pool_addresses as usize;
        let ports = flows.div_ceil(BUCKETS * pool_addresses).min(PORTS_PER_GROUP);
        let index_bits = (2 * ports).next_power_of_two().ilog2();
        let groups = BUCKETS * pool_addresses * TRANSPORTS;
        Self {
            pool_addresses,
            ports,
            now: 0,
            taken: vec![0; groups],
            owners: vec![Owner::default(); groups * ports],
            index: vec![0; groups << index_bits],
            index_bits,
        }
    }

    fn number(&self, group: Group) -> usize {
        let address = usize::from(group.bucket) * self.pool_addresses + group.pool_index as usize;
        address * TRANSPORTS + group.transport as usize
    }

    /// Returns the outside port of `inside`. If it has none, allocates a free port or, if `evict`
    /// is set and none is free, evicts the least recently used one.
    #[inline]
    pub(super) fn map(&mut self, group: Group, inside: Endpoint, evict: bool) -> Outbound {
        let g = self.number(group);
        self.now += 1;
        let now = self.now;
        if let Some(position) = self.position(g, inside) {
            self.owners[g * self.ports + position].used_at = now;
            return Outbound::Known(port(group, position));
        }
        let taken = usize::from(self.taken[g]);
        let (position, outcome): (_, fn(u16) -> Outbound) = if taken < self.ports {
            self.taken[g] += 1;
            (taken, Outbound::Made)
        } else if evict {
            let position = self.least_recent(g);
            self.unlink(g, self.owners[g * self.ports + position].inside);
            (position, Outbound::Evicted)
        } else {
            return Outbound::Full;
        };
        self.owners[g * self.ports + position] = Owner { inside, used_at: now };
        self.link(g, inside, position);
        outcome(port(group, position))
    }

    /// Returns the outside port of `inside`, if it has one. Does not count as use.
    pub(super) fn find(&self, group: Group, inside: Endpoint) -> Option<u16> {
        self.position(self.number(group), inside).map(|position| port(group, position))
    }

    /// Returns the owner of outside port `port` in `group`.
    #[inline]
    pub(super) fn owner(&self, group: Group, port: u16) -> Option<Endpoint> {
        let position = usize::from(port.checked_sub(FIRST_PORT)?) / BUCKETS;
        if position >= self.ports {
            return None;
        }
        let owner = self.owners[self.number(group) * self.ports + position];
        (owner.used_at > 0).then_some(owner.inside)
    }

    fn least_recent(&self, g: usize) -> usize {
        let owners = &self.owners[g * self.ports..][..self.ports];
        let least = owners.iter().enumerate().min_by_key(|(_, owner)| owner.used_at);
        least.map_or(0, |(position, _)| position)
    }

    /// Returns the slot of the index at which linear probing for `inside` starts.
    #[inline]
    fn home(&self, inside: Endpoint) -> usize {
        let key = u64::from(inside.address) << 16 | u64::from(inside.port);
        // Fibonacci hashing of address and port. All addresses in one group hash to the same bucket
        // and pool address.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.index_bits)) as usize
    }

    fn slots(&self, g: usize) -> &[u16] {
        &self.index[g << self.index_bits..][..1 << self.index_bits]
    }

    /// Returns the slot of `inside` and its position, or the empty slot where it belongs. The
    /// search terminates because at most half of the slots are taken.
    #[inline]
    fn slot(&self, g: usize, inside: Endpoint) -> (usize, Option<usize>) {
        let slots = self.slots(g);
        let owners = &self.owners[g * self.ports..][..self.ports];
        let mut slot = self.home(inside);
        loop {
            match usize::from(slots[slot]).checked_sub(1) {
                None => return (slot, None),
                Some(position) if owners[position].inside == inside => {
                    return (slot, Some(position));
                }
                Some(_) => slot = (slot + 1) & (slots.len() - 1),
            }
        }
    }

    #[inline]
    fn position(&self, g: usize, inside: Endpoint) -> Option<usize> {
        self.slot(g, inside).1
    }

    fn link(&mut self, g: usize, inside: Endpoint, position: usize) {
        // The owner has been written already, so search for an empty slot rather than the endpoint.
        let mut slot = self.home(inside);
        let last = (1 << self.index_bits) - 1;
        while self.slots(g)[slot] != 0 {
            slot = (slot + 1) & last;
        }
        self.index[(g << self.index_bits) + slot] = position as u16 + 1;
    }

    /// Removes `inside` from the index and closes the gap, so that later searches do not end early
    /// (Knuth, TAOCP volume 3, 6.4, algorithm R).
    fn unlink(&mut self, g: usize, inside: Endpoint) {
        let (mut gap, Some(_)) = self.slot(g, inside) else {
            return;
        };
        let (first, last) = (g << self.index_bits, (1 << self.index_bits) - 1);
        let mut slot = gap;
        loop {
            slot = (slot + 1) & last;
            let Some(position) = usize::from(self.index[first + slot]).checked_sub(1) else {
                break;
            };
            let home = self.home(self.owners[g * self.ports + position].inside);
            // Move the entry into the gap unless its home slot is cyclically within (gap, slot].
            if (slot.wrapping_sub(home) & last) >= (slot.wrapping_sub(gap) & last) {
                self.index[first + gap] = self.index[first + slot];
                gap = slot;
            }
        }
        self.index[first + gap] = 0;
    }
}

fn port(group: Group, position: usize) -> u16 {
    // At most 1024 + 127 + 128 * 503 = 65535.
    FIRST_PORT + u16::from(group.bucket) + (position * BUCKETS) as u16
}
