// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet classes. A stage can be restricted to one class.

/// A class of packets. A stage restricted to a class processes only packets of that class; all
/// others bypass it. The class follows from the headers that `parse` located.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketClass {
    /// All packets.
    #[default]
    All,
    /// IPv4 and IPv6.
    Ip,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Packets that were not parsed as IP.
    Other,
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
    /// GRE over IPv4 or IPv6.
    Gre,
}

impl PacketClass {
    /// Names of the classes in a path file.
    pub const WORDS: [&str; 9] =
        ["all", "ip", "ipv4", "ipv6", "other", "tcp", "udp", "icmp", "gre"];

    /// All classes, in the order of [`PacketClass::WORDS`].
    pub const ALL: [Self; 9] = [
        Self::All,
        Self::Ip,
        Self::Ipv4,
        Self::Ipv6,
        Self::Other,
        Self::Tcp,
        Self::Udp,
        Self::Icmp,
        Self::Gre,
    ];

    /// Returns the class with this name in a path file; `None` for any other word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.word() == word)
    }

    /// Returns the class's name in a path file.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns whether all packets of the class are IP packets, and so have parsed headers.
    pub fn is_within_ip(self) -> bool {
        !matches!(self, Self::All | Self::Other)
    }

    /// Returns whether the class contains a packet with this IP version (0 if it was not parsed as
    /// IP) and IP protocol number.
    #[inline]
    pub fn contains(self, ip_version: u8, protocol: u8) -> bool {
        let carries = |numbers: &[u8]| ip_version != 0 && numbers.contains(&protocol);
        // Numbers from the IANA registry "Protocol Numbers".
        match self {
            Self::All => true,
            Self::Ip => ip_version != 0,
            Self::Ipv4 => ip_version == 4,
            Self::Ipv6 => ip_version == 6,
            Self::Other => ip_version == 0,
            Self::Tcp => carries(&[6]),
            Self::Udp => carries(&[17]),
            Self::Icmp => carries(&[1, 58]),
            Self::Gre => carries(&[47]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_word_and_can_be_found_by_it() {
        for (class, word) in PacketClass::ALL.into_iter().zip(PacketClass::WORDS) {
            assert_eq!((class.word(), PacketClass::of_word(word)), (word, Some(class)));
        }
        assert_eq!(PacketClass::of_word("arp"), None);
    }

    #[test]
    fn a_packet_that_was_not_parsed_is_only_in_all_and_other() {
        let of = |version, protocol| -> Vec<&str> {
            let all = PacketClass::ALL.into_iter();
            all.filter(|class| class.contains(version, protocol)).map(PacketClass::word).collect()
        };
        assert_eq!(of(0, 6), ["all", "other"]);
        assert_eq!(of(4, 6), ["all", "ip", "ipv4", "tcp"]);
        assert_eq!(of(6, 17), ["all", "ip", "ipv6", "udp"]);
        assert_eq!(of(4, 1), ["all", "ip", "ipv4", "icmp"]);
        assert_eq!(of(6, 58), ["all", "ip", "ipv6", "icmp"]);
        assert_eq!(of(4, 47), ["all", "ip", "ipv4", "gre"]);
        assert_eq!(of(6, 59), ["all", "ip", "ipv6"]);
    }
}
