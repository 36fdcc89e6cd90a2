// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the routines that are timed in a case.

use crate::Error;
use crate::cases::{Case, Length};
use crate::check::Answer;
use crate::peers::{c_library, peers};
use linerate_kernels::bench::{Role, Routine, bounds, headers, routines};
use linerate_kernels::{Kernels, Variant, variants};
use linerate_record::kernels::{
    self as record, Kernel, PeerReport, Skipped, Timing, VariantReport,
};

/// Name of the default variant.
pub(crate) const SELECTED: &str = "selected";

/// Name of the entry point used by C callers and by the free functions, which looks up the selected
/// variant.
const DISPATCH: &str = "dispatch";

/// Name of the inline header sum in Rust.
pub(crate) const HEADER: &str = "header";
/// Name of the inline header sum in C.
pub(crate) const HEADER_C: &str = "header_c";

/// Name of the C library's copy routine.
pub(crate) const MEMCPY: &str = "memcpy";

/// Maximum IPv4 or TCP header length in bytes.
const HEADER_BYTES_MAX: u32 = 60;

/// Which variants to measure. Bounds are always measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All routines supported by this CPU, including peers.
    All,
    /// These variants, including `selected` and other entry points if named; no peers.
    Variants(Vec<String>),
}

impl Filter {
    /// Returns the filter for these names; without names, [`Filter::All`].
    ///
    /// # Errors
    /// Returns an error if a named variant does not exist or is not supported by this CPU.
    pub fn parse(names: &[String]) -> Result<Self, Error> {
        let is_entry = |name: &str| [SELECTED, DISPATCH, HEADER, HEADER_C].contains(&name);
        for name in names.iter().filter(|name| !is_entry(name)) {
            let found = Variant::find(name).and_then(|variant| variant.kernels());
            found.map_err(|error| Error::Variant(error.to_string()))?;
        }
        Ok(if names.is_empty() { Self::All } else { Self::Variants(names.to_vec()) })
    }

    fn lets(&self, routine: &Routine) -> bool {
        match self {
            Self::All => true,
            Self::Variants(names) => {
                routine.role() == Role::Bound || names.iter().any(|name| name == routine.name())
            }
        }
    }
}

/// Converts the kernel to the enum of `linerate-kernels`.
pub(crate) fn own(kernel: Kernel) -> linerate_kernels::Kernel {
    match kernel {
        Kernel::Checksum => linerate_kernels::Kernel::Checksum,
        Kernel::Copy => linerate_kernels::Kernel::Copy,
        Kernel::CopyChecksum => linerate_kernels::Kernel::CopyChecksum,
        Kernel::Fill => linerate_kernels::Kernel::Fill,
    }
}

/// Converts the role to the record's enum.
pub(crate) fn recorded(role: Role) -> record::Role {
    match role {
        Role::Variant => record::Role::Variant,
        Role::Selected => record::Role::Selected,
        Role::Entry => record::Role::Entry,
        Role::Bound => record::Role::Bound,
        Role::Peer => record::Role::Peer,
    }
}

/// Returns the routines of a kernel that are supported by this CPU and pass the filter.
pub(crate) fn lineup(kernel: Kernel, filter: &Filter) -> Vec<(Routine, Answer)> {
    let ours = routines(own(kernel)).into_iter().map(|routine| (routine, Answer::Sum));
    let headers = headers().into_iter().filter(|header| header.kernel() == own(kernel));
    let headers = headers.map(|header| match header.name() {
        HEADER_C => (header, Answer::SumOfWords),
        _ => (header, Answer::Sum),
    });
    let of_kernel = peers().into_iter().filter(|peer| peer.kernel == own(kernel));
    let theirs = of_kernel.filter_map(|peer| Some((peer.routine.ok()?, peer.answer)));
    ours.chain(headers).chain(theirs).filter(|(routine, _)| filter.lets(routine)).collect()
}

/// Returns whether a routine is timed in a case. Inline sums are timed only for headers, whose
/// callers wait for the result.
pub(crate) fn takes_part(case: &Case, routine: &Routine) -> bool {
    let is_header = match case.length {
        Length::Bytes(bytes) => bytes <= HEADER_BYTES_MAX && bytes % 4 == 0,
        Length::Mix(_) => false,
    };
    ![HEADER, HEADER_C].contains(&routine.name()) || is_header && case.timing == Timing::Latency
}

/// Returns whether a routine may be the bound that others are compared with. For copies, this is
/// the C library's routine, which a kernel may beat: a loop of only stores is not a realistic
/// bound.
pub(crate) fn is_bound(kernel: Kernel, routine: &Routine) -> bool {
    let is_copy = matches!(kernel, Kernel::Copy | Kernel::CopyChecksum);
    routine.role() == Role::Bound && (!is_copy || routine.name() == MEMCPY)
}

/// Returns the records of all variants.
pub fn variant_reports() -> Vec<VariantReport> {
    let selected = Kernels::selected();
    let report = |variant: Variant| VariantReport {
        name: variant.name().to_owned(),
        isa: variant.isa().to_owned(),
        vector: variant.is_vector(),
        compiled: variant.is_compiled(),
        supported: variant.is_supported(),
        selected_for: Kernel::ALL
            .into_iter()
            .filter(|&kernel| selected.origin(own(kernel)) == variant.name())
            .collect(),
    };
    variants().map(report).collect()
}

/// Returns the records of all peers, the C library first.
pub fn peer_reports() -> Vec<PeerReport> {
    let c_library = |name: &str, kernels: &[Kernel]| PeerReport {
        name: name.to_owned(),
        source: c_library(),
        kernels: kernels.to_vec(),
        available: true,
        reason: None,
    };
    let mut reports =
        vec![c_library(MEMCPY, &[Kernel::Copy]), c_library("memset", &[Kernel::Fill])];
    reports.extend(peers().into_iter().map(|peer| PeerReport {
        name: peer.name.to_owned(),
        source: peer.source,
        kernels: Kernel::ALL.into_iter().filter(|&kernel| own(kernel) == peer.kernel).collect(),
        available: peer.routine.is_ok(),
        reason: peer.routine.err(),
    }));
    reports
}

/// Returns the bounds that this CPU does not support, with the reason. Variants and peers have
/// their own records.
pub(crate) fn absent_bounds() -> Vec<Skipped> {
    let missing = bounds().filter(|bound| !bound.is_supported());
    let skipped = missing.map(|bound| Skipped {
        what: format!("bound {}", bound.name()),
        reason: match bound.is_compiled() {
            true => format!("this processor does not support {}", bound.isa()),
            false => format!("not part of this build; needs {}", bound.isa()),
        },
    });
    skipped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::kernels::Mix;

    fn names(kernel: Kernel, filter: &Filter) -> Vec<&'static str> {
        lineup(kernel, filter).iter().map(|(routine, _)| routine.name()).collect()
    }

    #[test]
    fn every_supported_variant_is_measured_with_its_bound() {
        for kernel in Kernel::ALL {
            let all = names(kernel, &Filter::All);
            assert!(all.contains(&SELECTED) && all.contains(&DISPATCH), "{kernel}");
            for variant in variants().filter(|variant| variant.is_supported()) {
                assert!(all.contains(&variant.name()), "{kernel} {}", variant.name());
            }
            let bounds = lineup(kernel, &Filter::All);
            assert!(bounds.iter().any(|(routine, _)| is_bound(kernel, routine)), "{kernel}");
        }
    }

    #[test]
    fn a_filter_leaves_what_it_names_and_the_bounds() {
        let filter = Filter::parse(&["portable".to_owned()]).expect("there is a portable variant");
        for (routine, _) in lineup(Kernel::Checksum, &filter) {
            assert!(routine.name() == "portable" || routine.role() == Role::Bound);
        }
        assert!(names(Kernel::Copy, &filter).contains(&"portable"));
        assert_eq!(Filter::parse(&[]), Ok(Filter::All));
        let unknown = Filter::parse(&["fast".to_owned()]).expect_err("no such variant");
        assert!(unknown.to_string().contains("portable"), "{unknown}");
    }

    #[test]
    fn inline_sums_take_part_where_headers_are_waited_for() {
        let checksums = lineup(Kernel::Checksum, &Filter::All);
        let timed = |case: Case| {
            let of_case = checksums.iter().filter(|(routine, _)| takes_part(&case, routine));
            let names = of_case.map(|(routine, _)| routine.name());
            names.filter(|name| name.starts_with(HEADER)).collect::<Vec<_>>()
        };
        for size in [20, 28, 40, 52, 60] {
            assert_eq!(timed(Case::latency(size)), [HEADER, HEADER_C]);
            assert_eq!(timed(Case::just_written(size)), [HEADER, HEADER_C]);
        }
        let others = [Case::latency(64), Case::latency(42), Case::aligned(Kernel::Checksum, 40)];
        for case in others.into_iter().chain([Case::mix(Kernel::Checksum, Mix::Imix)]) {
            assert!(timed(case).is_empty(), "{case}");
        }
        let named = Filter::parse(&[HEADER.to_owned(), DISPATCH.to_owned()]).expect("ways in");
        assert_eq!(names(Kernel::Copy, &named), [DISPATCH, MEMCPY]);
    }

    #[test]
    fn every_kernel_is_selected_from_one_variant() {
        for kernel in Kernel::ALL {
            let from = variant_reports().into_iter().filter(|v| v.selected_for.contains(&kernel));
            assert!(from.into_iter().all(|v| v.compiled && v.supported), "{kernel}");
            let from = variant_reports().into_iter().filter(|v| v.selected_for.contains(&kernel));
            assert_eq!(from.count(), 1, "{kernel}");
        }
    }
}
