// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the description of a stage from a shared object, and checks at load time what the compiler
//! checks for a Rust stage.

use crate::abi::{
    NEEDS_HEADERS, REORDERS, RawParam, RawStage, STATE_GLOBAL, STATE_NONE, STATE_PER_FLOW,
    TYPE_BOOL, TYPE_INTEGER, TYPE_TEXT,
};
use crate::{FILE, FILE_PARAM};
use linerate_stage_api::MAX_CAUSES;
use linerate_stage_api::spec::{
    Default, PLUGIN, ParamKind, ParamSpec, STAGE_KEYS, StageSpec, State,
};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};

/// Maximum number of counters that a stage may define.
const MAX_COUNTS: usize = 32;

/// Maximum number of parameters per stage.
const MAX_PARAMS: usize = 64;

/// A stage's name, specification and counter names.
pub(crate) type Description = (&'static str, StageSpec, &'static [&'static str]);

/// Reads and checks the description of a stage. `file` is the shared object's file name, as written
/// in the path file.
pub(crate) fn describe(raw: &'static RawStage, file: &str) -> Result<Description, String> {
    let name = text(raw.name, "name")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        return Err(format!("`name` is \"{name}\": use letters, digits, - and _"));
    }
    let help = text(raw.help, "help")?;
    if raw.flags & !(NEEDS_HEADERS | REORDERS) != 0 || raw.reserved != 0 {
        return Err(format!(
            "`flags` ({:#x}) has unknown bits, or `reserved` ({}) is not 0",
            raw.flags, raw.reserved
        ));
    }
    let state = match raw.state {
        STATE_NONE => State::None,
        STATE_PER_FLOW => State::PerFlow,
        STATE_GLOBAL => State::Global,
        other => {
            return Err(format!(
                "`state` is {other}: declare LINERATE_STATE_NONE, _PER_FLOW or _GLOBAL"
            ));
        }
    };
    if raw.process.is_none() {
        return Err("`process` is NULL".to_owned());
    }
    let drop_causes = names(raw.drop_causes, "drop_causes", MAX_CAUSES)?;
    let counts = names(raw.counts, "counts", MAX_COUNTS)?;
    if counts.is_empty() == raw.read_counts.is_some() {
        return Err("`counts` and `read_counts` must be given together".to_owned());
    }
    let spec = StageSpec {
        kind: Box::leak(format!("{PLUGIN} {file}").into_boxed_str()),
        help,
        params: params(raw.params)?,
        needs_headers: raw.flags & NEEDS_HEADERS != 0,
        state,
        keeps_order: raw.flags & REORDERS == 0,
        drop_causes,
    };
    Ok((name, spec, counts))
}

/// Returns the C string at `pointer`, which is a constant in the object. Error messages refer to it
/// as `field`.
fn text(pointer: *const c_char, field: &str) -> Result<&'static str, String> {
    if pointer.is_null() {
        return Err(format!("`{field}` is NULL"));
    }
    // SAFETY: stage.h requires a NUL-terminated constant, and the object is never unloaded.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| format!("`{field}` is not UTF-8"))?;
    match text.chars().any(char::is_control) {
        true => Err(format!("`{field}` contains control characters")),
        false => Ok(text),
    }
}

/// Returns the names in a NULL-terminated list. A NULL pointer is an empty list.
fn names(
    list: *const *const c_char,
    field: &str,
    most: usize,
) -> Result<&'static [&'static str], String> {
    let mut names = Vec::new();
    if !list.is_null() {
        loop {
            // SAFETY: by stage.h, every entry that is not NULL is followed by another entry.
            let entry = unsafe { *list.add(names.len()) };
            if entry.is_null() {
                break;
            }
            if names.len() == most {
                return Err(format!("`{field}` has more than {most} names or lacks a final NULL"));
            }
            names.push(text(entry, field)?);
        }
    }
    match names.iter().collect::<BTreeSet<_>>().len() == names.len() && !names.contains(&"") {
        true => Ok(names.leak()),
        false => Err(format!("`{field}` contains an empty or duplicate name")),
    }
}

/// Returns the stage's parameters: `file`, which all stages from objects have, then those that the
/// object declares.
fn params(list: *const RawParam) -> Result<&'static [ParamSpec], String> {
    let mut params = vec![FILE_PARAM];
    loop {
        if list.is_null() {
            break;
        }
        // SAFETY: by stage.h, every entry that has a name is followed by another entry.
        let raw = unsafe { &*list.add(params.len() - 1) };
        if raw.name.is_null() {
            break;
        }
        if params.len() > MAX_PARAMS {
            return Err(format!(
                "more than {MAX_PARAMS} `params`, or LINERATE_PARAMS_END is missing"
            ));
        }
        let param = param(raw)?;
        if params.iter().any(|other| other.name == param.name) {
            return Err(format!("two `params` are named \"{}\"", param.name));
        }
        params.push(param);
    }
    Ok(params.leak())
}

fn param(raw: &'static RawParam) -> Result<ParamSpec, String> {
    let name = text(raw.name, "params")?;
    let is_key = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() || !is_key(name) || name == FILE || STAGE_KEYS.contains(&name) {
        return Err(format!(
            "invalid parameter name \"{name}\": use only letters, digits and _; kind, name, only \
             and file are reserved"
        ));
    }
    let is_required = raw.required != 0;
    let (kind, default) = match raw.kind {
        TYPE_INTEGER if raw.min <= raw.max => {
            if !is_required && !(raw.min..=raw.max).contains(&raw.integer) {
                let (min, max) = (raw.min, raw.max);
                return Err(format!(
                    "the default of \"{name}\", {}, is not between {min} and {max}",
                    raw.integer
                ));
            }
            let kind = ParamKind::Integer { min: raw.min, max: raw.max };
            (kind, Default::Integer(raw.integer))
        }
        TYPE_INTEGER => return Err(format!("\"{name}\" has a `min` above its `max`")),
        TYPE_BOOL => (ParamKind::Bool, Default::Bool(raw.integer != 0)),
        TYPE_TEXT if is_required => (ParamKind::Text, Default::Required),
        TYPE_TEXT => (ParamKind::Text, Default::Text(text(raw.text, name)?)),
        other => {
            return Err(format!(
                "\"{name}\" has unknown type {other}: declare it with a macro from stage.h, such \
                 as LINERATE_INTEGER"
            ));
        }
    };
    let default = if is_required { Default::Required } else { default };
    Ok(ParamSpec { name, kind, default, help: text(raw.help, name)? })
}
