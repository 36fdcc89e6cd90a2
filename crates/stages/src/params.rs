// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address prefixes, which complement the parameter types of the stage API.

pub(crate) use linerate_stage_api::params::{Address4, Mac, Reader, fail};
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    V4(Prefix4),
    V6(Prefix6),
}

/// An IPv4 prefix. Bits of `address` outside `mask` are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix4 {
    pub(crate) address: u32,
    pub(crate) mask: u32,
}

/// An IPv6 prefix. Bits of `address` outside `mask` are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix6 {
    pub(crate) address: u128,
    pub(crate) mask: u128,
}

impl Prefix4 {
    /// The prefix of length 0, which contains every address.
    pub(crate) const ALL: Self = Self { address: 0, mask: 0 };

    #[inline]
    pub(crate) fn contains(self, address: u32) -> bool {
        address & self.mask == self.address
    }

    /// Returns the last address of the prefix.
    pub(crate) fn last(self) -> u32 {
        self.address | !self.mask
    }
}

impl Prefix6 {
    /// The prefix of length 0, which contains every address.
    pub(crate) const ALL: Self = Self { address: 0, mask: 0 };

    /// Returns the last address of the prefix.
    pub(crate) fn last(self) -> u128 {
        self.address | !self.mask
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a prefix, such as 10.0.0.0/8 or 2001:db8::/32");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let beyond = |first: IpAddr| {
            format!(
                "\"{text}\" has bits set beyond the prefix length; write {first}/{}",
                length.unwrap_or(0)
            )
        };
        match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(v4) => {
                let bits = 32u32.checked_sub(length.unwrap_or(32)).ok_or_else(wrong)?;
                let (address, mask) = (u32::from(v4), u32::MAX.checked_shl(bits).unwrap_or(0));
                if address & !mask != 0 {
                    return Err(beyond(Ipv4Addr::from(address & mask).into()));
                }
                Ok(Self::V4(Prefix4 { address, mask }))
            }
            IpAddr::V6(v6) => {
                let bits = 128u32.checked_sub(length.unwrap_or(128)).ok_or_else(wrong)?;
                let (address, mask) = (u128::from(v6), u128::MAX.checked_shl(bits).unwrap_or(0));
                if address & !mask != 0 {
                    return Err(beyond(std::net::Ipv6Addr::from(address & mask).into()));
                }
                Ok(Self::V6(Prefix6 { address, mask }))
            }
        }
    }
}

impl FromStr for Prefix4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Prefix::V4(prefix) => Ok(prefix),
            Prefix::V6(_) => Err(format!("\"{text}\" is an IPv6 prefix; expected an IPv4 prefix")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let ten = Prefix4 { address: 10 << 24, mask: 0xff00_0000 };
        assert_eq!("10.0.0.0/8".parse(), Ok(Prefix::V4(ten)));
        assert!(ten.contains(0x0aff_ffff) && !ten.contains(0x0b00_0000));
        assert_eq!(ten.last(), 0x0aff_ffff);
        assert_eq!("0.0.0.0/0".parse(), Ok(Prefix::V4(Prefix4::ALL)));
        assert_eq!("::/0".parse(), Ok(Prefix::V6(Prefix6::ALL)));
        let host = Prefix4 { address: 0xc000_0201, mask: u32::MAX };
        assert_eq!("192.0.2.1".parse(), Ok(Prefix::V4(host)));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "10.0.0.0/", "x"] {
            assert!(bad.parse::<Prefix>().unwrap_err().contains("not a prefix"), "{bad}");
        }
        let beyond = "10.1.2.3/8".parse::<Prefix>().unwrap_err();
        assert!(beyond.ends_with("write 10.0.0.0/8"), "{beyond}");
        assert!("2001:db8::1/32".parse::<Prefix>().unwrap_err().ends_with("2001:db8::/32"));
        assert!("::/0".parse::<Prefix4>().unwrap_err().contains("IPv6"));
    }
}
