// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads stages written in C or C++ from shared objects that implement `include/linerate/stage.h`.
//!
//! [`load`] reads the description in an object and turns it into a stage kind. The checker, the
//! builder, the meter and the planner treat it like any other kind. What the compiler checks for a
//! Rust stage is checked at run time: when the object is loaded (module `describe`) and after each
//! burst (`linerate_dataplane::foreign`). Calls into the object are guarded against crashes
//! (`linerate_linux::crash`).
//!
//! Objects stay loaded until the process ends, because stage kinds are `'static`.

mod abi;
mod describe;
mod stage;

use abi::RawStage;
use linerate_linux::library::Library;
use linerate_stage_api::params::{Params, Reader, fail};
use linerate_stage_api::spec::{Default, PLUGIN, ParamKind, ParamSpec, Plugin, StageSpec, State};
use linerate_stage_api::{BuildContext, BuildError, Extension, Stage, StageKind};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The header that C stages include.
pub const HEADER: &str = include_str!("../include/linerate/stage.h");

/// Path-file key that names the shared object.
const FILE: &str = "file";

/// The parameter `file`, which all stages from shared objects have.
const FILE_PARAM: ParamSpec = ParamSpec {
    name: FILE,
    kind: ParamKind::Text,
    default: Default::Required,
    help: "The shared object, relative to the path file.",
};

/// Stage kind that path files use for shared objects. Each object adds its own parameters.
const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: PLUGIN,
        help: "Run a C or C++ stage from a shared object.",
        params: &[FILE_PARAM],
        needs_headers: false,
        state: State::Global,
        keeps_order: true,
        drop_causes: &[],
    },
    build,
);

/// This crate's entries in the program's table of stage and source kinds.
pub static EXTENSION: Extension = Extension { stages: &[KIND], sources: &[] };

/// A stage from a loaded shared object.
#[derive(Clone, Copy)]
struct Loaded {
    raw: &'static RawStage,
    spec: StageSpec,
    counts: &'static [&'static str],
}

/// The stages loaded so far, by the object's file name as written in the path file.
static LOADED: Mutex<BTreeMap<String, Loaded>> = Mutex::new(BTreeMap::new());

/// Reason why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file cannot be opened; the string is the system's message.
    Unreadable(PathBuf, String),
    /// The loader rejects the file; the string is its message.
    NotLoadable(PathBuf, String),
    /// The object does not define `linerate_stage`.
    NoSymbol(PathBuf),
    /// The object was built for another version of the interface, given by the number.
    OtherVersion(PathBuf, u32),
    /// The object's description of its stage is invalid; the string says why.
    Misdescribed(PathBuf, String),
    /// The crash handlers cannot be installed; the string is the system's message.
    NoHandler(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, why) => {
                write!(f, "cannot open {}: {why}; build it first", path.display())
            }
            Self::NotLoadable(path, why) => {
                write!(f, "cannot load {} as a shared object: {why}", path.display())
            }
            Self::NoSymbol(path) => write!(
                f,
                "{} does not define `linerate_stage`: include linerate/stage.h and define it",
                path.display()
            ),
            Self::OtherVersion(path, found) => write!(
                f,
                "{} was built for version {found} of the stage interface, but this program has \
                 version {}: rebuild it with the stage.h from `linerate new-stage --lang c`",
                path.display(),
                abi::VERSION
            ),
            Self::Misdescribed(path, why) => {
                write!(f, "`linerate_stage` in {} is invalid: {why}", path.display())
            }
            Self::NoHandler(why) => write!(f, "cannot catch stage crashes: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Loads the shared object at `path`, which runs its constructors, and returns the plugin and the
/// stage kind that it defines. `file` is the object's file name as written in the path file.
///
/// # Errors
/// See [`LoadError`].
pub fn load(file: &str, path: &Path) -> Result<(Plugin, StageKind), LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable(path.into(), error.to_string());
    let path = std::path::absolute(path).map_err(unreadable)?;
    std::fs::File::open(&path).map_err(unreadable)?;
    linerate_linux::crash::install().map_err(|error| LoadError::NoHandler(error.to_string()))?;
    // SAFETY: loading runs the object's code. The user trusts this code, having named the object in
    // the path file.
    let library = unsafe { Library::open(&path) };
    let library = library.map_err(|why| LoadError::NotLoadable(path.clone(), why))?;
    let symbol = library.symbol(c"linerate_stage");
    let symbol = symbol.map_err(|_| LoadError::NoSymbol(path.clone()))?;
    // Never unload the object, so that references to its constants are valid for `'static`.
    std::mem::forget(library);
    // SAFETY: in every version of the interface, the first member is the version number.
    let version = unsafe { symbol.cast::<u32>().read() };
    if version != abi::VERSION {
        return Err(LoadError::OtherVersion(path, version));
    }
    // SAFETY: a symbol of this name and version is a `struct linerate_stage`, which is constant.
    let raw: &'static RawStage = unsafe { symbol.cast().as_ref() };
    let (name, spec, counts) =
        describe::describe(raw, file).map_err(|why| LoadError::Misdescribed(path, why))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.insert(file.to_owned(), Loaded { raw, spec, counts });
    Ok((Plugin { file: file.to_owned(), name, spec }, StageKind::new(spec, build)))
}

/// Builds the instance for one replica of a stage. The object that the parameter `file` names must
/// have been loaded.
fn build(params: &Params, context: &BuildContext) -> Result<Box<dyn Stage>, BuildError> {
    let file = Reader(params).text(FILE)?;
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner).get(file).copied();
    let loaded = loaded.ok_or_else(|| fail(FILE, format!("{file} is not loaded")))?;
    Ok(Box::new(stage::Foreigner::build(&loaded, params, context)?))
}
