// SPDX-License-Identifier: MIT OR Apache-2.0
//! `nat44`: traditional NAPT (RFC 3022) of IPv4 TCP, UDP and ICMP.
//!
//! ## Behaviour, in the terminology of RFC 4787, 5382 and 5508
//! - Endpoint-independent mapping: an inside address and port get one outside address and port,
//!   whatever the destination.
//! - Endpoint-independent filtering: any host may send to a mapped port. This includes TCP;
//!   no TCP state is kept.
//! - Paired pooling: all ports of an inside address map to the same outside address.
//! - No port preservation or parity; outside ports are 1024 to 65535.
//! - No timers: a mapping lives until its port is needed. When the ports of its group (below) are
//!   used up, the mapping that has gone unused from inside for the longest time is evicted (`full =
//!   "evict"`) or the new mapping is rejected (`full = "drop"`).
//! - No hairpinning: packets from inside addresses to the pool are dropped with a cause.
//! - ICMP: the identifiers of echo and timestamp queries are mapped like ports; in "unreachable",
//!   "time exceeded" and "parameter problem" messages, both the outer packet and the packet they
//!   quote are translated; the transport checksum of the quoted packet is not checked (RFC 5508,
//!   REQ-3).
//! - Fragments from inside are all translated, in any order: a later fragment needs no port, since
//!   the inside address determines the outside one. Fragments addressed to the pool would need
//!   reassembly and are dropped, contrary to REQ-14 of RFC 4787.
//! - Checksums are updated incrementally, so a wrong one stays wrong. A UDP checksum of zero stays
//!   zero; one that comes out as zero is sent as 0xffff (RFC 768).
//!
//! ## Replicas without locks
//! Each packet to be translated belongs to one RSS bucket, and each bucket to one replica:
//!
//! ```text
//! from inside:   hash(inside address)               an ICMP error: of the inside address it quotes
//! to the pool:   destination port mod BUCKETS       an ICMP error: of the source port it quotes
//! ```
//!
//! An inside address in bucket b gets only ports p with p mod BUCKETS = b, so return traffic
//! reaches the replica that has the mapping. Ports are allocated by bucket, outside address and
//! protocol (a group), in an order that does not depend on any packet outside the group. The output
//! is therefore identical, byte for byte, for any distribution of buckets over replicas.
//!
//! If the source put a packet into a different bucket from the one that this stage computes from
//! the packet's addresses, for example because an earlier stage rewrote them, the packet is dropped
//! as `misdirected`.

mod table;
mod way;

use crate::headers::{self, array_mut, be16, be32, protocol};
use crate::params::{Prefix4, Reader, fail};
use linerate_stage_api::Layers;
use linerate_stage_api::causes;
use linerate_stage_api::kernels::Sum;
use linerate_stage_api::kernels::checksum::{self, Change};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Burst, Stage, StageContext, StageKind, Steer};
use std::sync::Arc;
use table::{Endpoint, Outbound, Table};
use way::{Group, Refusal, Transport, Way};

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    /// Addressed to an unmapped port of the pool.
    NoMapping = "no_mapping",
    /// No outside port is free, and none may be evicted.
    NoPorts = "no_ports",
    /// A fragment addressed to the pool.
    Fragment = "fragment",
    /// From an inside address to the pool.
    Hairpin = "hairpin",
    /// A protocol, ICMP type or quoted packet that NAPT cannot translate.
    NotTranslatable = "not_translatable",
    /// The source put the packet into a different bucket from the one that this stage computes from
    /// the packet's addresses.
    Misdirected = "misdirected",
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Cut => Self::Unparsed,
            Refusal::Fragment => Self::Fragment,
            Refusal::Hairpin => Self::Hairpin,
            Refusal::NotTranslatable => Self::NotTranslatable,
        }
    }
}

pub(crate) const KIND: StageKind = StageKind {
    spec: StageSpec {
        kind: "nat44",
        help: "Translate inside IPv4 addresses and ports to a pool, and back (NAPT).",
        params: &[
            ParamSpec {
                name: "inside",
                kind: ParamKind::Text,
                default: Default::Required,
                help: "Prefix of the inside addresses to translate.",
            },
            ParamSpec {
                name: "outside",
                kind: ParamKind::Text,
                default: Default::Required,
                help: "Address of the pool, or prefix of up to 16 addresses (/28).",
            },
            ParamSpec {
                name: "flows",
                kind: ParamKind::Integer { min: 128, max: 16 * 64_512 },
                default: Default::Integer(64_512),
                help: "Maximum number of mappings per protocol; a pool address has 64512 ports.",
            },
            ParamSpec {
                name: "full",
                kind: ParamKind::Word(&["evict", "drop"]),
                default: Default::Text("evict"),
                help: "When ports run out: evict the least recently used mapping, or drop the new \
                       packet.",
            },
        ],
        needs_headers: true,
        state: State::PerFlow,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    build: |params, _| Ok(Box::new(Nat44::new(Reader(params))?)),
    steer: |params| Ok(Some(Arc::new(Realm::new(Reader(params))?))),
};

/// The inside prefix and the pool of outside addresses.
#[derive(Clone, Copy, Debug)]
struct Realm {
    inside: Prefix4,
    pool: Prefix4,
}

/// Maximum number of addresses in the pool. It limits the memory of a replica.
const MAX_POOL_ADDRESSES: u32 = 16;

impl Realm {
    fn new(params: Reader<'_>) -> Result<Self, BuildError> {
        let inside: Prefix4 = params.parsed("inside")?;
        let pool: Prefix4 = params.parsed("outside")?;
        if pool.last() - pool.address >= MAX_POOL_ADDRESSES {
            return Err(fail("outside", "more than 16 addresses; use /28 or longer".into()));
        }
        if inside.contains(pool.address) || pool.contains(inside.address) {
            return Err(fail("outside", "overlaps `inside`; use other addresses".into()));
        }
        Ok(Self { inside, pool })
    }

    fn pool_addresses(&self) -> u32 {
        self.pool.last() - self.pool.address + 1
    }
}

impl Steer for Realm {
    fn bucket(&self, frame: &[u8]) -> Option<u8> {
        let layers = headers::walk(frame).ok()?;
        match self.way(frame, &layers).ok()? {
            Way::Untouched => None,
            Way::Out { group, .. } | Way::In { group, .. } => Some(group.bucket),
        }
    }
}

struct Nat44 {
    realm: Realm,
    /// `inside` and `outside` as written in the path file.
    prefixes: [String; 2],
    table: Table,
    evict: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    untouched: u64,
    outbound: u64,
    inbound: u64,
    made: u64,
    evicted: u64,
}

impl Stage for Nat44 {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let (layers, bucket) = (packet.meta().layers, packet.meta().bucket);
            Cause::judge(self.translate(packet.bytes_mut(), &layers, bucket))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("untouched", self.counts.untouched),
            ("outbound", self.counts.outbound),
            ("inbound", self.counts.inbound),
            ("mappings_made", self.counts.made),
            ("mappings_evicted", self.counts.evicted),
        ]
    }

    fn idle(&self, packets: u64) -> Option<String> {
        let [inside, outside] = &self.prefixes;
        (self.counts.untouched == packets).then(|| {
            format!(
                "`inside` = {inside} matches no source address, and `outside` = {outside} matches \
                 no destination address"
            )
        })
    }
}

impl Nat44 {
    fn new(params: Reader<'_>) -> Result<Self, BuildError> {
        let realm = Realm::new(params)?;
        Ok(Self {
            realm,
            prefixes: [params.text("inside")?.to_owned(), params.text("outside")?.to_owned()],
            table: Table::new(realm.pool_addresses(), params.integer("flows")?),
            evict: params.text("full")? == "evict",
            counts: Counts::default(),
        })
    }

    #[inline]
    fn translate(&mut self, frame: &mut [u8], layers: &Layers, bucket: u8) -> Result<(), Cause> {
        if layers.ip_version == 0 {
            return Err(Cause::Unparsed);
        }
        match self.realm.way(frame, layers)? {
            Way::Untouched => {
                self.counts.untouched += 1;
                Ok(())
            }
            Way::Out { group, .. } | Way::In { group, .. } if group.bucket != bucket => {
                Err(Cause::Misdirected)
            }
            Way::Out { group, address, port, quoted } => {
                let outside = self.realm.pool.address + group.pool_index;
                let inside = port.map(|port| Endpoint { address, port });
                self.outbound(frame, layers, group, inside, quoted, outside)?;
                self.counts.outbound += 1;
                Ok(())
            }
            Way::In { group, port, quoted } => {
                let inside = self.table.owner(group, port).ok_or(Cause::NoMapping)?;
                let port = Some((group.transport, inside.port));
                inbound(frame, layers, inside.address, port, quoted)?;
                self.counts.inbound += 1;
                Ok(())
            }
        }
    }

    /// Translates the source of a packet from inside to `outside` and a mapped port. `inside` is
    /// `None` for a later fragment, of which only the address is translated.
    #[inline]
    fn outbound(
        &mut self,
        frame: &mut [u8],
        layers: &Layers,
        group: Group,
        inside: Option<Endpoint>,
        quoted: Option<u16>,
        outside: u32,
    ) -> Result<(), Cause> {
        let port = match (inside, quoted) {
            (None, _) => None,
            (Some(inside), None) => Some((group.transport, self.map(group, inside)?)),
            (Some(inside), Some(quoted)) => {
                let port = self.table.find(group, inside).ok_or(Cause::NoMapping)?;
                // The quoted packet came from outside; this mapping was its destination.
                let port = Some((group.transport, port));
                rewrite_quote(frame, layers, quoted, Side::Destination, outside, port)?;
                None
            }
        };
        let (l3, l4) = (layers.l3.into(), layers.l4.into());
        rewrite(frame, l3, l4, Side::Source, outside, port).ok_or(Cause::Unparsed)
    }

    /// Returns the outside port of an inside endpoint, allocating one if needed.
    #[inline]
    fn map(&mut self, group: Group, inside: Endpoint) -> Result<u16, Cause> {
        match self.table.map(group, inside, self.evict) {
            Outbound::Known(port) => Ok(port),
            Outbound::Made(port) => {
                self.counts.made += 1;
                Ok(port)
            }
            Outbound::Evicted(port) => {
                self.counts.made += 1;
                self.counts.evicted += 1;
                Ok(port)
            }
            Outbound::Full => Err(Cause::NoPorts),
        }
    }
}

#[inline]
fn inbound(
    frame: &mut [u8],
    layers: &Layers,
    inside: u32,
    mut port: NewPort,
    quoted: Option<u16>,
) -> Result<(), Cause> {
    if let Some(quoted) = quoted {
        // The quoted packet came from inside; this mapping was its source.
        rewrite_quote(frame, layers, quoted, Side::Source, inside, port.take())?;
    }
    let (l3, l4) = (layers.l3.into(), layers.l4.into());
    rewrite(frame, l3, l4, Side::Destination, inside, port).ok_or(Cause::Unparsed)
}

/// The source or the destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

impl Side {
    /// Returns the offset of the address in an IPv4 header.
    fn address_at(self) -> usize {
        if self == Self::Source { 12 } else { 16 }
    }
}

/// Transport protocol, and the port or ICMP identifier to write; `None` to leave the port
/// unchanged.
type NewPort = Option<(Transport, u16)>;

/// Writes `address` and, if given, `port` to one side of the packet at `l3`, and updates the
/// checksums that cover them. A quoted packet may end before its transport checksum, which is then
/// skipped. Returns `None` if the packet ends before one of the other fields.
///
/// In a TCP or UDP fragment without ports, only the address changes: the transport checksum that
/// covers it is in the first fragment.
#[inline]
fn rewrite(
    packet: &mut [u8],
    l3: usize,
    l4: usize,
    side: Side,
    address: u32,
    port: NewPort,
) -> Option<()> {
    let header: &mut [u8; 20] = array_mut(packet, l3)?;
    let at = side.address_at();
    let mut change = Change::default();
    change.long(be32(header, at), address);
    header[at..at + 4].copy_from_slice(&address.to_be_bytes());
    let sum = change.apply(be16(header, 10));
    header[10..12].copy_from_slice(&sum.to_be_bytes());

    let Some((transport, port)) = port else {
        return Some(());
    };
    if transport == Transport::Icmp {
        // ICMP has no pseudo-header, so its checksum does not cover the address.
        change = Change::default();
    }
    let segment = packet.get_mut(l4..)?;
    let field: &mut [u8; 2] = array_mut(segment, transport.port_at(side))?;
    change.word(u16::from_be_bytes(*field), port);
    *field = port.to_be_bytes();
    let Some(field) = array_mut::<2>(segment, transport.checksum_at()) else {
        return Some(());
    };
    let old = u16::from_be_bytes(*field);
    let new = match (transport, change.apply(old)) {
        (Transport::Udp, _) if old == 0 => 0,
        (Transport::Udp, 0) => 0xffff,
        (_, new) => new,
    };
    *field = new.to_be_bytes();
    Some(())
}

/// Translates one side of the packet that an ICMP error quotes at offset `quoted` of the frame, and
/// updates the error's checksum.
fn rewrite_quote(
    frame: &mut [u8],
    layers: &Layers,
    quoted: u16,
    side: Side,
    address: u32,
    port: NewPort,
) -> Result<(), Cause> {
    let (l4, end) = (usize::from(layers.l4), usize::from(layers.l3_end));
    let (error, quote) = frame
        .get_mut(l4..end)
        .and_then(|message| message.split_at_mut_checked(usize::from(quoted) - l4))
        .ok_or(Cause::Unparsed)?;
    let header_bytes = usize::from(quote.first().ok_or(Cause::Unparsed)? & 0x0f) * 4;
    let header = quote.get(..header_bytes).ok_or(Cause::Unparsed)?;
    if checksum::header(header, Sum::ZERO).fold() != 0xffff {
        // Drop errors that quote a packet with a wrong header checksum (RFC 5508, REQ-3 a).
        return Err(Cause::NotTranslatable);
    }
    // The rewrite affects only the IP header and at most 20 bytes of the transport header, which
    // include the TCP checksum.
    let touched = quote.len().min(header_bytes + 20);
    let before = checksum::header(&quote[..touched], Sum::ZERO).fold();
    rewrite(quote, 0, header_bytes, side, address, port).ok_or(Cause::Unparsed)?;
    let after = checksum::header(&quote[..touched], Sum::ZERO).fold();
    let field: &mut [u8; 2] = array_mut(error, 2).ok_or(Cause::Unparsed)?;
    let mut change = Change::default();
    change.word(before, after);
    *field = change.apply(u16::from_be_bytes(*field)).to_be_bytes();
    Ok(())
}

/// Returns whether an ICMP type is a query with an identifier: echo or timestamp request (RFC 792).
fn is_query(icmp_type: u8) -> bool {
    matches!(icmp_type, 8 | 13)
}

/// Returns whether an ICMP type is a reply with an identifier: echo or timestamp reply (RFC 792).
fn is_reply(icmp_type: u8) -> bool {
    matches!(icmp_type, 0 | 14)
}

/// Returns whether an ICMP type is an error that quotes a packet and may be forwarded: destination
/// unreachable, time exceeded, parameter problem.
fn is_error(icmp_type: u8) -> bool {
    matches!(icmp_type, 3 | 11 | 12)
}

impl Transport {
    fn from_protocol(protocol: u8) -> Option<Self> {
        match protocol {
            protocol::TCP => Some(Self::Tcp),
            protocol::UDP => Some(Self::Udp),
            protocol::ICMP => Some(Self::Icmp),
            _ => None,
        }
    }

    /// Returns the offset of this side's port in the transport header. For ICMP, returns the offset
    /// of the identifier, which serves as both ports.
    fn port_at(self, side: Side) -> usize {
        match (self, side) {
            (Self::Icmp, _) => 4,
            (_, Side::Source) => 0,
            (_, Side::Destination) => 2,
        }
    }

    fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
            Self::Icmp => 2,
        }
    }
}
