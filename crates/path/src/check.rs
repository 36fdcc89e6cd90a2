// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a path file and finds all mistakes in it.
//!
//! There are three passes: the TOML library checks the syntax, continuing after errors; each
//! section and key is checked on its own against the table of keys; constraints between keys are
//! checked while building the path. Callers check what this crate cannot (missing files, CPUs that
//! the machine lacks, invalid string parameters of stages) and report errors through [`Described`].

use crate::build;
use crate::costs::{FOREIGN, GivenCosts};
use crate::fields::{Field, Fields, Read};
use crate::keys::{
    FILE, Key, Kind, MAX_SECTIONS, Omitted, Section, Variant, Variants, quoted, toml_of,
};
use crate::model::Path;
use crate::problem::{Mistake, Problem, Problems, SHOWN, line_of, shown};
use crate::spec::{Kinds, StageSpec};
use crate::{plugins, suggest, value};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A path read from a file, with its positions.
#[derive(Clone, Debug)]
pub struct Described {
    /// The path, which has passed all checks of this crate.
    pub path: Path,
    /// Costs of the stages, if given in the file.
    pub costs: Option<GivenCosts>,
    /// Specifications of the stages, in path order. A stage whose kind is missing from this build
    /// gets the specification [`FOREIGN`], with the state stated in `[costs]`.
    pub specs: Vec<StageSpec>,
    /// Positions of sections, keys and list entries, for error messages.
    pub places: Places,
}

/// Positions of sections, keys and list entries in the file.
#[derive(Clone, Debug)]
pub struct Places {
    text: String,
    /// Byte ranges by address, such as `run.rate`, `stage[2]` or `stage[2].rules[1]`.
    by_address: BTreeMap<String, Range<usize>>,
}

impl Places {
    /// Creates a problem located at the first of `addresses` that is in the file, or else at its
    /// start.
    fn problem(&self, addresses: &[String], message: &str) -> Problem {
        let found = addresses.iter().find_map(|address| self.by_address.get(address));
        Problem::locate(&self.text, &found.cloned().unwrap_or(0..0), message.to_owned(), None)
    }
}

impl Described {
    /// Creates a problem about a parameter of a stage, or about one entry of a list. Indices are
    /// 0-based. If the file omits the parameter, the problem points to the stage.
    pub fn problem_at(
        &self,
        stage: usize,
        param: &str,
        entry: Option<usize>,
        message: &str,
    ) -> Problem {
        let whole = format!("stage[{stage}].{param}");
        let entry = entry.map(|index| format!("{whole}[{index}]"));
        let addresses: Vec<_> =
            entry.into_iter().chain([whole, format!("stage[{stage}]")]).collect();
        self.places.problem(&addresses, message)
    }

    /// Creates a problem about a key of a non-repeated section, such as `file` of `source`; an
    /// empty section name is the top of the file. If the file omits the key, the problem points to
    /// the section.
    pub fn problem_at_key(&self, section: &str, key: &str, message: &str) -> Problem {
        self.places.problem(&[join(section, key), section.to_owned()], message)
    }
}

/// Reads a path file in order to run the path. `stem` is the path's name if the file does not give
/// one; `kinds` are the available kinds of stage and source.
///
/// # Errors
/// Returns all errors in the file. If it is not valid TOML, returns only syntax errors, because
/// other errors may just be consequences of the syntax errors.
pub fn read<'k>(
    text: &str,
    stem: &str,
    kinds: impl Into<Kinds<'k>>,
) -> Result<Described, Problems> {
    read_with(text, stem, kinds.into(), false)
}

/// Reads a path file that is only used for planning. With `[costs]`, stages may be of kinds that
/// are not in `kinds`.
///
/// # Errors
/// Returns all errors in the file, as [`read`] does.
pub fn read_to_plan<'k>(
    text: &str,
    stem: &str,
    kinds: impl Into<Kinds<'k>>,
) -> Result<Described, Problems> {
    read_with(text, stem, kinds.into(), true)
}

fn read_with(
    text: &str,
    stem: &str,
    kinds: Kinds<'_>,
    to_plan: bool,
) -> Result<Described, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut syntax = Vec::with_capacity(errors.len());
    // Finding the value behind an error takes a search of the whole file. Skip it if there are more
    // errors than are shown: users fix the displayed ones first.
    let mut structure_is_sound = errors.len() <= SHOWN;
    for error in &errors {
        let at = error.span().unwrap_or_default();
        let bare = match errors.len() <= SHOWN {
            true => bare_value(text, table.get_ref(), &at),
            false => None,
        };
        structure_is_sound &= bare.is_some();
        syntax.push(syntax_mistake(text, error.message(), &at, bare));
    }
    if !structure_is_sound {
        return Err(Problems::in_text(text, syntax));
    }
    let has_costs = table.get_ref().get("costs").is_some();
    let foreign = match (has_costs, to_plan) {
        (true, true) => Foreign::Allowed,
        (true, false) => Foreign::ForPlanOnly,
        (false, true) => Foreign::WithCosts,
        (false, false) => Foreign::Unknown,
    };
    let mut walk = Walk { kinds, foreign, mistakes: Vec::new(), places: BTreeMap::new() };
    let file = walk.section(&FILE, table.get_ref(), &(0..0), "");
    let Walk { mut mistakes, places, .. } = walk;
    let built = build::path(&file, stem, kinds, &mut mistakes);
    let lines: Vec<_> = syntax.iter().map(|bare| line_of(text, bare.at.start)).collect();
    mistakes.retain(|mistake| !lines.iter().any(|line| line.contains(&mistake.at.start)));
    mistakes.extend(syntax);
    match built {
        Some(built) if mistakes.is_empty() => {
            let places = Places { text: text.to_owned(), by_address: places };
            let build::Built { path, costs, specs } = built;
            Ok(Described { path, costs, specs, places })
        }
        _ => {
            debug_assert!(!mistakes.is_empty(), "no path was built, but no mistake was recorded");
            Err(Problems::in_text(text, mistakes))
        }
    }
}

/// Returns the extent of the value with a syntax error at `at`, if the extent is unambiguous, that
/// is, if the value is unquoted or missing. The TOML library and the check can then continue as if
/// the value were valid.
fn bare_value(text: &str, table: &DeTable<'_>, at: &Range<usize>) -> Option<Range<usize>> {
    table.iter().find_map(|(_, value)| bare_part(text, value, at))
}

/// Like [`bare_value`], for a single value of the table.
fn bare_part(text: &str, value: &Spanned<DeValue<'_>>, at: &Range<usize>) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Table(table) => bare_value(text, table, at),
        DeValue::Array(array) => array.iter().find_map(|entry| bare_part(text, entry, at)),
        _ => {
            let span = value.span();
            let written = text.get(span.clone())?;
            let is_bare = !written.starts_with(['"', '\'']) && !written.contains('\n');
            (is_bare && span.start <= at.start && at.end <= span.end).then_some(span)
        }
    }
}

/// Returns the mistake that most likely caused a syntax error reported by the TOML library. `bare`
/// is the extent of the unquoted or missing value, if that is the cause.
fn syntax_mistake(
    text: &str,
    message: &str,
    at: &Range<usize>,
    bare: Option<Range<usize>>,
) -> Mistake {
    if let Some(bare) = bare {
        let written = text.get(bare.clone()).unwrap_or_default();
        return if written.is_empty() {
            Mistake::new(&bare, "the value is missing")
        } else {
            Mistake::new(&bare, format!("{} is not a TOML value", shown(written)))
                .help(format!("strings need quotes: {}", quoted(written)))
        };
    }
    if message != "duplicate key" {
        return Mistake::new(at, message);
    }
    let key = text.get(at.clone()).unwrap_or_default();
    let mistake = Mistake::new(at, format!("{} is given twice", shown(key)));
    match FILE.keys.iter().find(|known| known.name == key) {
        Some(Key { kind: Kind::Tables(section), .. }) => {
            mistake.help(format!("write each one as {}", section.title))
        }
        _ => mistake,
    }
}

/// How to treat stage kinds that are missing from this build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    /// Always an error.
    Unknown,
    /// Allowed when planning the path, but an error when running it.
    ForPlanOnly,
    /// An error that adding `[costs]` would fix.
    WithCosts,
    /// Valid if the costs have an entry for the stage.
    Allowed,
}

/// State of the pass that checks sections and keys individually.
struct Walk<'k> {
    kinds: Kinds<'k>,
    foreign: Foreign,
    mistakes: Vec<Mistake>,
    places: BTreeMap<String, Range<usize>>,
}

impl Walk<'_> {
    /// Reads the section whose header is at the byte range `at`. `address` identifies the section
    /// in error messages: `stage[2]`, for example.
    fn section(
        &mut self,
        section: &Section,
        table: &DeTable<'_>,
        at: &Range<usize>,
        address: &str,
    ) -> Fields {
        self.places.insert(address.to_owned(), at.clone());
        let mut variants = plugins::variants(section, self.kinds, table);
        if section.variants == Variants::Stages && self.foreign == Foreign::Allowed {
            variants.push(Variant { kind: FOREIGN.kind, help: FOREIGN.help, keys: Vec::new() });
        }
        let variant = self.variant(section, &variants, table);
        let mut fields =
            Fields { at: at.clone(), variant: variant.map(|v| v.kind), fields: BTreeMap::new() };
        let of_variant = variant.map_or(&[][..], |variant| &variant.keys);
        for key in section.keys.iter().chain(of_variant) {
            let field = match table.get(key.name) {
                Some(given) => self.given(key, given, &join(address, key.name)),
                None => self.omitted(section, key, at, &join(address, key.name)),
            };
            fields.fields.extend(field.map(|field| (key.name, field)));
        }
        if variants.is_empty() || variant.is_some() {
            self.unknown_keys(section, &variants, variant, table);
        }
        fields
    }

    /// Returns the variant selected by the section's `kind`; `None` if there are no variants or
    /// `kind` is invalid.
    fn variant<'v>(
        &mut self,
        section: &Section,
        variants: &'v [Variant],
        table: &DeTable<'_>,
    ) -> Option<&'v Variant> {
        let key = section.keys.iter().find(|key| key.kind == Kind::Variant)?;
        let kind = match (table.get(key.name), key.omitted) {
            (Some(given), _) => match given.get_ref() {
                DeValue::String(kind) => {
                    let known = variants.iter().any(|variant| variant.kind == kind);
                    if !known {
                        if let Some(own) = variants.iter().find(|one| one.kind == FOREIGN.kind) {
                            return Some(own);
                        }
                        let words = variants.iter().map(|variant| variant.kind);
                        let mistake = value::unknown_word(key, given, kind, words);
                        self.mistakes.push(self.with_a_way_out(section, mistake));
                    }
                    kind.as_ref()
                }
                _ => return None,
            },
            (None, Omitted::Is(crate::spec::Default::Text(kind))) => kind,
            (None, _) => return None,
        };
        variants.iter().find(|variant| variant.kind == kind)
    }

    /// Adds further options to the help of an error about an unknown stage kind.
    fn with_a_way_out(&self, section: &Section, mistake: Mistake) -> Mistake {
        let help = mistake.help.clone().unwrap_or_default();
        let way = match self.foreign {
            _ if section.variants != Variants::Stages => return mistake,
            Foreign::ForPlanOnly => "a stage defined only in [costs] can be planned, not run",
            Foreign::WithCosts => "or any other kind, if [[costs.stages]] gives the stage's costs",
            _ if help.starts_with("valid") => "or your own, written with linerate new-stage",
            _ => return mistake,
        };
        mistake.help(format!("{help} ({way})"))
    }

    /// Checks the value of a key that is in the file; `None` if it is invalid.
    fn given(&mut self, key: &Key, given: &Spanned<DeValue<'_>>, address: &str) -> Option<Field> {
        self.places.insert(address.to_owned(), given.span());
        match key.kind {
            Kind::Table(section) => match given.get_ref() {
                DeValue::Table(table) => {
                    let fields = self.section(section, table, &given.span(), address);
                    Some(Field::sections(vec![fields], given.span()))
                }
                _ => self.refuse(value::wrong_type(key, given)),
            },
            Kind::Tables(section) => self.sections(key, section, given, address),
            _ => match value::read(key, given) {
                Ok(field) => {
                    for (index, item) in field.items.iter().enumerate() {
                        self.places.insert(format!("{address}[{index}]"), item.clone());
                    }
                    Some(field)
                }
                Err(mistakes) => {
                    self.mistakes.extend(mistakes);
                    None
                }
            },
        }
    }

    /// Checks all instances of a repeated section; `None` if one is not a table.
    fn sections(
        &mut self,
        key: &Key,
        section: &Section,
        given: &Spanned<DeValue<'_>>,
        address: &str,
    ) -> Option<Field> {
        let array = match given.get_ref() {
            DeValue::Array(array) if array.is_empty() => {
                let message = format!("{} must not be empty", key.shown());
                return self.refuse(value::with_example(key, Mistake::new(&given.span(), message)));
            }
            DeValue::Array(array) if array.len() > MAX_SECTIONS => {
                let (title, count) = (section.title, array.len());
                let message = format!("{count} {title}; the limit is {MAX_SECTIONS}");
                return self.refuse(Mistake::new(&given.span(), message));
            }
            DeValue::Array(array) => array,
            DeValue::Table(_) if section.title.starts_with("[[") => {
                let message = format!("'{}' is a list of sections", key.name);
                let mistake = Mistake::new(&given.span(), message);
                return self.refuse(mistake.help(format!("write each one as {}", section.title)));
            }
            _ => return self.refuse(value::wrong_type(key, given)),
        };
        let mut read = Vec::with_capacity(array.len());
        for (index, entry) in array.iter().enumerate() {
            match entry.get_ref() {
                DeValue::Table(table) => {
                    let address = format!("{address}[{index}]");
                    read.push(self.section(section, table, &entry.span(), &address));
                }
                _ => {
                    let message = format!("each entry of {} must be a table", key.shown());
                    let mistake = Mistake::new(&entry.span(), message);
                    self.mistakes.push(value::with_example(key, mistake));
                }
            }
        }
        (read.len() == array.len()).then(|| Field::sections(read, given.span()))
    }

    fn refuse(&mut self, mistake: Mistake) -> Option<Field> {
        self.mistakes.push(mistake);
        None
    }

    /// Returns the default of a key that the section at `at` omits. Omitting a required key is an
    /// error.
    fn omitted(
        &mut self,
        section: &Section,
        key: &Key,
        at: &Range<usize>,
        address: &str,
    ) -> Option<Field> {
        match (key.omitted, key.kind) {
            (Omitted::Means(_), _) => None,
            (Omitted::EmptySection, Kind::Table(inner)) => {
                let fields = self.section(inner, &DeTable::new(), at, address);
                Some(Field { at: None, ..Field::sections(vec![fields], at.clone()) })
            }
            (Omitted::EmptySection, _) => None,
            (Omitted::Is(default), _) => match toml_of(default) {
                Some(text) => self.default(key, &text, at),
                None => self.refuse(missing(section, key, at)),
            },
        }
    }

    /// Parses `text`, the default of a key, in the same way as a value in the file.
    fn default(&mut self, key: &Key, text: &str, at: &Range<usize>) -> Option<Field> {
        let read = DeValue::parse(text).ok().and_then(|value| value::read(key, &value).ok());
        match read {
            Some(field) => Some(Field { at: None, items: Vec::new(), ..field }),
            None => {
                let message = format!("the default of {} is invalid: {text}", key.shown());
                self.refuse(Mistake::new(at, message).help("give it a value"))
            }
        }
    }

    fn unknown_keys(
        &mut self,
        section: &Section,
        variants: &[Variant],
        variant: Option<&Variant>,
        table: &DeTable<'_>,
    ) {
        let of_variant = variant.map_or(&[][..], |variant| &variant.keys);
        let known: Vec<_> = section.keys.iter().chain(of_variant).collect();
        for (name, value) in table.iter() {
            let written = name.get_ref().as_ref();
            if known.iter().any(|key| key.name == written) {
                continue;
            }
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            let mut message = if is_table && section.title.is_empty() {
                format!("unknown section [{}]", written.escape_debug())
            } else {
                format!("unknown key {} {}", shown(written), section.within())
            };
            if let Some(variant) = variant {
                message += &format!(" of kind '{}'", variant.kind);
            }
            let help = meant(written, &known)
                .or_else(|| belongs(written, variants, self.kinds))
                .unwrap_or_else(|| suggest::help(written, known.iter().map(|key| key.name)));
            self.mistakes.push(Mistake::new(&name.span(), message).help(help));
        }
    }
}

impl Field {
    fn sections(read: Vec<Fields>, at: Range<usize>) -> Self {
        Self { read: Read::Sections(read), at: Some(at), items: Vec::new() }
    }
}

fn join(address: &str, key: &str) -> String {
    if address.is_empty() { key.to_owned() } else { format!("{address}.{key}") }
}

fn missing(section: &Section, key: &Key, at: &Range<usize>) -> Mistake {
    let example = key.example();
    match key.kind {
        Kind::Table(inner) | Kind::Tables(inner) if example.is_empty() => {
            let content = inner.help.trim_end_matches('.').replacen('T', "t", 1);
            let message = format!("{} is missing", key.shown());
            Mistake::new(at, message).help(format!("this section describes {content}"))
        }
        _ => {
            let message = format!("{} is missing {}", key.shown(), section.within());
            value::with_example(key, Mistake::new(at, message))
        }
    }
}

/// Returns help for an unknown key: its new name if it was renamed, or the closest known key.
fn meant(written: &str, known: &[&Key]) -> Option<String> {
    if let Some(name) = crate::renamed::now(written, known.iter().map(|key| key.name)) {
        return Some(format!("renamed to {}", shown(name)));
    }
    let near = suggest::nearest(written, known.iter().map(|key| key.name))?;
    let key = known.iter().find(|key| key.name == near)?;
    Some(format!("did you mean {}?", key.shown()))
}

/// Describes where a misplaced key belongs: in another variant, at the top of the file, or in
/// another section.
fn belongs(written: &str, variants: &[Variant], kinds: Kinds<'_>) -> Option<String> {
    let has = |keys: &[Key]| keys.iter().any(|key| key.name == written);
    if let Some(variant) = variants.iter().find(|variant| has(&variant.keys)) {
        return Some(format!("it belongs to kind '{}'", variant.kind));
    }
    let is_section = |key: &Key| matches!(key.kind, Kind::Table(_) | Kind::Tables(_));
    if FILE.keys.iter().any(|key| key.name == written && !is_section(key)) {
        return Some("it belongs at the top of the file, before all sections".to_owned());
    }
    let sections = FILE.keys.iter().filter_map(|key| match key.kind {
        Kind::Table(section) | Kind::Tables(section) => Some(section),
        _ => None,
    });
    let mut homes = sections.filter(|section| {
        has(section.keys) || section.variants(kinds).iter().any(|variant| has(&variant.keys))
    });
    homes.next().map(|section| format!("it belongs in {}", section.title))
}
