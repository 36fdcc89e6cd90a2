// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads parameters: typed values out of checked ones, addresses out of texts.

use linerate_dataplane::BuildError;
use linerate_path::model::{Params, Value};
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// The parameters of one stage.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a Params);

impl<'a> Reader<'a> {
    fn value(self, name: &'static str) -> Result<&'a Value, BuildError> {
        self.0.get(name).ok_or_else(|| fail(name, "missing; give it a value".into()))
    }

    pub(crate) fn bool(self, name: &'static str) -> Result<bool, BuildError> {
        match self.value(name)? {
            Value::Bool(b) => Ok(*b),
            other => Err(fail(name, format!("{other:?} is not true or false"))),
        }
    }

    pub(crate) fn integer<T: TryFrom<i64>>(self, name: &'static str) -> Result<T, BuildError> {
        match self.value(name)? {
            Value::Integer(n) => {
                T::try_from(*n).map_err(|_| fail(name, format!("{n} is out of range")))
            }
            other => Err(fail(name, format!("{other:?} is not a whole number"))),
        }
    }

    pub(crate) fn text(self, name: &'static str) -> Result<&'a str, BuildError> {
        match self.value(name)? {
            Value::Text(text) => Ok(text),
            other => Err(fail(name, format!("{other:?} is not a text"))),
        }
    }

    pub(crate) fn texts(self, name: &'static str) -> Result<&'a [String], BuildError> {
        match self.value(name)? {
            Value::Texts(texts) => Ok(texts),
            other => Err(fail(name, format!("{other:?} is not a list of texts"))),
        }
    }

    /// A text that is parsed; the message of a failure repeats it.
    pub(crate) fn parsed<T: FromStr<Err = String>>(
        self,
        name: &'static str,
    ) -> Result<T, BuildError> {
        self.text(name)?.parse().map_err(|message| fail(name, message))
    }

    /// Like [`Reader::parsed`], but an empty text means none.
    pub(crate) fn optional<T: FromStr<Err = String>>(
        self,
        name: &'static str,
    ) -> Result<Option<T>, BuildError> {
        if self.text(name)?.is_empty() { Ok(None) } else { self.parsed(name).map(Some) }
    }
}

/// An error about the parameter `name`.
pub(crate) fn fail(param: &'static str, message: String) -> BuildError {
    BuildError { param, index: None, message }
}

/// An IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address4(pub(crate) u32);

impl FromStr for Address4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: Ipv4Addr = text
            .parse()
            .map_err(|_| format!("\"{text}\" is not an IPv4 address, such as 192.0.2.1"))?;
        Ok(Self(address.into()))
    }
}

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a MAC address, such as 02:00:5e:10:00:01");
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let hex = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
            let part = parts.next().filter(hex).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(octets)) }
    }
}

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    V4(Prefix4),
    V6(Prefix6),
}

/// IPv4 addresses that share their first bits. Bits outside `mask` are 0 in `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix4 {
    pub(crate) address: u32,
    pub(crate) mask: u32,
}

/// IPv6 addresses that share their first bits. Bits outside `mask` are 0 in `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix6 {
    pub(crate) address: u128,
    pub(crate) mask: u128,
}

impl Prefix4 {
    /// Every address.
    pub(crate) const ALL: Self = Self { address: 0, mask: 0 };

    #[inline]
    pub(crate) fn contains(self, address: u32) -> bool {
        address & self.mask == self.address
    }

    /// The last address.
    pub(crate) fn last(self) -> u32 {
        self.address | !self.mask
    }
}

impl Prefix6 {
    /// Every address.
    pub(crate) const ALL: Self = Self { address: 0, mask: 0 };

    /// The last address.
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
                "\"{text}\" has bits set beyond its length; write {first}/{}",
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
            Prefix::V6(_) => Err(format!("\"{text}\" is IPv6; an IPv4 prefix is needed here")),
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

    #[test]
    fn hardware_addresses() {
        assert_eq!("02:00:5E:10:00:ff".parse(), Ok(Mac([2, 0, 0x5e, 0x10, 0, 0xff])));
        for bad in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "0g:00:00:00:00:00"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
        assert!("+2:00:00:00:00:00".parse::<Mac>().is_err());
    }
}
