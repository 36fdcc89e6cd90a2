// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queueing disciplines and their counters (rtnetlink).

use super::netlink::{attribute, dump};
use super::{Network, text, u32_at, u64_at};
use crate::Error;

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_GETTCLASS: u16 = 42;

/// Length of `tcmsg`.
const MESSAGE: usize = 20;

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATS: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_PACKETS: u16 = 8;
const TBF_PARAMETERS: u16 = 1;
const TBF_RATE: u16 = 4;
const HTB_PARAMETERS: u16 = 1;
const HTB_CEILING: u16 = 7;
const CAKE_RATE: u16 = 2;
const NETEM_RATE: u16 = 6;
const NETEM_WIDE_RATE: u16 = 8;
const NETEM_WIDE_DELAY: u16 = 10;
/// Length of `tc_netem_qopt`, which precedes the attributes of `netem`.
const NETEM_PARAMETERS: usize = 24;
/// Nanoseconds per tick of the packet scheduler (PSCHED_SHIFT).
const TICK_NS: u64 = 64;

/// TC_H_ROOT: the parent of root qdiscs.
const ROOT: u32 = u32::MAX;

/// Snapshot of a qdisc's state. Counters start when the qdisc is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Interface index.
    pub interface: u32,
    /// Qdisc kind, such as `tbf`.
    pub kind: String,
    /// Handle, with the major number in the upper 16 bits.
    pub handle: u32,
    /// Parent handle and class; 0xffffffff for the root, 0xfffffff1 for ingress.
    pub parent: u32,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent. Wraps at 32 bits before Linux 5.5.
    pub packets: u64,
    /// Packets dropped. Wraps at 32 bits.
    pub drops: u32,
    /// Overlimits: how often a packet had to wait. Wraps at 32 bits.
    pub overlimits: u32,
    /// Packets requeued because the driver did not accept them. Wraps at 32 bits.
    pub requeues: u32,
    /// Packets queued.
    pub queued_packets: u32,
    /// Bytes queued.
    pub queued_bytes: u32,
    /// Rate limit of `tbf`, `cake` or `netem`, bytes per second. [`Network::rate_of`] includes
    /// `htb`.
    pub rate: Option<u64>,
    /// Time for which `netem` delays each packet on average, in nanoseconds.
    pub delay_ns: Option<u64>,
}

/// An `htb` class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HtbClass {
    /// Class ID, with the qdisc's handle in the upper 16 bits.
    handle: u32,
    /// Whether the class is a root class.
    is_outermost: bool,
    /// Ceiling rate, bytes per second.
    ceiling: u64,
}

impl Qdisc {
    /// Parses `tcmsg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let attributes = body.get(MESSAGE..)?;
        let kind = text(attribute(attributes, KIND)?);
        let stats = attribute(attributes, STATS).unwrap_or_default();
        let part = |kind| attribute(stats, kind).unwrap_or_default();
        let (basic, queue) = (part(STATS_BASIC), part(STATS_QUEUE));
        let queue = |index: usize| u32_at(queue, 4 * index).unwrap_or(0);
        let packets =
            u64_at(part(STATS_PACKETS), 0).or_else(|| u32_at(basic, 8).map(u64::from)).unwrap_or(0);
        let options = attribute(attributes, OPTIONS).unwrap_or_default();
        Some(Self {
            interface: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            bytes: u64_at(basic, 0).unwrap_or(0),
            packets,
            queued_packets: queue(0),
            queued_bytes: queue(1),
            drops: queue(2),
            requeues: queue(3),
            overlimits: queue(4),
            rate: limit(&kind, options),
            delay_ns: (kind == "netem").then(|| delay_ns(options)).flatten(),
            kind,
        })
    }
}

/// Returns the rate limit of a qdisc without classes, in bytes per second.
fn limit(kind: &str, options: &[u8]) -> Option<u64> {
    let limit = match kind {
        "tbf" => rate(options, TBF_PARAMETERS, TBF_RATE, 0),
        "cake" => u64_at(attribute(options, CAKE_RATE)?, 0),
        "netem" => {
            let attributes = options.get(NETEM_PARAMETERS..)?;
            let wide = attribute(attributes, NETEM_WIDE_RATE).and_then(|bytes| u64_at(bytes, 0));
            // `tc_netem_rate` begins with the rate.
            wide.or_else(|| u32_at(attribute(attributes, NETEM_RATE)?, 0).map(u64::from))
        }
        _ => None,
    };
    limit.filter(|limit| *limit > 0)
}

/// Returns the mean delay of `netem`: from the attribute in nanoseconds (Linux 4.16), otherwise
/// from the first field of the parameters, in ticks.
fn delay_ns(options: &[u8]) -> Option<u64> {
    let wide = attribute(options.get(NETEM_PARAMETERS..)?, NETEM_WIDE_DELAY);
    let narrow = || u32_at(options, 0).map(|ticks| TICK_NS * u64::from(ticks));
    wide.and_then(|bytes| u64_at(bytes, 0)).or_else(narrow).filter(|delay| *delay > 0)
}

impl HtbClass {
    /// Parses `tcmsg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let attributes = body.get(MESSAGE..)?;
        if text(attribute(attributes, KIND)?) != "htb" {
            return None;
        }
        let options = attribute(attributes, OPTIONS)?;
        Some(Self {
            handle: u32_at(body, 8)?,
            is_outermost: u32_at(body, 12)? == ROOT,
            // `tc_htb_opt` begins with the rate's ratespec, followed by the ceiling's.
            ceiling: rate(options, HTB_PARAMETERS, HTB_CEILING, 12)?,
        })
    }
}

/// Returns the rate limit of an `htb` qdisc, given the classes of its interface, in bytes per
/// second: the sum of the ceiling rates of its outermost classes. `None` if it has none.
fn limit_of_classes(qdisc: &Qdisc, classes: &[HtbClass]) -> Option<u64> {
    let is_own = |handle: u32| handle >> 16 == qdisc.handle >> 16;
    let outermost = classes.iter().filter(|class| class.is_outermost && is_own(class.handle));
    let sum = outermost.fold(0_u64, |sum, class| sum.saturating_add(class.ceiling));
    (sum > 0).then_some(sum)
}

/// Returns a rate in bytes per second: the 64-bit attribute if there is one (from 4 GiB/s up),
/// otherwise the last field of the `tc_ratespec` at offset `at` in the parameters.
fn rate(options: &[u8], parameters: u16, wide: u16, at: usize) -> Option<u64> {
    let wide = attribute(options, wide).and_then(|bytes| u64_at(bytes, 0));
    let narrow = || u32_at(attribute(options, parameters)?, at + 8).map(u64::from);
    wide.or_else(narrow)
}

impl Network {
    /// Returns all qdiscs on all interfaces, including those that the kernel adds below a
    /// multiqueue root.
    ///
    /// # Errors
    /// Returns an error if the kernel does not answer.
    pub fn qdiscs(&self) -> Result<Vec<Qdisc>, Error> {
        dump(&self.route, RTM_GETQDISC, &[0; MESSAGE], |kind, body| {
            Some(body).filter(|_| kind == RTM_NEWQDISC).and_then(Qdisc::decode)
        })
    }

    /// Returns the rate limit of a qdisc of this namespace in bytes per second; for `htb`, the sum
    /// of the maximum rates of its outermost classes. `None` if it has no limit, or if the kernel
    /// does not answer.
    pub fn rate_of(&self, qdisc: &Qdisc) -> Option<u64> {
        if qdisc.kind != "htb" {
            return qdisc.rate;
        }
        limit_of_classes(qdisc, &self.htb_classes(qdisc.interface).ok()?)
    }

    /// Returns the classes of an interface's `htb` qdiscs.
    fn htb_classes(&self, interface: u32) -> Result<Vec<HtbClass>, Error> {
        let mut request = [0; MESSAGE];
        request[4..8].copy_from_slice(&interface.to_ne_bytes());
        dump(&self.route, RTM_GETTCLASS, &request, |kind, body| {
            Some(body).filter(|_| kind == RTM_NEWTCLASS).and_then(HtbClass::decode)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::netlink::put;
    use super::*;
    use proptest::prelude::*;

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn header(handle: u32) -> Vec<u8> {
        numbers(&[0, 3, handle, ROOT, 2])
    }

    /// Returns a 300 Mbit/s tbf that has dropped 7,378 packets.
    fn tbf(is_wide: bool) -> Vec<u8> {
        let mut body = header(0x8001_0000);
        put(&mut body, KIND, b"tbf\0");
        let mut options = Vec::new();
        put(&mut options, TBF_PARAMETERS, &numbers(&[0, 0, 37_500_000, 0, 0, 0, 1, 2, 3]));
        if is_wide {
            put(&mut options, TBF_RATE, &(5u64 << 30).to_ne_bytes());
        }
        put(&mut body, OPTIONS, &options);
        let mut stats = Vec::new();
        put(&mut stats, STATS_BASIC, &numbers(&[1000, 0, 20, 0]));
        put(&mut stats, STATS_QUEUE, &numbers(&[5, 7000, 7378, 1, 87433]));
        put(&mut body, STATS, &stats);
        body
    }

    #[test]
    fn a_limiter_says_rate_drops_and_overlimits() {
        let qdisc = Qdisc::decode(&tbf(false)).unwrap();
        assert_eq!((qdisc.kind.as_str(), qdisc.handle >> 16, qdisc.interface), ("tbf", 0x8001, 3));
        assert_eq!((qdisc.bytes, qdisc.packets, qdisc.drops), (1000, 20, 7378));
        assert_eq!((qdisc.queued_packets, qdisc.queued_bytes), (5, 7000));
        assert_eq!((qdisc.overlimits, qdisc.requeues), (87433, 1));
        assert_eq!(qdisc.rate, Some(37_500_000));
        assert_eq!(Qdisc::decode(&tbf(true)).unwrap().rate, Some(5 << 30));
    }

    /// Returns a qdisc with these options.
    fn with_options(kind: &[u8], options: &[u8]) -> Qdisc {
        let mut body = header(0x8001_0000);
        put(&mut body, KIND, kind);
        put(&mut body, OPTIONS, options);
        Qdisc::decode(&body).unwrap()
    }

    #[test]
    fn an_emulated_network_says_its_delay_and_rate() {
        // 20 ms in ticks of 64 ns, and 10 Mb/s.
        let mut options = numbers(&[312_500, 1000, 0, 0, 0, 0]);
        put(&mut options, NETEM_RATE, &numbers(&[1_250_000, 0, 0, 0]));
        let qdisc = with_options(b"netem\0", &options);
        assert_eq!((qdisc.delay_ns, qdisc.rate), (Some(20_000_000), Some(1_250_000)));
        put(&mut options, NETEM_WIDE_RATE, &(5u64 << 30).to_ne_bytes());
        put(&mut options, NETEM_WIDE_DELAY, &30_000_000u64.to_ne_bytes());
        let qdisc = with_options(b"netem\0", &options);
        assert_eq!((qdisc.delay_ns, qdisc.rate), (Some(30_000_000), Some(5 << 30)));
        // Only loss: neither delay nor rate.
        let qdisc = with_options(b"netem\0", &numbers(&[0, 1000, 85_899_345, 0, 0, 0]));
        assert_eq!((qdisc.delay_ns, qdisc.rate), (None, None));
        let mut options = Vec::new();
        put(&mut options, CAKE_RATE, &2_500_000u64.to_ne_bytes());
        assert_eq!(with_options(b"cake\0", &options).rate, Some(2_500_000));
        assert_eq!(with_options(b"netem\0", &[0; 3]).rate, None);
    }

    #[test]
    fn a_class_of_htb_says_its_ceiling() {
        let mut body = header(0x1_0001);
        put(&mut body, KIND, b"htb\0");
        let mut options = Vec::new();
        put(&mut options, HTB_PARAMETERS, &numbers(&[0, 0, 125_000, 0, 0, 250_000]));
        put(&mut body, OPTIONS, &options);
        let class = HtbClass { handle: 0x1_0001, is_outermost: true, ceiling: 250_000 };
        assert_eq!(HtbClass::decode(&body), Some(class));
        assert_eq!(HtbClass::decode(&tbf(false)), None);
    }

    #[test]
    fn the_limit_of_htb_is_the_sum_of_its_outermost_classes() {
        let htb = Qdisc { kind: "htb".to_owned(), handle: 0x1_0000, ..Qdisc::default() };
        let class = |handle, is_outermost, ceiling| HtbClass { handle, is_outermost, ceiling };
        let outermost = class(0x1_0001, true, 125_000);
        let inner = class(0x1_0002, false, 100_000);
        let other = class(0x2_0001, true, 50_000);
        assert_eq!(limit_of_classes(&htb, &[outermost, inner, other]), Some(125_000));
        let second = class(0x1_0003, true, 250_000);
        assert_eq!(limit_of_classes(&htb, &[outermost, second]), Some(375_000));
        assert_eq!(limit_of_classes(&htb, &[inner, other]), None);
        let unlimited = class(0x1_0001, true, u64::MAX);
        assert_eq!(limit_of_classes(&htb, &[unlimited, second]), Some(u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(cut in 0usize..200, at in 0usize..200, byte: u8) {
            let mut body = tbf(true);
            let at = at % body.len();
            body[at] = byte;
            body.truncate(cut);
            Qdisc::decode(&body);
            HtbClass::decode(&body);
        }
    }
}
