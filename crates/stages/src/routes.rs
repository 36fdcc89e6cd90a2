// SPDX-License-Identifier: MIT OR Apache-2.0
//! Longest-prefix match from destination address to next hop.
//!
//! Prefixes are nested or disjoint, so they divide the address space into intervals within which
//! the longest match is the same. A lookup is a binary search over the interval starts. With at
//! most 2n + 1 intervals for n prefixes, the table is small, exact, and no worse for IPv6. A trie
//! would touch less memory for full Internet tables, but an edge router's few routes fit in L1.

/// A routing table: next hops by destination address.
pub(crate) struct Routes<A> {
    /// First address of each interval in ascending order, starting with the lowest possible
    /// address.
    starts: Vec<A>,
    /// Next hop of the interval at the same index in `starts`.
    hops: Vec<Option<u16>>,
}

/// A route: the addresses from `first` to `last`, which form a prefix, and their next hop.
#[derive(Clone, Copy)]
pub(crate) struct Route<A> {
    pub(crate) first: A,
    pub(crate) last: A,
    pub(crate) hop: u16,
}

impl<A: Copy + Ord + Default> Routes<A> {
    /// Compiles routes into a table. `after` returns the next higher address; `None` after the
    /// last. If routes have the same prefix, the last one wins.
    pub(crate) fn new(routes: &[Route<A>], after: impl Fn(A) -> Option<A>) -> Self {
        let mut starts = vec![A::default()];
        starts.extend(routes.iter().map(|r| r.first));
        starts.extend(routes.iter().filter_map(|r| after(r.last)));
        starts.sort_unstable();
        starts.dedup();
        // The longest prefix containing an address is the one that starts last or, of those with
        // the same start, ends first.
        let longest = |start: &A| {
            let holding = routes.iter().filter(|r| (r.first..=r.last).contains(start));
            holding.max_by_key(|r| (r.first, std::cmp::Reverse(r.last))).map(|r| r.hop)
        };
        let hops = starts.iter().map(longest).collect();
        Self { starts, hops }
    }

    /// Returns the index of the next hop for `address`; `None` if no route matches.
    #[inline]
    pub(crate) fn find(&self, address: A) -> Option<u16> {
        let after = self.starts.partition_point(|start| *start <= address);
        self.hops[after - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(value: u32, length: u32, hop: u16) -> Route<u32> {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Route { first: value & mask, last: value | !mask, hop }
    }

    #[test]
    fn no_routes() {
        let routes = Routes::<u32>::new(&[], |a| a.checked_add(1));
        assert_eq!(routes.find(0), None);
        assert_eq!(routes.find(u32::MAX), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn equals_a_linear_search(
            // Routes are drawn from few distinct values, so that prefixes nest and repeat.
            specs in prop::collection::vec((0u32..64, 0u32..=32), 0..40),
            probes in prop::collection::vec(any::<u32>(), 50),
        ) {
            let all: Vec<_> = specs
                .iter()
                .enumerate()
                .map(|(i, &(v, length))| route(v.wrapping_mul(0x0410_4104), length, i as u16))
                .collect();
            let routes = Routes::new(&all, |a: u32| a.checked_add(1));
            let edges = all.iter().flat_map(|r| {
                [r.first, r.last, r.first.wrapping_sub(1), r.last.wrapping_add(1)]
            });
            for address in probes.into_iter().chain(edges) {
                let mut best: Option<(u32, u16)> = None;
                for (r, &(_, length)) in all.iter().zip(&specs) {
                    let holds = r.first <= address && address <= r.last;
                    if holds && best.is_none_or(|(l, _)| length >= l) {
                        best = Some((length, r.hop));
                    }
                }
                prop_assert_eq!(routes.find(address), best.map(|b| b.1), "{:#x}", address);
            }
        }
    }
}
