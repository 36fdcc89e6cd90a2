// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the shared objects that a path file names. They must be loaded before the file can be
//! checked, because they declare the parameters of their stages.

use crate::keys::{Section, Variant, Variants};
use crate::model::StageUse;
use crate::problem::Problem;
use crate::spec::{Kinds, PLUGIN};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A shared object that a path file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The object's file name, as written in the path file.
    pub file: String,
    at: Range<usize>,
}

impl Named {
    /// Creates a problem with this object. It is located where the path file, `text`, names the
    /// object.
    pub fn problem(&self, text: &str, message: &str) -> Problem {
        Problem::locate(text, &self.at, message.to_owned(), None)
    }
}

/// Returns the shared objects that a path file names, each once. `text` is the path file; its
/// mistakes are ignored, because the subsequent check reports them.
pub fn plugins(text: &str) -> Vec<Named> {
    let (file, _) = DeTable::parse_recoverable(text);
    let Some(DeValue::Array(stages)) = file.get_ref().get("stage").map(Spanned::get_ref) else {
        return Vec::new();
    };
    let mut found: Vec<Named> = Vec::new();
    for stage in stages.iter() {
        let DeValue::Table(stage) = stage.get_ref() else { continue };
        let Some(named) = self::file(stage) else { continue };
        let (file, at) = (named.get_ref().to_string(), named.span());
        if !found.iter().any(|other| other.file == file) {
            found.push(Named { file, at });
        }
    }
    found
}

/// Returns whether a stage comes from a shared object.
pub fn is_plugin(stage: &StageUse) -> bool {
    stage.kind.strip_prefix(PLUGIN).is_some_and(|rest| rest.starts_with(' '))
}

/// Returns the variants of a section. If the section describes a stage from a loaded shared object,
/// the variant `plugin` has the keys that this object declares.
pub(crate) fn variants(section: &Section, kinds: Kinds<'_>, table: &DeTable<'_>) -> Vec<Variant> {
    let mut variants = section.variants(kinds);
    let is_stage = section.variants == Variants::Stages;
    let named = file(table).filter(|_| is_stage);
    let plugin = named.and_then(|file| kinds.plugin(file.get_ref()));
    let variant = variants.iter_mut().find(|variant| variant.kind == PLUGIN);
    if let Some((plugin, variant)) = plugin.zip(variant) {
        *variant = Variant { kind: PLUGIN, ..Variant::of_stage(&plugin.spec) };
    }
    variants
}

/// Returns the shared object's file name in a stage's section; `None` if the stage is not a plugin.
pub(crate) fn file<'t>(stage: &'t DeTable<'_>) -> Option<Spanned<&'t str>> {
    let text = |key: &str| match stage.get(key)?.get_ref() {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    };
    let file = text("file").filter(|_| text("kind") == Some(PLUGIN))?;
    Some(Spanned::new(stage.get("file")?.span(), file))
}
