// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that threads were accessing when sampled. The instruction before or at the sample is
//! decoded, and its memory address is computed from the sample's registers.
//!
//! Processors take interrupts when the oldest instruction retires, so a thread is usually found
//! just past the instruction that it was stalled on, and cache lines that are slow to access are
//! seen more often than others. If the preceding instruction has no memory operand, or has
//! overwritten its address registers, the instruction at the sample is used. The stack is ignored,
//! since it belongs to one thread and is in that thread's cache. Addresses relative to `fs` and
//! `gs` are also ignored, since they are thread-local and their base is not in the sample.

mod lines;

pub(crate) use lines::{Sampled, blocks_in_use, memory_use, shared_lines};

#[cfg(target_arch = "x86_64")]
use super::maps::INSTRUCTION_BYTES;
pub(crate) use super::maps::Memory;
use super::names::Spots;
use linerate_linux::sample::Registers;
use std::collections::HashMap;

/// Whether samples have the required data on this architecture.
pub(super) const IS_POSSIBLE: bool = cfg!(target_arch = "x86_64");
/// Cache line size in bytes.
pub(crate) const LINE_BYTES: u64 = 64;
/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub memory: Memory,
    /// Address, or offset in the shared mapping.
    pub at: u64,
    pub bytes: u8,
    pub is_write: bool,
    /// Number of the code location in [`Spots`].
    pub spot: u32,
}

/// An instruction's memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operand {
    /// Registers, by index in a sample.
    base: Option<u8>,
    index: Option<u8>,
    scale: u8,
    displacement: u64,
    bytes: u8,
    is_write: bool,
}

impl Operand {
    fn address(&self, registers: &Registers) -> u64 {
        let value = |register: Option<u8>| register.map_or(0, |at| registers[usize::from(at)]);
        let index = value(self.index).wrapping_mul(u64::from(self.scale));
        self.displacement.wrapping_add(value(self.base)).wrapping_add(index)
    }
}

/// Cache of decoded instructions.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    known: HashMap<(u32, u64), Known>,
}

/// A decoded instruction.
#[derive(Debug, Default)]
struct Known {
    operands: Vec<Operand>,
    is_cipher: bool,
}

/// Maximum number of decoded instructions. In larger programs, only the first ones seen are
/// decoded.
const MAX_KNOWN: usize = 100_000;

impl Decoder {
    /// Returns the memory accesses of a sample at `ip` in a process, which are those of the
    /// instruction before or at `ip`. Their addresses are computed from `registers`.
    pub(super) fn accesses(
        &mut self,
        spots: &mut Spots,
        pid: u32,
        (ip, registers): (u64, &Registers),
        spot: u32,
    ) -> impl Iterator<Item = Access> {
        if !self.known.contains_key(&(pid, ip)) && self.known.len() < MAX_KNOWN {
            let found = spots.code(pid, ip);
            let found = found.map(|(before, code)| known(ip, &before, &code));
            self.known.insert((pid, ip), found.unwrap_or_default());
        }
        let operands = self.known.get(&(pid, ip)).map_or(&[][..], |known| &known.operands);
        operands.iter().map(move |operand| {
            let (memory, at) = spots.memory(pid, operand.address(registers));
            Access { memory, at, bytes: operand.bytes, is_write: operand.is_write, spot }
        })
    }
}

impl Decoder {
    /// Returns whether the decoded instruction of a sample at `ip` is a cipher or hash instruction.
    pub(super) fn is_cipher(&self, pid: u32, ip: u64) -> bool {
        self.known.get(&(pid, ip)).is_some_and(|known| known.is_cipher)
    }
}

/// Decodes the instructions around a sample. `before` is the code up to `ip`, `code` the code from
/// there on.
fn known(ip: u64, before: &[u8], code: &[u8]) -> Known {
    let previous = previous(ip, before).map(|start| {
        let at = before.len() - (ip - start) as usize;
        (start, &before[at..])
    });
    let of_previous = previous.map(|(start, code)| operands_of(start, code, true));
    // Use the instruction at the sample if the preceding one has no operand or has overwritten its
    // address.
    let operands = of_previous.filter(|operands| !operands.is_empty());
    let of_cipher = previous.is_some_and(|(start, code)| is_cipher(start, code));
    Known {
        operands: operands.unwrap_or_else(|| operands_of(ip, code, false)),
        is_cipher: of_cipher || is_cipher(ip, code),
    }
}

/// Returns whether the instruction at `ip` is a cipher or hash instruction.
#[cfg(target_arch = "x86_64")]
fn is_cipher(ip: u64, code: &[u8]) -> bool {
    use iced_x86::CpuidFeature::{AES, GFNI, PCLMULQDQ, SHA, VAES, VPCLMULQDQ};
    let options = iced_x86::DecoderOptions::NONE;
    let instruction = iced_x86::Decoder::with_ip(64, code, ip, options).decode();
    let features = [AES, GFNI, PCLMULQDQ, SHA, VAES, VPCLMULQDQ];
    instruction.cpuid_features().iter().any(|feature| features.contains(feature))
}

#[cfg(not(target_arch = "x86_64"))]
fn is_cipher(_: u64, _: &[u8]) -> bool {
    false
}

/// Distance in bytes between the positions at which decoding starts. Eleven positions are enough
/// for agreement.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 3;

/// Returns the start of the instruction that ends at `ip`. x86 code cannot be decoded backwards,
/// but decoding from an arbitrary byte synchronizes within a few instructions. Returns the start
/// that most attempts agree on.
#[cfg(target_arch = "x86_64")]
fn previous(ip: u64, before: &[u8]) -> Option<u64> {
    let mut votes = HashMap::<u64, u32>::new();
    for at in (0..before.len().saturating_sub(INSTRUCTION_BYTES)).step_by(STEP) {
        let start = ip - (before.len() - at) as u64;
        let options = iced_x86::DecoderOptions::NONE;
        let mut decoder = iced_x86::Decoder::with_ip(64, &before[at..], start, options);
        let mut last = None;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                last = None;
                break;
            }
            last = Some(instruction);
        }
        // A jump does not fall through to the sampled address.
        let is_passed = |one: &iced_x86::Instruction| {
            use iced_x86::FlowControl::{ConditionalBranch, Next};
            matches!(one.flow_control(), Next | ConditionalBranch)
        };
        if let Some(last) = last.filter(is_passed) {
            *votes.entry(last.ip()).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|&(start, votes)| (votes, start)).map(|(start, _)| start)
}

#[cfg(not(target_arch = "x86_64"))]
fn previous(_: u64, _: &[u8]) -> Option<u64> {
    None
}

/// Returns the memory operands of the instruction at `ip`. If it has completed (`is_done`),
/// excludes those whose registers it changed.
#[cfg(target_arch = "x86_64")]
fn operands_of(ip: u64, code: &[u8], is_done: bool) -> Vec<Operand> {
    use iced_x86::{DecoderOptions, InstructionInfoFactory, OpAccess, Register};
    let instruction = iced_x86::Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let is_changed = |register: Register| {
        let used = info.used_registers().iter();
        let mut same = used.filter(|used| used.register().full_register() == register);
        is_done && register != Register::None && same.any(|used| used.access() != OpAccess::Read)
    };
    let operand = |used: &iced_x86::UsedMemory| {
        let is_own = matches!(used.segment(), Register::FS | Register::GS);
        let (reads, writes) = directions(used.access());
        let is_unknown = is_changed(used.base()) || is_changed(used.index());
        if is_own || !(reads || writes) || is_unknown || used.base() == Register::RSP {
            return None;
        }
        Some(Operand {
            base: number_of(used.base())?,
            index: number_of(used.index())?,
            scale: used.scale() as u8,
            displacement: used.displacement(),
            bytes: used.memory_size().size().clamp(1, 64) as u8,
            is_write: writes,
        })
    };
    info.used_memory().iter().filter_map(operand).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn operands_of(_: u64, _: &[u8], _: bool) -> Vec<Operand> {
    Vec::new()
}

/// Returns whether an access reads and whether it writes, assuming that its condition, if any, is
/// met.
#[cfg(target_arch = "x86_64")]
fn directions(access: iced_x86::OpAccess) -> (bool, bool) {
    use iced_x86::OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    (
        matches!(access, Read | CondRead | ReadWrite | ReadCondWrite),
        matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite),
    )
}

/// Returns a register's index in a sample: `None` if samples lack the register, `Some(None)` if
/// there is no register.
#[cfg(target_arch = "x86_64")]
pub(crate) fn number_of(register: iced_x86::Register) -> Option<Option<u8>> {
    use iced_x86::Register as R;
    const NUMBERED: [R; 16] = [
        R::RAX,
        R::RBX,
        R::RCX,
        R::RDX,
        R::RSI,
        R::RDI,
        R::RBP,
        R::RSP,
        R::R8,
        R::R9,
        R::R10,
        R::R11,
        R::R12,
        R::R13,
        R::R14,
        R::R15,
    ];
    if register == R::None {
        return Some(None);
    }
    let number = NUMBERED.iter().position(|numbered| *numbered == register)?;
    Some(u8::try_from(number).ok())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn registers() -> Registers {
        std::array::from_fn(|number| 0x1000 * (number as u64 + 1))
    }

    fn of(code: &[u8]) -> Vec<(u64, u8, bool)> {
        let found = known(0x40_0000, &[], code).operands;
        let seen = |one: &Operand| (one.address(&registers()), one.bytes, one.is_write);
        found.iter().map(seen).collect()
    }

    #[test]
    fn addresses_follow_from_registers() {
        // mov eax, [rbx + rcx*4 + 8]
        assert_eq!(of(&[0x8b, 0x44, 0x8b, 0x08]), [(0x2000 + 4 * 0x3000 + 8, 4, false)]);
        // lock inc qword [r8]
        assert_eq!(of(&[0xf0, 0x49, 0xff, 0x00]), [(0x9000, 8, true)]);
        // mov [rip + 0x10], al: relative to the end of the six-byte instruction
        assert_eq!(of(&[0x88, 0x05, 0x10, 0, 0, 0]), [(0x40_0016, 1, true)]);
    }

    #[test]
    fn a_thread_is_found_behind_the_instruction_that_it_waited_for() {
        // 12 times: mov rdx, [rdi]; add rdx, 1; mov [rdi], rdx. The sample is after the first mov.
        let code = [0x48, 0x8b, 0x17, 0x48, 0x83, 0xc2, 0x01, 0x48, 0x89, 0x17].repeat(12);
        let found = known(0x40_0000, &code[..43], &code[43..58]).operands;
        let seen: Vec<_> = found.iter().map(|one| (one.bytes, one.is_write)).collect();
        assert_eq!(seen, [(8, false)]);
        // After the second mov: the sample is at the first mov, just past the last iteration's
        // second mov.
        let found = known(0x40_0000, &code[..50], &code[50..65]).operands;
        assert!(found[0].is_write);
        // mov rax, [rax] has overwritten its address, so the next instruction is used: mov [rdi],
        // rdx.
        let chase = [0x48, 0x8b, 0x00].repeat(16);
        let found = known(0x40_0000, &chase, &[0x48, 0x89, 0x17]).operands;
        assert!(found.len() == 1 && found[0].is_write);
    }

    #[test]
    fn the_stack_memory_of_one_thread_and_registers_are_no_access() {
        // push rax; mov rax, [rsp + 8]; mov rax, fs:[0x28]; add rax, rbx
        for code in [
            &[0x50][..],
            &[0x48, 0x8b, 0x44, 0x24, 0x08],
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
            &[0x48, 0x01, 0xd8],
        ] {
            assert_eq!(of(code), []);
        }
    }

    #[test]
    fn instructions_of_ciphers_are_recognized() {
        // aesenc xmm0, xmm1; sha256rnds2 xmm0, xmm1; pclmulqdq xmm0, xmm1, 0; pxor xmm0, xmm1
        let codes: [(&[u8], bool); 4] = [
            (&[0x66, 0x0f, 0x38, 0xdc, 0xc1], true),
            (&[0x0f, 0x38, 0xcb, 0xc1], true),
            (&[0x66, 0x0f, 0x3a, 0x44, 0xc1, 0x00], true),
            (&[0x66, 0x0f, 0xef, 0xc1], false),
        ];
        for (code, is_cipher) in codes {
            assert_eq!(known(0x40_0000, &[], code).is_cipher, is_cipher);
            // A slow instruction is sampled at the instruction after it.
            let before = [&[0x66, 0x0f, 0xef, 0xc1].repeat(15), code].concat();
            assert_eq!(known(0x40_0000, &before, &[0x90; 15]).is_cipher, is_cipher);
        }
    }

    #[test]
    fn a_copy_reads_and_writes() {
        // rep movsb: from rsi to rdi
        let found = of(&[0xf3, 0xa4]);
        assert!(found.iter().any(|&(at, _, is_write)| at == 0x6000 && is_write), "{found:?}");
        assert!(found.iter().any(|&(at, _, is_write)| at == 0x5000 && !is_write), "{found:?}");
    }
}
