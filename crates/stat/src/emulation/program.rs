// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that a command executes, which is an ELF file or, for a script, its interpreter; and
//! the emulator for its architecture.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of interpreters that are scripts themselves, as in the kernel.
const INTERPRETERS: usize = 4;

/// Bytes read from a program: its headers, or the first line of a script.
const HEAD_BYTES: u64 = 4096;

/// The program to emulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Path of the ELF file.
    pub(super) file: PathBuf,
    /// Arguments of the program, starting with the name under which it runs (`argv[0]`).
    pub(super) argv: Vec<OsString>,
    pub(super) elf: Elf,
}

/// Architecture of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// Class, byte order and machine, as in the file's header.
    pub(super) kind: (u8, u8, u16),
    /// Path of the dynamic linker; `None` for a static program.
    pub(super) interpreter: Option<PathBuf>,
}

/// Emulators by class (1: 32 bits, 2: 64), byte order (1: little) and machine of ELF files.
const EMULATORS: [((u8, u8, u16), &str); 14] = [
    ((2, 1, 62), "qemu-x86_64"),
    ((1, 1, 3), "qemu-i386"),
    ((1, 1, 40), "qemu-arm"),
    ((1, 2, 40), "qemu-armeb"),
    ((2, 1, 183), "qemu-aarch64"),
    ((1, 2, 20), "qemu-ppc"),
    ((2, 2, 21), "qemu-ppc64"),
    ((2, 1, 21), "qemu-ppc64le"),
    ((1, 2, 2), "qemu-sparc"),
    ((1, 2, 18), "qemu-sparc32plus"),
    ((2, 2, 43), "qemu-sparc64"),
    ((2, 1, 243), "qemu-riscv64"),
    ((1, 1, 243), "qemu-riscv32"),
    ((2, 2, 22), "qemu-s390x"),
];

impl Elf {
    /// Returns the name of the emulator; `None` if there is none for this architecture.
    pub(super) fn emulator(&self) -> Option<&'static str> {
        EMULATORS.iter().find(|(kind, _)| *kind == self.kind).map(|(_, name)| *name)
    }

    /// Returns the sysroot of programs of this architecture, such as `/usr/arm-linux-gnueabihf` on
    /// Debian; `None` if it is `/`, or if there is none.
    pub(super) fn root(&self) -> Option<PathBuf> {
        let linker = self.interpreter.as_ref()?;
        let has = |root: &Path| {
            let file = root.join(linker.strip_prefix("/").unwrap_or(linker));
            read_head(&file).and_then(|head| parse(&head)).is_some_and(|elf| elf.kind == self.kind)
        };
        if has(Path::new("/")) {
            return None;
        }
        let entries = std::fs::read_dir("/usr").ok()?.filter_map(Result::ok);
        let mut roots: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        roots.retain(|root| root.to_string_lossy().contains("-linux-"));
        roots.sort();
        roots.into_iter().find(|root| has(root))
    }
}

/// Determines which program runs if `file` is executed with these arguments. `Err` states why it
/// cannot be emulated.
pub(super) fn resolve(file: PathBuf, argv: &[OsString]) -> Result<Program, String> {
    let (mut file, mut argv) = (file, argv.to_vec());
    for _ in 0..=INTERPRETERS {
        let head = read_head(&file).ok_or_else(|| format!("{}: unreadable", file.display()))?;
        if let Some(elf) = parse(&head) {
            return Ok(Program { file, argv, elf });
        }
        let (interpreter, argument) = interpreter(&head)
            .ok_or_else(|| format!("{} is neither an ELF file nor a script", file.display()))?;
        argv[0] = file.into_os_string();
        argv.splice(0..0, [interpreter.clone()].into_iter().chain(argument));
        file = interpreter.into();
    }
    Err(format!("{}: too many interpreters", file.display()))
}

fn read_head(file: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Returns the interpreter of a script and its argument.
fn interpreter(head: &[u8]) -> Option<(OsString, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_ascii();
    let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    (!name.is_empty()).then(|| (word(name), (!rest.is_empty()).then(|| word(rest))))
}

/// Parses the headers of an ELF file (System V ABI, chapter 4).
fn parse(head: &[u8]) -> Option<Elf> {
    let number = |at: usize, bytes: usize| {
        let field = head.get(at..at.checked_add(bytes)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match head[5] {
            1 => field.iter().rev().fold(0, add),
            _ => field.iter().fold(0, add),
        })
    };
    head.strip_prefix(b"\x7fELF")?;
    let kind = (*head.get(4)?, *head.get(5)?, u16::try_from(number(18, 2)?).ok()?);
    let is_wide = kind.0 == 2;
    // Offset and size of the program headers, their number, and the fields of one of them.
    let (table, size, count) = match is_wide {
        true => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
        false => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
    };
    let mut interpreter = None;
    for index in 0..count {
        let at = usize::try_from(table.checked_add(index * size)?).ok()?;
        const PT_INTERP: u64 = 3;
        if number(at, 4) == Some(PT_INTERP) {
            let place = if is_wide { number(at + 8, 8) } else { number(at + 4, 4) };
            let text = head.get(usize::try_from(place?).ok()?..).unwrap_or(&[]);
            let text = text.split(|&byte| byte == 0).next().unwrap_or(&[]);
            interpreter = Some(PathBuf::from(OsStr::from_bytes(text)));
        }
    }
    Some(Elf { kind, interpreter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the headers of a 32-bit big-endian program whose only program header names a dynamic
    /// linker.
    fn powerpc() -> Vec<u8> {
        let mut head = vec![0; 120];
        head[..7].copy_from_slice(b"\x7fELF\x01\x02\x01");
        head[19] = 20;
        head[31] = 52;
        head[43] = 32;
        head[45] = 1;
        head[55] = 3;
        head[59] = 100;
        head[100..114].copy_from_slice(b"/lib/ld.so.1\0\0");
        head
    }

    #[test]
    fn headers_of_programs() {
        let elf = parse(&powerpc()).unwrap();
        assert_eq!((elf.kind, elf.emulator()), ((1, 2, 20), Some("qemu-ppc")));
        assert_eq!(elf.interpreter, Some("/lib/ld.so.1".into()));
        let own = parse(&read_head(Path::new("/proc/self/exe")).unwrap()).unwrap();
        let emulator = format!("qemu-{}", std::env::consts::ARCH);
        assert!(!cfg!(target_arch = "x86_64") || own.emulator() == Some(emulator.as_str()));
        assert_eq!(own.root(), None);
        assert_eq!(parse(b"\x7fELF\x02\x01"), None);
    }

    #[test]
    fn scripts_run_their_interpreters() {
        let words = |text: &str| {
            let (name, argument) = interpreter(text.as_bytes())?;
            let word = |word: OsString| word.into_string().unwrap();
            Some((word(name), argument.map(word)))
        };
        assert_eq!(words("#!/bin/sh\necho"), Some(("/bin/sh".to_owned(), None)));
        let with_argument = Some(("/usr/bin/env".to_owned(), Some("-S a b".to_owned())));
        assert_eq!(words("#! /usr/bin/env \t-S a b \n"), with_argument);
        assert_eq!(words("#!\n"), None);
        assert_eq!(words("echo"), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let own = std::env::current_exe().unwrap();
        std::fs::write(&script, format!("#!{} -x\n", own.display())).unwrap();
        let found = resolve(script.clone(), &["name".into(), "argument".into()]).unwrap();
        let argv: [OsString; 4] =
            [own.clone().into(), "-x".into(), script.into(), "argument".into()];
        assert_eq!((found.file, found.argv.as_slice()), (own, &argv[..]));
        let data = folder.path().join("data");
        std::fs::write(&data, "no program").unwrap();
        let reason = resolve(data, &["data".into()]).unwrap_err();
        assert!(reason.contains("neither an ELF file nor a script"), "{reason}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn survives_damaged_headers(at in 4usize..120, byte: u8, length in 0usize..120) {
            let mut head = powerpc();
            head[at] = byte;
            head.truncate(length);
            parse(&head);
        }
    }
}
