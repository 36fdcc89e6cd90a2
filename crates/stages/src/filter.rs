// SPDX-License-Identifier: MIT OR Apache-2.0
//! `filter`: permits or denies packets by 5-tuple rules; the first match wins.
//!
//! Only the first fragment of a packet has ports. Rules with ports do not match later fragments;
//! rules without ports do. A later fragment that matches no rule is subject to the parameter
//! `fragments` instead of `default`. `fragments = "permit"` is safe, because the first fragment is
//! filtered by its ports, and a packet without its first fragment is never reassembled (RFC 1858,
//! section 2). A later TCP fragment at offset 1, which could overwrite flags in the first one, is
//! always dropped (RFC 1858, 4.2).
//!
//! Not supported: connection state, TCP flags, ICMP types.

mod rule;

use crate::headers::{array, be16, be32, protocol};
use crate::params::Reader;
use linerate_stage_api::causes;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Burst, Stage, StageContext, StageKind};
use linerate_stage_api::{Fragment, Layers};
use rule::{Key, LATER_FRAGMENT, Parsed, Rule};

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    /// Denied by a rule or by the parameter `default`.
    Denied = "denied",
    /// A later fragment that matches no rule and that the parameter `fragments` denies, or a later
    /// TCP fragment at offset 1.
    Fragment = "fragment",
}

const PERMIT_OR_DENY: ParamKind = ParamKind::Word(&["permit", "deny"]);

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "filter",
        help: "Permit or deny packets by 5-tuple rules; the first match wins.",
        params: &[
            ParamSpec {
                name: "rules",
                kind: ParamKind::Texts,
                default: Default::EmptyTexts,
                help: "\"permit|deny tcp|udp|icmp|icmp6|NUMBER|any from PREFIX|any [port N|N-M] \
                       to PREFIX|any [port N|N-M]\".",
            },
            ParamSpec {
                name: "default",
                kind: PERMIT_OR_DENY,
                default: Default::Text("permit"),
                help: "Action for a packet that no rule matches.",
            },
            ParamSpec {
                name: "fragments",
                kind: PERMIT_OR_DENY,
                default: Default::Text("permit"),
                help: "Action for a non-first fragment that no rule matches; rules with ports \
                       never match such fragments.",
            },
        ],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| Ok(Box::new(Filter::new(Reader(params))?)),
);

struct Filter {
    v4: Vec<Rule<u32>>,
    v6: Vec<Rule<u128>>,
    permit_by_default: bool,
    permit_fragments: bool,
    /// Number of rules in the path file.
    rules: usize,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    permitted: u64,
    denied: u64,
    default: u64,
    fragments: u64,
}

impl Stage for Filter {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let layers = packet.meta().layers;
            Cause::judge(self.judge(packet.bytes(), &layers))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("permitted_by_rule", self.counts.permitted),
            ("denied_by_rule", self.counts.denied),
            ("by_default", self.counts.default),
            ("by_fragment_policy", self.counts.fragments),
        ]
    }

    fn idle(&self, packets: u64) -> Option<String> {
        (self.counts.default == packets).then(|| match self.rules {
            0 => "`rules` is empty".to_owned(),
            1 => "no packet matches the only rule in `rules`".to_owned(),
            rules => format!("no packet matches any of the {rules} rules in `rules`"),
        })
    }
}

impl Filter {
    fn new(params: Reader<'_>) -> Result<Self, BuildError> {
        let mut filter = Self {
            v4: Vec::new(),
            v6: Vec::new(),
            permit_by_default: params.text("default")? == "permit",
            permit_fragments: params.text("fragments")? == "permit",
            rules: params.texts("rules")?.len(),
            counts: Counts::default(),
        };
        for (i, text) in params.texts("rules")?.iter().enumerate() {
            let Parsed { v4, v6 } = text.parse().map_err(|message| BuildError {
                param: "rules",
                index: Some(i),
                message,
            })?;
            filter.v4.extend(v4);
            filter.v6.extend(v6);
        }
        Ok(filter)
    }

    #[inline]
    fn judge(&mut self, frame: &[u8], layers: &Layers) -> Result<(), Cause> {
        let l3 = usize::from(layers.l3);
        let found = match layers.ip_version {
            4 => {
                let header: &[u8; 20] = array(frame, l3).ok_or(Cause::Unparsed)?;
                let key = key(frame, layers, be32(header, 12), be32(header, 16))?;
                first_match(&self.v4, &key)
            }
            6 => {
                let addresses: &[u8; 32] = array(frame, l3 + 8).ok_or(Cause::Unparsed)?;
                let (source, destination) = addresses.split_at(16);
                let key = key(frame, layers, be128(source), be128(destination))?;
                first_match(&self.v6, &key)
            }
            _ => return Err(Cause::Unparsed),
        };
        if layers.fragment == Fragment::Later {
            return self.judge_later(found, is_at_offset_1(frame, layers));
        }
        let (permit, count) = match found {
            Some(true) => (true, &mut self.counts.permitted),
            Some(false) => (false, &mut self.counts.denied),
            None => (self.permit_by_default, &mut self.counts.default),
        };
        *count += 1;
        if permit { Ok(()) } else { Err(Cause::Denied) }
    }

    #[cold]
    fn judge_later(&mut self, found: Option<bool>, may_overwrite: bool) -> Result<(), Cause> {
        match found {
            Some(false) => {
                self.counts.denied += 1;
                Err(Cause::Denied)
            }
            Some(true) if !may_overwrite => {
                self.counts.permitted += 1;
                Ok(())
            }
            None if self.permit_fragments && !may_overwrite => {
                self.counts.fragments += 1;
                Ok(())
            }
            _ => {
                self.counts.fragments += 1;
                Err(Cause::Fragment)
            }
        }
    }
}

#[inline]
fn key<A>(frame: &[u8], layers: &Layers, source: A, destination: A) -> Result<Key<A>, Cause> {
    let mut key = Key {
        source,
        destination,
        protocol: layers.protocol.into(),
        source_port: 0,
        destination_port: 0,
    };
    if layers.fragment == Fragment::Later {
        key.protocol |= LATER_FRAGMENT;
    } else if matches!(layers.protocol, protocol::TCP | protocol::UDP) {
        let ports: &[u8; 4] = array(frame, layers.l4.into()).ok_or(Cause::Unparsed)?;
        (key.source_port, key.destination_port) = (be16(ports, 0), be16(ports, 2));
    }
    Ok(key)
}

/// Returns the verdict of the first matching rule (`true` for permit); `None` if no rule matches.
#[inline]
fn first_match<A: rule::Address>(rules: &[Rule<A>], key: &Key<A>) -> Option<bool> {
    rules.iter().find(|rule| rule.matches(key)).map(|rule| rule.permit)
}

#[inline]
fn be128(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Returns whether a packet is a later TCP fragment at offset 1, that is, whether it starts at byte
/// 8 of the original payload and could overwrite the TCP flags.
fn is_at_offset_1(frame: &[u8], layers: &Layers) -> bool {
    let offset = match layers.ip_version {
        4 => array::<20>(frame, layers.l3.into()).map(|h| be16(h, 6) & 0x1fff),
        // In IPv6, the 8 bytes before the data of a later fragment are its fragment header.
        _ => array::<8>(frame, usize::from(layers.l4).saturating_sub(8)).map(|h| be16(h, 2) >> 3),
    };
    layers.protocol == protocol::TCP && offset == Some(1)
}
