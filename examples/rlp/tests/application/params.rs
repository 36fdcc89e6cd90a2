// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage error messages for invalid parameters.

use crate::rig::defaults;
use linerate_rlp::app::KINDS;
use linerate_stage_api::BuildContext;
use linerate_stage_api::params::Value;

/// Returns a stage kind's error message with one parameter changed from its default; empty if
/// accepted.
fn message(kind: &str, name: &str, value: Value) -> String {
    let mut params = defaults(kind);
    let kind = KINDS.iter().find(|known| known.spec.kind == kind).expect("a kind");
    assert!(params.insert(name.to_owned(), value).is_some(), "{name}");
    let context = BuildContext { replica: 0, replicas: 1 };
    (kind.build)(&params, &context).err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn refusals_name_the_parameter_and_what_to_write() {
    let text = |value: &str| Value::Text(value.to_owned());
    let rings = message("RLP", "ring_bytes", Value::Integer(5_000));
    assert!(rings.starts_with("ring_bytes: ") && rings.contains("power of two"), "{rings}");
    for wrong in ["1,2,300", "0", "x", "1,,2", "1,1,1,1,1,1,1,1,1"] {
        let rounds = message("RLP", "nak_rounds", text(wrong));
        assert!(rounds.starts_with("nak_rounds: ") && rounds.contains("\"1,2,3\""), "{rounds}");
    }
    for sound in ["", "1", "1, 2, 3", "unlimited", "1,1,1,1,1,1,1,1"] {
        assert_eq!(message("RLP", "nak_rounds", text(sound)), "");
    }
    for kind in ["PDSN_TX", "PDSN_RXTX"] {
        let address = message(kind, "local", text("192.0.2"));
        assert!(address.contains("is not an IPv4 address"), "{address}");
    }
    for kind in ["ATIF_TX", "ATIF_RXTX", "PDSN_TX"] {
        let address = message(kind, "source_mac", text("02:00"));
        assert!(address.contains("is not a MAC address"), "{address}");
    }
}
