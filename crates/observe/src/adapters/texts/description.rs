// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a program type that replies with text, from a file under `adapters`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Protocol of a program type. Fields are documented in the files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) adapter: String,
    pub(super) unit: String,
    pub(super) counter: String,
    /// Process names.
    pub(super) programs: Vec<String>,
    pub(super) transport: Transport,
    pub(super) question: String,
    pub(super) format: Format,
    /// Whether the program's counts include our queries.
    #[serde(default)]
    pub(super) counts_questions: bool,
    pub(super) received: Option<Field>,
    pub(super) sent: Option<Field>,
    pub(super) missed: Option<Field>,
    pub(super) bytes: Option<Field>,
    pub(super) others: BTreeMap<String, Field>,
}

/// How requests are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Transport {
    /// A UNIX stream socket whose path contains `path`. The reply ends with `end`, or when the
    /// program closes the connection. With `named`, only sockets that the program's configuration
    /// names are queried, as others may be for its clients.
    #[serde(rename = "unix")]
    Unix { path: String, end: Option<String>, named: Option<Named> },
    /// HTTP on one of the program's listening sockets. The page's path is that of the `location`
    /// block with `directive` in the program's configuration.
    #[serde(rename = "http")]
    Http { configuration: String, directive: String },
}

/// Where a program's configuration names its socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// Option of the command line that precedes a configuration file.
    pub(super) option: String,
    /// Words before the path.
    pub(super) after: String,
}

/// Reply format.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Format {
    /// Plain text. The value of a field is the number after the words in `after`.
    #[serde(rename = "text")]
    Text,
    /// Like `Text`, with rows that begin with the name of an interface, its number and its state.
    /// Counts only the lowest interfaces, those that are not built on others. Left out are
    /// interfaces whose name is a word of `upper` with a number, or contains a word of
    /// `containing`, and `NAME.NUMBER` if there is an interface `NAME`.
    #[serde(rename = "interfaces")]
    Interfaces { upper: Vec<String>, containing: Vec<String> },
    /// Like `Text`, in the `result` member of a JSON object.
    #[serde(rename = "json_result")]
    JsonResult,
    /// A comma-separated table. A field is a column, read from the rows that have the value `is` in
    /// the column `column`.
    #[serde(rename = "csv")]
    Csv { column: String, is: String },
}

/// Describes where a reply contains a counter. If the counter occurs several times, the values are
/// summed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    /// Text that precedes the value, or name of the column.
    pub(super) after: String,
    /// 1-based index, counted from the end of `after`, of the word that holds the value.
    #[serde(default = "first")]
    pub(super) number: usize,
    /// Source that documents this counter.
    #[serde(rename = "source")]
    _source: String,
}

fn first() -> usize {
    1
}

/// Adapters for programs that reply with text, in the order to try them.
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
    .map(|text| toml::from_str(text).expect("the built-in files are valid"))
    .collect()
}
