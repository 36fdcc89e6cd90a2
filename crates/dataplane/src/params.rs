// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed access to the parameters of stages and sources, and parsing of addresses.
//!
//! The path checker has already verified that required parameters are present and values are in
//! range.

use crate::stage::BuildError;
use linerate_path::model::{Params, Value};
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The parameters of one stage or source.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a Params);

impl<'a> Reader<'a> {
    fn value(self, name: &'static str) -> Result<&'a Value, BuildError> {
        self.0.get(name).ok_or_else(|| fail(name, "missing value".into()))
    }

    /// Returns a boolean parameter.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing or has another type.
    pub fn bool(self, name: &'static str) -> Result<bool, BuildError> {
        match self.value(name)? {
            Value::Bool(b) => Ok(*b),
            other => Err(fail(name, format!("{other:?} is neither true nor false"))),
        }
    }

    /// Returns an integer parameter.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing, has another type, or is out of range for `T`.
    pub fn integer<T: TryFrom<i64>>(self, name: &'static str) -> Result<T, BuildError> {
        match self.value(name)? {
            Value::Integer(n) => {
                T::try_from(*n).map_err(|_| fail(name, format!("{n} is out of range")))
            }
            other => Err(fail(name, format!("{other:?} is not an integer"))),
        }
    }

    /// Like [`Reader::integer`], but the parameter may be absent.
    ///
    /// # Errors
    /// Returns an error if the parameter has another type or is out of range for `T`.
    pub fn integer_if_given<T: TryFrom<i64>>(
        self,
        name: &'static str,
    ) -> Result<Option<T>, BuildError> {
        if self.0.contains_key(name) { self.integer(name).map(Some) } else { Ok(None) }
    }

    /// Returns a floating-point parameter; 0 if absent.
    ///
    /// # Errors
    /// Returns an error if the parameter has another type.
    pub fn number_or_zero(self, name: &'static str) -> Result<f64, BuildError> {
        match self.0.get(name) {
            None => Ok(0.0),
            Some(Value::Number(number)) => Ok(*number),
            Some(other) => Err(fail(name, format!("{other:?} is not a number"))),
        }
    }

    /// Returns a string parameter.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing or has another type.
    pub fn text(self, name: &'static str) -> Result<&'a str, BuildError> {
        match self.value(name)? {
            Value::Text(text) => Ok(text),
            other => Err(fail(name, format!("{other:?} is not a string"))),
        }
    }

    /// Returns a parameter that is a list of strings.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing or has another type.
    pub fn texts(self, name: &'static str) -> Result<&'a [String], BuildError> {
        match self.value(name)? {
            Value::Texts(texts) => Ok(texts),
            other => Err(fail(name, format!("{other:?} is not a list of strings"))),
        }
    }

    /// Returns a string parameter, parsed as a `T`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Reader::text`], or if parsing fails.
    pub fn parsed<T: FromStr<Err = String>>(self, name: &'static str) -> Result<T, BuildError> {
        self.text(name)?.parse().map_err(|message| fail(name, message))
    }

    /// Like [`Reader::parsed`], but returns `None` for an empty string.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Reader::parsed`].
    pub fn optional<T: FromStr<Err = String>>(
        self,
        name: &'static str,
    ) -> Result<Option<T>, BuildError> {
        if self.text(name)?.is_empty() { Ok(None) } else { self.parsed(name).map(Some) }
    }
}

/// Creates an error about the parameter `param`.
pub fn fail(param: &'static str, message: String) -> BuildError {
    BuildError { param, index: None, message }
}

/// An IPv4 address as an integer in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address4(pub u32);

impl FromStr for Address4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: Ipv4Addr = text
            .parse()
            .map_err(|_| format!("\"{text}\" is not an IPv4 address (example: 192.0.2.1)"))?;
        Ok(Self(address.into()))
    }
}

/// A MAC address, parsed from six colon-separated hexadecimal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a MAC address, such as 02:00:5e:10:00:01");
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let hex = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
            let part = parts.next().filter(hex).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
