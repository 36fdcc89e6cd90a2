// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a program type that replies with text, from a file in `adapters`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Protocol of a program type; the files document each field.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) adapter: String,
    pub(super) unit: String,
    pub(super) counter: String,
    /// Names of the program's processes.
    pub(super) programs: Vec<String>,
    pub(super) transport: Transport,
    pub(super) question: String,
    pub(super) format: Format,
    /// Whether the program's own counts include each query.
    #[serde(default)]
    pub(super) counts_questions: bool,
    pub(super) received: Option<Field>,
    pub(super) sent: Option<Field>,
    pub(super) missed: Option<Field>,
    pub(super) bytes: Option<Field>,
    pub(super) others: BTreeMap<String, Field>,
}

/// Transport of the requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Transport {
    /// A UNIX stream socket whose path contains this; the reply ends with `end`, or when the
    /// program closes the connection.
    #[serde(rename = "unix")]
    Unix { path: String, end: Option<String> },
    /// HTTP on one of the program's listening sockets. The page path is that of the location with
    /// this directive in its configuration.
    #[serde(rename = "http")]
    Http { configuration: String, directive: String },
}

/// Format of a reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Format {
    /// Text in which a field is the number after the field's words.
    #[serde(rename = "text")]
    Text,
    /// Text as above, in the `result` member of a JSON object.
    #[serde(rename = "json_result")]
    JsonResult,
    /// Comma-separated table: a field is a column of the rows that have `is` in the column
    /// `column`.
    #[serde(rename = "csv")]
    Csv { column: String, is: String },
}

/// Position of a number; several are summed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    /// Words before the number, or the name of the column.
    pub(super) after: String,
    /// Index of the number after these words, counted from 1.
    #[serde(default = "first")]
    pub(super) number: usize,
    /// Source that documents this counter.
    #[serde(rename = "source")]
    _source: String,
}

fn first() -> usize {
    1
}

/// Adapters of programs that reply with text, in the order in which they are tried.
pub(super) fn all() -> Vec<Description> {
    [
        include_str!("../../../adapters/haproxy.toml"),
        include_str!("../../../adapters/nginx.toml"),
        include_str!("../../../adapters/ovs-userspace.toml"),
        include_str!("../../../adapters/ovs-kernel.toml"),
        include_str!("../../../adapters/vpp.toml"),
        include_str!("../../../adapters/wireguard.toml"),
    ]
    .iter()
    .map(|text| toml::from_str(text).expect("the files are tested"))
    .collect()
}
