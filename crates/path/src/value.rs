// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks individual values of a path file against the definitions of their keys. Sections are not
//! values; the pass over the whole file checks them.

use crate::fields::{Field, Read};
use crate::keys::{IMIX_BYTES, Key, Kind, MAX_BUFFER_BYTES, MIN_FRAME_BYTES};
use crate::model::Value;
use crate::parse;
use crate::problem::{Mistake, shown};
use crate::spec::ParamKind;
use crate::suggest;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

type Given<'t> = Spanned<DeValue<'t>>;

/// The word for the list of frame sizes in [`IMIX_BYTES`].
pub(crate) const IMIX: &str = "imix";

/// Reads the value of a key. If the value is invalid, returns all of its errors.
pub(crate) fn read(key: &Key, given: &Given<'_>) -> Result<Field, Vec<Mistake>> {
    let read = match key.kind {
        Kind::Param(kind) => param(key, kind, given).map(Read::Value)?,
        Kind::Label => Read::Value(Value::Text(label(key, given)?)),
        Kind::Name => Read::Value(Value::Text(stage_name(key, given)?)),
        Kind::StageNames => Read::Value(Value::Texts(filled(key, texts(key, given)?, given)?)),
        Kind::PowerOfTwo { min, max } => {
            let number = power_of_two(key, ranged(key, given, min, max)?, min, max, given)?;
            Read::Value(Value::Integer(number))
        }
        Kind::BitRate => Read::Number(quantity(key, given, parse::bit_rate)?),
        Kind::Duration => Read::Number(quantity(key, given, parse::seconds)?),
        Kind::OfferedRate => Read::Rate(quantity(key, given, parse::rate)?),
        Kind::Sizes => Read::Integers(sizes(key, given)?),
        Kind::Processors => {
            let (min, max) = Kind::CPU_RANGE;
            Read::Integers(integers(key, given, min, max)?)
        }
        Kind::Variant => Read::Value(Value::Text(text(key, given)?)),
        Kind::Table(_) | Kind::Tables(_) => return Err(vec![wrong_type(key, given)]),
    };
    Ok(Field { read, at: Some(given.span()), items: items(given) })
}

/// Describes a kind of value, for messages and help.
pub(crate) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Param(ParamKind::Bool) => "true or false".to_owned(),
        Kind::Param(ParamKind::Integer { min, max: i64::MAX }) => {
            format!("an integer of at least {min}")
        }
        Kind::Param(ParamKind::Integer { min, max }) => {
            format!("an integer from {min} to {max}")
        }
        Kind::Param(ParamKind::Text) | Kind::Label => "a string".to_owned(),
        Kind::Param(ParamKind::Word(words)) => {
            format!("one of {}", suggest::list(words.iter().copied()))
        }
        Kind::Param(ParamKind::Texts) => "a list of strings".to_owned(),
        Kind::Name => "a string of letters, digits, '-' and '_'".to_owned(),
        Kind::Variant => "a word".to_owned(),
        Kind::PowerOfTwo { min, max } => format!("a power of two from {min} to {max}"),
        Kind::BitRate => "a bit rate with a unit".to_owned(),
        Kind::Duration => "a duration with a unit".to_owned(),
        Kind::Param(ParamKind::Number { max }) => format!("a number from 0 to {max}"),
        Kind::OfferedRate => {
            let words = suggest::list(parse::rate_words());
            format!("{words}, or a rate with a unit")
        }
        Kind::Sizes => format!("a size in bytes, a list of sizes, or '{IMIX}'"),
        Kind::Processors => "a list of CPU numbers".to_owned(),
        Kind::StageNames => "a list of stage names".to_owned(),
        Kind::Table(_) => "a section".to_owned(),
        Kind::Tables(_) => "a list of tables".to_owned(),
    }
}

/// Describes a value by its TOML type, for messages.
fn kind_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a floating-point number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Creates the error for a value of the wrong type.
pub(crate) fn wrong_type(key: &Key, given: &Given<'_>) -> Mistake {
    let found = kind_name(given.get_ref());
    let message = format!("{} must be {}, not {found}", key.shown(), expected(&key.kind));
    with_example(key, Mistake::new(&given.span(), message))
}

/// Adds an example of the key as the help of `mistake`, if the key has an example.
pub(crate) fn with_example(key: &Key, mistake: Mistake) -> Mistake {
    let example = key.example();
    if example.is_empty() {
        mistake
    } else {
        mistake.help(format!("example: {} = {example}", key.name))
    }
}

fn items(given: &Given<'_>) -> Vec<Range<usize>> {
    match given.get_ref() {
        DeValue::Array(array) => array.iter().map(Spanned::span).collect(),
        _ => Vec::new(),
    }
}

fn param(key: &Key, kind: ParamKind, given: &Given<'_>) -> Result<Value, Vec<Mistake>> {
    Ok(match kind {
        ParamKind::Bool => match given.get_ref() {
            DeValue::Boolean(value) => Value::Bool(*value),
            _ => return Err(vec![wrong_type(key, given)]),
        },
        ParamKind::Integer { min, max } => Value::Integer(ranged(key, given, min, max)?),
        ParamKind::Text => Value::Text(text(key, given)?),
        ParamKind::Word(words) => Value::Text(word(key, given, words)?),
        ParamKind::Texts => Value::Texts(texts(key, given)?),
        ParamKind::Number { max } => Value::Number(amount(key, given, max)?),
    })
}

fn text(key: &Key, given: &Given<'_>) -> Result<String, Vec<Mistake>> {
    match given.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(vec![wrong_type(key, given)]),
    }
}

fn word(key: &Key, given: &Given<'_>, words: &[&str]) -> Result<String, Vec<Mistake>> {
    let text = text(key, given)?;
    if words.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(vec![unknown_word(key, given, &text, words.iter().copied())])
}

/// Creates the error for the value `text`, which is not one of `words`; suggests the closest word.
pub(crate) fn unknown_word<'a>(
    key: &Key,
    given: &Given<'_>,
    text: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Mistake {
    Mistake::new(&given.span(), format!("{} cannot be {}", key.shown(), shown(text)))
        .help(suggest::help(text, words))
}

fn label(key: &Key, given: &Given<'_>) -> Result<String, Vec<Mistake>> {
    let text = text(key, given)?;
    let problem = if text.is_empty() {
        "must not be empty"
    } else if text.contains(char::is_control) {
        "must not contain control characters"
    } else {
        return Ok(text);
    };
    let mistake = Mistake::new(&given.span(), format!("{} {problem}", key.shown()));
    Err(vec![with_example(key, mistake)])
}

fn stage_name(key: &Key, given: &Given<'_>) -> Result<String, Vec<Mistake>> {
    let text = text(key, given)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !text.is_empty() && text.chars().all(allowed) {
        return Ok(text);
    }
    let message = format!("{} must be {}", key.shown(), expected(&key.kind));
    Err(vec![with_example(key, Mistake::new(&given.span(), message))])
}

/// Reads each entry of a list using `entry`. Returns the errors of all invalid entries, not only of
/// the first.
fn list<T>(
    key: &Key,
    given: &Given<'_>,
    entry: impl Fn(&Given<'_>) -> Result<T, Mistake>,
) -> Result<Vec<T>, Vec<Mistake>> {
    let DeValue::Array(array) = given.get_ref() else {
        return Err(vec![wrong_type(key, given)]);
    };
    let mut read = Vec::with_capacity(array.len());
    let mut mistakes = Vec::new();
    for given in array.iter() {
        match entry(given) {
            Ok(value) => read.push(value),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(read) } else { Err(mistakes) }
}

/// Creates the error for a list entry that is not `what`.
fn wrong_entry(key: &Key, what: &str, given: &Given<'_>) -> Mistake {
    let found = kind_name(given.get_ref());
    let message = format!("each entry of {} must be {what}, not {found}", key.shown());
    with_example(key, Mistake::new(&given.span(), message))
}

fn texts(key: &Key, given: &Given<'_>) -> Result<Vec<String>, Vec<Mistake>> {
    list(key, given, |entry| match entry.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(wrong_entry(key, "a string", entry)),
    })
}

fn filled<T>(key: &Key, list: Vec<T>, given: &Given<'_>) -> Result<Vec<T>, Vec<Mistake>> {
    if !list.is_empty() {
        return Ok(list);
    }
    let mistake = Mistake::new(&given.span(), format!("{} must not be empty", key.shown()));
    Err(vec![with_example(key, mistake)])
}

fn integers(key: &Key, given: &Given<'_>, min: i64, max: i64) -> Result<Vec<i64>, Vec<Mistake>> {
    list(key, given, |entry| match entry.get_ref() {
        DeValue::Integer(_) => in_range(key, "an entry of ", entry, min, max),
        _ => Err(wrong_entry(key, "an integer", entry)),
    })
}

fn ranged(key: &Key, given: &Given<'_>, min: i64, max: i64) -> Result<i64, Vec<Mistake>> {
    match given.get_ref() {
        DeValue::Integer(_) => in_range(key, "", given, min, max).map_err(|mistake| vec![mistake]),
        _ => Err(vec![wrong_type(key, given)]),
    }
}

/// Reads an integer from `min` to `max`, inclusive. Error messages say `part` before the key's
/// name: `an entry of `, for example.
fn in_range(key: &Key, part: &str, given: &Given<'_>, min: i64, max: i64) -> Result<i64, Mistake> {
    let DeValue::Integer(integer) = given.get_ref() else {
        return Err(wrong_type(key, given));
    };
    let read = i64::from_str_radix(integer.as_str(), integer.radix());
    if let Ok(number) = read
        && (min..=max).contains(&number)
    {
        return Ok(number);
    }
    let range = if read.is_ok() && max == i64::MAX {
        format!("at least {min}")
    } else {
        format!("from {min} to {max}")
    };
    let message = format!("{part}{} is {integer}; it must be {range}", key.shown());
    Err(Mistake::new(&given.span(), message))
}

fn amount(key: &Key, given: &Given<'_>, max: f64) -> Result<f64, Vec<Mistake>> {
    let written = match given.get_ref() {
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Integer(integer) => {
            let read = i64::from_str_radix(integer.as_str(), integer.radix());
            read.map_or_else(|_| integer.to_string(), |number| number.to_string())
        }
        _ => return Err(vec![wrong_type(key, given)]),
    };
    match written.parse::<f64>() {
        Ok(number) if (0.0..=max).contains(&number) => Ok(number),
        _ => {
            let message = format!("{} is {written}; it must be from 0 to {max}", key.shown());
            Err(vec![Mistake::new(&given.span(), message)])
        }
    }
}

fn power_of_two(
    key: &Key,
    number: i64,
    min: i64,
    max: i64,
    given: &Given<'_>,
) -> Result<i64, Vec<Mistake>> {
    let below = 1_i64 << number.ilog2();
    if below == number {
        return Ok(number);
    }
    let near = [below, below * 2].into_iter().filter(|n| (min..=max).contains(n));
    let near: Vec<_> = near.map(|n| n.to_string()).collect();
    let message = format!("{} is {number}, not a power of two", key.shown());
    Err(vec![Mistake::new(&given.span(), message).help(format!("nearest: {}", near.join(" and ")))])
}

/// Reads a string and converts it to a quantity using `parse`.
fn quantity<T>(
    key: &Key,
    given: &Given<'_>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, Vec<Mistake>> {
    let text = text(key, given)?;
    parse(&text).map_err(|why| vec![Mistake::new(&given.span(), format!("{}: {why}", key.shown()))])
}

/// Reads frame sizes. Whether they fit the buffers is checked later, with the whole file.
fn sizes(key: &Key, given: &Given<'_>) -> Result<Vec<i64>, Vec<Mistake>> {
    let (min, max) = (i64::from(MIN_FRAME_BYTES), i64::from(MAX_BUFFER_BYTES));
    let explained = |mistake: Mistake| {
        let why = format!("frame sizes exclude the 4-byte FCS, so the minimum is {min}");
        if mistake.help.is_none() { mistake.help(why) } else { mistake }
    };
    let read = match given.get_ref() {
        DeValue::String(text) if text == IMIX => Ok(IMIX_BYTES.map(i64::from).to_vec()),
        DeValue::String(text) => Err(vec![unknown_word(key, given, text, [IMIX])]),
        DeValue::Integer(_) => ranged(key, given, min, max).map(|size| vec![size]),
        _ => integers(key, given, min, max).and_then(|list| filled(key, list, given)),
    };
    read.map_err(|mistakes| mistakes.into_iter().map(explained).collect())
}
