// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of network interfaces: `[[port]]`, and `kind = "interface"` of source and sink.

use super::{Key, Kind, Omitted, REQUIRED, Section, Variants, key, text};
use crate::model::Io;
use crate::spec::{Default, ParamKind};

/// The key that names the interface of a source or sink.
pub(super) const INTERFACE_NAME: Key =
    key("name", Kind::Label, REQUIRED, "Name of the network interface.", "\"veth0\"");

pub(super) const IO: Key = key(
    "io",
    Kind::Param(ParamKind::Word(&Io::WORDS)),
    text("af_packet"),
    "How frames are exchanged with the kernel: through packet sockets with a receive ring, AF_XDP \
     sockets in copy mode, or a TAP interface.",
    "",
);

pub(super) const PROMISCUOUS: Key = key(
    "promiscuous",
    Kind::Param(ParamKind::Bool),
    Omitted::Is(Default::Bool(false)),
    "During the run, also receive frames addressed to other stations.",
    "",
);

pub(super) static PORT: Section = Section {
    title: "[[port]]",
    help: "The two network interfaces of a forwarder; packets received on one port leave through \
           the other.",
    variants: Variants::None,
    keys: &[
        key(
            "name",
            Kind::Name,
            REQUIRED,
            "Name of the port in reports; must be unique.",
            "\"inside\"",
        ),
        key("interface", Kind::Label, REQUIRED, "Name of the network interface.", "\"veth0\""),
        IO,
        PROMISCUOUS,
    ],
};
