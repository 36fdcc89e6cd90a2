// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates veth pairs in private namespaces.

use super::Network;
use super::netlink::{CREATE, change, put};
use crate::Error;
use std::net::Ipv4Addr;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;

/// Lengths of `ifinfomsg` and `ifaddrmsg`.
const LINK: usize = 16;
const ADDRESS: usize = 8;

const NAME: u16 = 3;
const INFO: u16 = 18;
const NAMESPACE_OF: u16 = 19;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

impl Network {
    /// Creates a veth pair: `near` in this namespace, `far` in the namespace of process `pid`.
    /// Requires root in the user namespaces that own the two network namespaces.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the privilege, the kernel has no veth driver, or an
    /// interface with one of the names already exists.
    pub fn add_pair(&self, near: &str, far: &str, pid: u32) -> Result<(), Error> {
        change(&self.route, NEW_LINK, CREATE, &pair(near, far, pid))
    }

    /// Assigns an IPv4 address to an interface in this namespace and brings it up. Requires root in
    /// the user namespace that owns this network namespace.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, or if the caller lacks the privilege.
    pub fn bring_up(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let link = self.links()?.into_iter().find(|link| link.name == name);
        let index = link.map_or(0, |link| link.index);
        change(&self.route, NEW_ADDRESS, CREATE, &address_of(index, address, prefix))?;
        change(&self.route, NEW_LINK, 0, &up(index))
    }
}

/// Returns a NUL-terminated interface name.
fn terminated(name: &str) -> Vec<u8> {
    name.bytes().chain([0]).collect()
}

fn pair(near: &str, far: &str, pid: u32) -> Vec<u8> {
    let mut peer = vec![0; LINK];
    put(&mut peer, NAME, &terminated(far));
    put(&mut peer, NAMESPACE_OF, &pid.to_ne_bytes());
    let (mut data, mut info) = (Vec::new(), Vec::new());
    put(&mut data, PEER, &peer);
    put(&mut info, INFO_KIND, b"veth");
    put(&mut info, INFO_DATA, &data);
    let mut body = vec![0; LINK];
    put(&mut body, NAME, &terminated(near));
    put(&mut body, INFO, &info);
    body
}

fn address_of(index: u32, address: Ipv4Addr, prefix: u8) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend(index.to_ne_bytes());
    debug_assert_eq!(body.len(), ADDRESS);
    put(&mut body, IFA_LOCAL, &address.octets());
    put(&mut body, IFA_ADDRESS, &address.octets());
    body
}

fn up(index: u32) -> Vec<u8> {
    let is_up = (libc::IFF_UP as u32).to_ne_bytes();
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(is_up);
    body.extend(is_up);
    body
}

#[cfg(test)]
mod tests {
    use super::super::netlink::attribute;
    use super::*;

    #[test]
    fn messages_nest_as_the_kernel_reads_them() {
        let body = pair("a", "b", 7);
        assert_eq!(attribute(&body[LINK..], NAME), Some(&b"a\0"[..]));
        let info = attribute(&body[LINK..], INFO).unwrap();
        assert_eq!(attribute(info, INFO_KIND), Some(&b"veth"[..]));
        let peer = attribute(info, INFO_DATA).and_then(|data| attribute(data, PEER)).unwrap();
        assert_eq!(attribute(&peer[LINK..], NAME), Some(&b"b\0"[..]));
        assert_eq!(attribute(&peer[LINK..], NAMESPACE_OF), Some(&7u32.to_ne_bytes()[..]));
        let body = address_of(3, Ipv4Addr::new(192, 0, 2, 1), 24);
        assert_eq!(attribute(&body[ADDRESS..], IFA_LOCAL), Some(&[192, 0, 2, 1][..]));
        assert_eq!(up(3).len(), LINK);
    }
}
