// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of stages and sources, by name.

use std::collections::BTreeMap;

/// Parameters of a stage or source by name, validated against the specification of its kind.
pub type Params = BTreeMap<String, Value>;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// A floating-point number.
    Number(f64),
}
