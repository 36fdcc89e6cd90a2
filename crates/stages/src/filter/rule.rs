// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter rule: parses its text, and compiles it to masks and port ranges.

use crate::headers::protocol;
use crate::params::{Prefix, Prefix4, Prefix6};
use std::iter::Peekable;
use std::str::{FromStr, SplitWhitespace};

/// Set in [`Key::protocol`] for a later fragment, which has no ports. IP protocol numbers use only
/// the lower 8 bits.
pub(super) const LATER_FRAGMENT: u16 = 0x100;

/// The fields of one packet that rules are matched against.
pub(super) struct Key<A> {
    pub(super) source: A,
    pub(super) destination: A,
    /// IP protocol number, combined with [`LATER_FRAGMENT`] for a later fragment.
    pub(super) protocol: u16,
    /// Source port; 0 if the packet has no ports.
    pub(super) source_port: u16,
    /// Destination port; 0 if the packet has no ports.
    pub(super) destination_port: u16,
}

/// An IPv4 or IPv6 address, as an integer that can be compared under a mask.
pub(super) trait Address: Copy {
    /// Returns whether `self` and `other` differ in a bit of `mask`.
    fn differs(self, other: Self, mask: Self) -> bool;
}

impl Address for u32 {
    #[inline]
    fn differs(self, other: Self, mask: Self) -> bool {
        (self ^ other) & mask != 0
    }
}

impl Address for u128 {
    #[inline]
    fn differs(self, other: Self, mask: Self) -> bool {
        (self ^ other) & mask != 0
    }
}

/// A rule compiled for one IP version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule<A> {
    source: A,
    source_mask: A,
    destination: A,
    destination_mask: A,
    protocol: u16,
    protocol_mask: u16,
    source_ports: Ports,
    destination_ports: Ports,
    pub(super) permit: bool,
}

/// A range of ports, from `first` to `first + span` inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ports {
    first: u16,
    span: u16,
}

impl Ports {
    const ALL: Self = Self { first: 0, span: u16::MAX };

    #[inline]
    fn contain(self, port: u16) -> bool {
        port.wrapping_sub(self.first) <= self.span
    }
}

impl<A: Address> Rule<A> {
    #[inline]
    pub(super) fn matches(&self, key: &Key<A>) -> bool {
        // Addresses alone rule out most packets. Protocol and ports are compared without branches.
        !key.destination.differs(self.destination, self.destination_mask)
            && !key.source.differs(self.source, self.source_mask)
            && ((key.protocol ^ self.protocol) & self.protocol_mask == 0)
                & self.source_ports.contain(key.source_port)
                & self.destination_ports.contain(key.destination_port)
    }
}

/// A parsed rule, compiled separately for each IP version that it applies to.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) v4: Option<Rule<u32>>,
    pub(super) v6: Option<Rule<u128>>,
}

/// The source or destination of a rule: an address prefix and a port range.
struct Side {
    /// Address prefix; `None` for any address of either IP version.
    prefix: Option<Prefix>,
    ports: Option<Ports>,
}

/// The words of a rule that have not been parsed yet, and the rule's text for error messages.
struct Words<'t> {
    rule: &'t str,
    rest: Peekable<SplitWhitespace<'t>>,
}

impl<'t> Words<'t> {
    /// Takes the next word. If there is none, the error says that `wanted` was expected.
    fn take(&mut self, wanted: &str) -> Result<&'t str, String> {
        self.rest
            .next()
            .ok_or_else(|| format!("\"{}\" ends too early; expected {wanted}", self.rule))
    }

    fn wrong(&self, wanted: &str, word: &str) -> String {
        format!("\"{}\": expected {wanted}, found \"{word}\"", self.rule)
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        let word = self.take(wanted)?;
        if word == wanted { Ok(()) } else { Err(self.wrong(wanted, word)) }
    }

    /// Parses a rule's protocol; `None` for any.
    fn protocol(&mut self) -> Result<Option<u8>, String> {
        const WANTED: &str = "tcp, udp, icmp, icmp6, any or a protocol number";
        Ok(Some(match self.take(WANTED)? {
            "any" => return Ok(None),
            "tcp" => protocol::TCP,
            "udp" => protocol::UDP,
            "icmp" => protocol::ICMP,
            "icmp6" => protocol::ICMPV6,
            number => number.parse().map_err(|_| self.wrong(WANTED, number))?,
        }))
    }

    /// Parses `PREFIX|any [port N|N-M]` after the word `name`.
    fn side(&mut self, name: &str) -> Result<Side, String> {
        self.expect(name)?;
        let prefix = match self.take("a prefix or any")? {
            "any" => None,
            prefix => Some(prefix.parse()?),
        };
        let ports = match self.rest.next_if_eq(&"port") {
            Some(_) => Some(self.ports()?),
            None => None,
        };
        Ok(Side { prefix, ports })
    }

    fn ports(&mut self) -> Result<Ports, String> {
        const WANTED: &str = "a port or a range N-M with N <= M <= 65535";
        let word = self.take(WANTED)?;
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Ports { first, span: last - first }),
            _ => Err(self.wrong(WANTED, word)),
        }
    }
}

impl FromStr for Parsed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words { rule: text, rest: text.split_whitespace().peekable() };
        let permit = match words.take("permit or deny")? {
            "permit" => true,
            "deny" => false,
            other => return Err(words.wrong("permit or deny", other)),
        };
        let protocol = words.protocol()?;
        let (from, to) = (words.side("from")?, words.side("to")?);
        if let Some(word) = words.rest.next() {
            return Err(words.wrong("the end of the rule", word));
        }
        let has_ports = from.ports.is_some() || to.ports.is_some();
        if has_ports && !matches!(protocol, Some(protocol::TCP | protocol::UDP)) {
            return Err(format!(
                "\"{text}\": only tcp and udp have ports; write one rule for each"
            ));
        }
        Ok(Self {
            v4: prefixes_v4(&from, &to).map(|p| rule(permit, protocol, &from, &to, p)),
            v6: prefixes_v6(&from, &to).map(|p| rule(permit, protocol, &from, &to, p)),
        })
        .and_then(|parsed| match parsed {
            Self { v4: None, v6: None } => {
                Err(format!("\"{text}\": no packet matches both an IPv4 and an IPv6 prefix"))
            }
            parsed => Ok(parsed),
        })
    }
}

/// Returns the source address, its mask, the destination address and its mask; `None` if either
/// prefix is IPv6.
fn prefixes_v4(from: &Side, to: &Side) -> Option<[u32; 4]> {
    let [from, to] = [from, to].map(|side| match side.prefix {
        None => Some(Prefix4::ALL),
        Some(Prefix::V4(prefix)) => Some(prefix),
        Some(Prefix::V6(_)) => None,
    });
    let (from, to) = (from?, to?);
    Some([from.address, from.mask, to.address, to.mask])
}

/// Returns the source address, its mask, the destination address and its mask; `None` if either
/// prefix is IPv4.
fn prefixes_v6(from: &Side, to: &Side) -> Option<[u128; 4]> {
    let [from, to] = [from, to].map(|side| match side.prefix {
        None => Some(Prefix6::ALL),
        Some(Prefix::V6(prefix)) => Some(prefix),
        Some(Prefix::V4(_)) => None,
    });
    let (from, to) = (from?, to?);
    Some([from.address, from.mask, to.address, to.mask])
}

fn rule<A>(
    permit: bool,
    protocol: Option<u8>,
    from: &Side,
    to: &Side,
    [source, source_mask, destination, destination_mask]: [A; 4],
) -> Rule<A> {
    let needs_ports = from.ports.is_some() || to.ports.is_some();
    Rule {
        source,
        source_mask,
        destination,
        destination_mask,
        protocol: protocol.unwrap_or(0).into(),
        protocol_mask: if protocol.is_some() { 0xff } else { 0 }
            | if needs_ports { LATER_FRAGMENT } else { 0 },
        source_ports: from.ports.unwrap_or(Ports::ALL),
        destination_ports: to.ports.unwrap_or(Ports::ALL),
        permit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Parsed>().unwrap_err()
    }

    #[test]
    fn a_rule_is_compiled_for_the_versions_it_speaks_of() {
        let any: Parsed = "permit any from any to any".parse().unwrap();
        assert!(any.v4.is_some() && any.v6.is_some());
        let v4: Parsed = "deny tcp from 10.0.0.0/8 to any port 80-90".parse().unwrap();
        assert_eq!(v4.v6, None);
        let rule = v4.v4.unwrap();
        let mut key = Key {
            source: 0x0a01_0203,
            destination: 7,
            protocol: 6,
            source_port: 1,
            destination_port: 90,
        };
        assert!(rule.matches(&key) && !rule.permit);
        key.destination_port = 91;
        assert!(!rule.matches(&key));
        key.destination_port = 79;
        assert!(!rule.matches(&key));
        (key.destination_port, key.protocol) = (80, 6 | LATER_FRAGMENT);
        assert!(!rule.matches(&key));
        (key.protocol, key.source) = (6, 0x0b00_0000);
        assert!(!rule.matches(&key));
        let v6: Parsed = "permit 132 from any to 2001:db8::/32".parse().unwrap();
        assert_eq!(v6.v4, None);
        assert_eq!(v6.v6.unwrap().protocol, 132);
    }

    #[test]
    fn errors_say_where_and_what() {
        assert!(error("").contains("ends too early; expected permit or deny"));
        assert!(error("allow tcp from any to any").contains("found \"allow\""));
        assert!(error("permit ftp from any to any").contains("tcp, udp, icmp, icmp6"));
        assert!(error("permit 256 from any to any").contains("protocol number"));
        assert!(error("permit tcp any to any").contains("expected from"));
        assert!(error("permit tcp from any").contains("ends too early; expected to"));
        assert!(error("permit tcp from 10.0.0.1/8 to any").contains("write 10.0.0.0/8"));
        assert!(error("permit tcp from any port 9-8 to any").contains("N <= M"));
        assert!(error("permit tcp from any port 65536 to any").contains("65535"));
        assert!(error("permit any from any to any port 1").contains("only tcp and udp"));
        assert!(error("permit any from 10.0.0.0/8 to ::/0").contains("matches both"));
        assert!(error("permit any from any to any log").contains("the end of the rule"));
    }
}
