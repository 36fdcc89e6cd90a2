// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeps on sockets that a program opens for a single exchange, such as a DNS lookup. Lists show
//! only some of these sockets, because few are open when a list is read.

use super::Count;
use std::collections::BTreeMap;

/// Description of a socket that no list showed.
const UNLISTED: &str = "socket";

/// Prefixes of the descriptions of brief connections to a server ([`Sockets::describe`]).
///
/// [`Sockets::describe`]: crate::sockets::Sockets::describe
const TO_SERVER: [&str; 2] = ["udp to ", "tcp to "];

/// Adds a call's samples on unlisted sockets to its samples on brief connections to a server, if
/// the call was seen on no other connections.
pub(super) fn merge(counts: &mut BTreeMap<(String, Option<String>), Count>) {
    let unlisted = |(_, object): &&(String, Option<String>)| object.as_deref() == Some(UNLISTED);
    let calls: Vec<String> = counts.keys().filter(unlisted).map(|(on, _)| on.clone()).collect();
    for on in calls {
        let objects = counts.keys().filter(|(call, _)| *call == on);
        let connected: Vec<String> = objects
            .filter_map(|(_, object)| object.clone())
            .filter(|object| object.contains(" to "))
            .collect();
        let [server] = connected.as_slice() else { continue };
        if TO_SERVER.iter().any(|prefix| server.starts_with(prefix)) {
            let count = counts.remove(&(on.clone(), Some(UNLISTED.to_owned())));
            let merged = counts.entry((on, Some(server.clone()))).or_default();
            merged.add(&count.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_sockets_are_like_the_listed_ones_of_the_same_call() {
        let merged = |all: &[(&str, &str)]| {
            let count = || Count { samples: 5, ..Count::default() };
            let key = |(on, object): &(&str, &str)| ((*on).to_owned(), Some((*object).to_owned()));
            let mut counts = all.iter().map(|one| (key(one), count())).collect();
            merge(&mut counts);
            let samples = counts.into_iter().map(|((_, object), count)| (object, count.samples));
            samples.map(|(object, n)| (object.unwrap_or_default(), n)).collect::<Vec<_>>()
        };
        let expected = |all: &[(&str, u64)]| {
            all.iter().map(|(object, n)| ((*object).to_owned(), *n)).collect::<Vec<_>>()
        };
        let lookups = ("poll", "udp to 10.0.0.2:53");
        let own = ("recvfrom", "udp 0.0.0.0:514");
        assert_eq!(
            merged(&[lookups, ("poll", "socket"), own]),
            expected(&[("udp to 10.0.0.2:53", 10), ("udp 0.0.0.0:514", 5)])
        );
        // Another call, and a call that is also made on clients' connections.
        assert_eq!(merged(&[lookups, ("recvfrom", "socket")]).len(), 2);
        let client = ("poll", "tcp 10.0.0.1:80 to 10.0.0.9:4000");
        assert_eq!(merged(&[lookups, ("poll", "socket"), client]).len(), 3);
    }
}
