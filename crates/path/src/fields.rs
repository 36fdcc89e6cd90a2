// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one section of a path file, each checked individually.

use crate::model::{Params, Rate, Value};
use crate::spec::{Default, ParamSpec};
use std::collections::BTreeMap;
use std::ops::Range;

/// The value of a key, after it has been read and converted.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    Value(Value),
    /// A quantity in its base unit: bits per second for a rate, seconds for a time.
    Number(f64),
    Rate(Rate),
    Integers(Vec<i64>),
    Sections(Vec<Fields>),
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) read: Read,
    /// Byte range of the value in the file; `None` for a default.
    pub(crate) at: Option<Range<usize>>,
    /// Byte ranges of the entries if the value is a list in the file; empty otherwise.
    pub(crate) items: Vec<Range<usize>>,
}

/// The fields of a section. Keys with invalid values are absent: the mistake has been recorded, and
/// checks that depend on the value are skipped.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// Byte range of the section header or inline table.
    pub(crate) at: Range<usize>,
    /// Variant selected by the section's `kind`, if any.
    pub(crate) variant: Option<&'static str>,
    pub(crate) fields: BTreeMap<&'static str, Field>,
}

impl Fields {
    fn read(&self, key: &str) -> Option<&Read> {
        self.fields.get(key).map(|field| &field.read)
    }

    /// Returns the position of a key's value or, if the file omits the key, of the section.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        let given = self.fields.get(key).and_then(|field| field.at.clone());
        given.unwrap_or_else(|| self.at.clone())
    }

    /// Returns the position of a list entry or, if there is no such entry, of the whole value.
    pub(crate) fn item_place(&self, key: &str, index: usize) -> Range<usize> {
        let item = self.fields.get(key).and_then(|field| field.items.get(index).cloned());
        item.unwrap_or_else(|| self.place(key))
    }

    /// Returns whether the file sets the key, rather than leaving it at its default.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.fields.get(key).is_some_and(|field| field.at.is_some())
    }

    /// Returns a stage's or source's parameters; `None` if one of them could not be read.
    pub(crate) fn params(&self, specs: &[ParamSpec]) -> Option<Params> {
        let mut params = Params::new();
        for spec in specs {
            let value = match (self.read(spec.name), spec.default) {
                (Some(Read::Value(value)), _) => value.clone(),
                (None, Default::Absent(_)) => continue,
                _ => return None,
            };
            params.insert(spec.name.to_owned(), value);
        }
        Some(params)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        match self.read(key)? {
            Read::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an integer, which fits into `T` because of the key's range.
    pub(crate) fn integer<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        match self.value(key)? {
            Value::Integer(value) => T::try_from(*value).ok(),
            _ => None,
        }
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Option<&[String]> {
        match self.value(key)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.read(key)? {
            Read::Number(number) | Read::Value(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn rate(&self, key: &str) -> Option<Rate> {
        match self.read(key)? {
            Read::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    /// Returns a list of integers, which fit into `T` because of the key's range.
    pub(crate) fn integers<T: TryFrom<i64>>(&self, key: &str) -> Option<Vec<T>> {
        match self.read(key)? {
            Read::Integers(list) => list.iter().map(|&i| T::try_from(i).ok()).collect(),
            _ => None,
        }
    }

    pub(crate) fn sections(&self, key: &str) -> Option<&[Fields]> {
        match self.read(key)? {
            Read::Sections(sections) => Some(sections),
            _ => None,
        }
    }

    pub(crate) fn section(&self, key: &str) -> Option<&Fields> {
        self.sections(key)?.first()
    }
}
