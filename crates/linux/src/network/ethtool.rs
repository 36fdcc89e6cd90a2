// SPDX-License-Identifier: MIT OR Apache-2.0
//! Driver information for an interface (ethtool). These queries need no privileges.

use super::{Network, text, u32_at, u64_at};
use crate::Error;
use std::os::fd::AsRawFd;

const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_COUNTERS: u32 = 0x1d;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;

const SIOCETHTOOL: u32 = 0x8946;

/// String set numbers for driver counters and features.
const COUNTERS: u32 = 1;
const FEATURES: u32 = 4;

/// Maximum length of a name in bytes, ETH_GSTRING_LEN.
const NAME_BYTES: usize = 32;

/// Maximum number of names, more than any driver has; bounds memory use if a reply is corrupt.
const NAMES_MAX: u32 = 1 << 16;

/// Spare entries in a buffer. The kernel writes as many names or counters as the driver has,
/// regardless of the buffer size, and there may be more than at the previous query.
const SPARE: usize = 4096;

/// An interface's driver, as reported by ethtool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Driver name, such as `virtio_net`.
    pub name: String,
    /// NIC firmware version; empty if none.
    pub firmware: String,
    /// NIC bus address, such as `0000:00:03.0`; empty if not on a bus.
    pub bus: String,
}

impl Driver {
    /// Decodes `ethtool_drvinfo`.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let part = |at: usize| bytes.get(at..at + 32).map(text);
        Some(Self { name: part(4)?, firmware: part(68)?, bus: part(100)? })
    }
}

/// Decodes at most `count` names in a string set (`ethtool_gstrings`).
fn decode_names(bytes: &[u8], count: u32) -> Vec<String> {
    let count = u32_at(bytes, 8).unwrap_or(0).min(count) as usize;
    let names = bytes.get(12..).unwrap_or_default().chunks_exact(NAME_BYTES);
    names.take(count).map(text).collect()
}

/// Decodes counter values and pairs them with their names (`ethtool_stats`). Counters without a
/// name are skipped.
fn decode_counters(bytes: &[u8], names: &[String]) -> Vec<(String, u64)> {
    let count = u32_at(bytes, 4).unwrap_or(0) as usize;
    let value = |index: usize| u64_at(bytes, 8 + 8 * index);
    let pairs = names.iter().take(count).enumerate();
    pairs
        .filter(|(_, name)| !name.is_empty())
        .filter_map(|(index, name)| Some((name.clone(), value(index)?)))
        .collect()
}

/// Decodes whether each feature is on, and pairs the result with the feature's name
/// (`ethtool_gfeatures`, in blocks of 32).
fn decode_features(bytes: &[u8], names: &[String]) -> Vec<(String, bool)> {
    let blocks = u32_at(bytes, 4).unwrap_or(0) as usize;
    // Layout of a block: available, requested, active, never changed.
    let active = |block: usize| u32_at(bytes, 8 + 16 * block + 8).filter(|_| block < blocks);
    let names = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
    names
        .filter_map(|(bit, name)| Some((name.clone(), active(bit / 32)? >> (bit % 32) & 1 == 1)))
        .collect()
}

/// Decodes the number of receive queues in use (`ethtool_channels`): those that only receive, and
/// those that also send.
fn decode_receive_queues(bytes: &[u8]) -> Option<u32> {
    Some(u32_at(bytes, 20)?.saturating_add(u32_at(bytes, 32)?)).filter(|queues| *queues > 0)
}

/// Queries a driver. The kernel reads `question` and overwrites it with the answer.
fn ask(network: &Network, interface: &str, question: &mut [u8]) -> Result<(), Error> {
    let mut request = [0u8; size_of::<libc::ifreq>()];
    // IFNAMSIZ includes the terminating NUL.
    if interface.len() > 15 {
        let value = interface.to_owned();
        let advice = "interface names have at most 15 characters";
        return Err(Error::Call { call: "ethtool", value, errno: libc::ENODEV, advice });
    }
    request[..interface.len()].copy_from_slice(interface.as_bytes());
    let place = question.as_mut_ptr() as usize;
    request[16..16 + size_of::<usize>()].copy_from_slice(&place.to_ne_bytes());
    // SAFETY: `request` is an ifreq whose data pointer refers to `question`, which callers make
    // large enough for the reply to the command in it.
    let status =
        unsafe { libc::ioctl(network.control.as_raw_fd(), SIOCETHTOOL as _, request.as_mut_ptr()) };
    match status < 0 {
        false => Ok(()),
        true => {
            Err(Error::last("ethtool", interface.to_owned(), "continue without driver information"))
        }
    }
}

/// Builds a request from a command and a number, with room for a `bytes`-byte reply.
fn question(command: u32, number: u32, bytes: usize) -> Vec<u8> {
    let mut question = command.to_ne_bytes().to_vec();
    question.extend(number.to_ne_bytes());
    question.resize(8 + bytes, 0);
    question
}

impl Network {
    /// Returns the number of receive queues that an interface uses, which may be fewer than it was
    /// created with.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist, or if its driver does not report the
    /// number.
    pub fn receive_queues(&self, interface: &str) -> Result<u32, Error> {
        // `ethtool_channels` is 36 bytes long.
        let mut answer = question(GET_CHANNELS, 0, 64);
        ask(self, interface, &mut answer)?;
        decode_receive_queues(&answer).ok_or_else(|| Error::Call {
            call: "ethtool",
            value: interface.to_owned(),
            errno: libc::EOPNOTSUPP,
            advice: "continue without the number of queues",
        })
    }

    /// Returns an interface's driver.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist or has no driver.
    pub fn driver(&self, interface: &str) -> Result<Driver, Error> {
        // `ethtool_drvinfo` is 196 bytes long.
        let mut answer = question(GET_DRIVER, 0, 256);
        ask(self, interface, &mut answer)?;
        let empty = Driver { name: String::new(), firmware: String::new(), bus: String::new() };
        Ok(Driver::decode(&answer).unwrap_or(empty))
    }

    /// Returns the name of each of an interface's features (offloads), and whether the feature is
    /// on.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist.
    pub fn features(&self, interface: &str) -> Result<Vec<(String, bool)>, Error> {
        let names = self.names(interface, FEATURES)?;
        let blocks = names.len().div_ceil(32) as u32;
        let mut answer = question(GET_FEATURES, blocks, 16 * blocks as usize);
        ask(self, interface, &mut answer)?;
        Ok(decode_features(&answer, &names))
    }

    /// Returns the names of a driver's own counters; empty if the driver exports none. The names
    /// change only if the driver is reloaded or its number of queues changes.
    ///
    /// # Errors
    /// Returns an error if the driver does not support counters of its own.
    pub fn driver_counter_names(&self, interface: &str) -> Result<Vec<String>, Error> {
        self.names(interface, COUNTERS)
    }

    /// Returns the values of the named counters.
    ///
    /// # Errors
    /// Returns an error if the driver has no counters.
    pub fn driver_counters(
        &self,
        interface: &str,
        names: &[String],
    ) -> Result<Vec<(String, u64)>, Error> {
        let mut answer = question(GET_COUNTERS, names.len() as u32, 8 * (names.len() + SPARE));
        ask(self, interface, &mut answer)?;
        Ok(decode_counters(&answer, names))
    }

    fn names(&self, interface: &str, set: u32) -> Result<Vec<String>, Error> {
        // `ethtool_sset_info`: command, reserved, 64-bit mask of sets, sizes of the sets in the
        // mask.
        let mut sizes = question(GET_SET_SIZES, 0, 16);
        sizes[8..16].copy_from_slice(&(1u64 << set).to_ne_bytes());
        ask(self, interface, &mut sizes)?;
        let is_known = u64_at(&sizes, 8).unwrap_or(0) != 0;
        let count = u32_at(&sizes, 16).filter(|_| is_known).unwrap_or(0).min(NAMES_MAX);
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut answer = question(GET_STRINGS, set, NAME_BYTES * (count as usize + SPARE));
        answer[8..12].copy_from_slice(&count.to_ne_bytes());
        ask(self, interface, &mut answer)?;
        Ok(decode_names(&answer, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Vec<u8> {
        let mut bytes = question(GET_STRINGS, FEATURES, 0);
        bytes.extend((names.len() as u32).to_ne_bytes());
        for name in names {
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len() + NAME_BYTES - name.len(), 0);
        }
        bytes
    }

    #[test]
    fn names_values_and_bits_meet() {
        let found = decode_names(&names(&["rx", "", "tx"]), 3);
        assert_eq!(found, ["rx", "", "tx"]);
        assert_eq!(decode_names(&names(&["rx", "tx"]), 1), ["rx"]);
        let mut counters = question(GET_COUNTERS, 3, 0);
        counters.extend([5u64, 6, 7].iter().flat_map(|n| n.to_ne_bytes()));
        let expected = [("rx".to_owned(), 5), ("tx".to_owned(), 7)];
        assert_eq!(decode_counters(&counters, &found), expected);
        let mut features = question(GET_FEATURES, 1, 0);
        features.extend([7u32, 7, 0b100, 0].iter().flat_map(|n| n.to_ne_bytes()));
        let expected = [("rx".to_owned(), false), ("tx".to_owned(), true)];
        assert_eq!(decode_features(&features, &found), expected);
    }

    #[test]
    fn the_loopback_interface_has_features() {
        let Ok(network) = Network::own() else {
            println!("SKIP: netlink is not permitted here");
            return;
        };
        assert!(network.features("no interface at all").is_err());
        assert!(network.features("nosuch0").is_err());
        match network.features("lo") {
            Ok(features) => {
                assert!(features.iter().any(|(name, _)| name == "rx-gro"), "{features:?}")
            }
            Err(error) => println!("SKIP: {error}"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(
            bytes in prop::collection::vec(any::<u8>(), 0..300), count: u32, number: u32,
        ) {
            let mut lying = bytes.clone();
            if let Some(place) = lying.get_mut(4..8) {
                place.copy_from_slice(&number.to_ne_bytes());
            }
            let some: Vec<String> = (0..70).map(|n| n.to_string()).collect();
            for bytes in [bytes, lying] {
                decode_names(&bytes, count);
                decode_counters(&bytes, &some);
                decode_features(&bytes, &some);
                Driver::decode(&bytes);
            }
        }
    }
}
