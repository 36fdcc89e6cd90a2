// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes a sampled function to find the instruction that the thread was stalled on. x86-64 only.
//!
//! A processor takes an interrupt between two instructions. The instruction before the sampled
//! address was the oldest one in flight, hence the one that the thread waited for. Functions are
//! decoded in order from their first byte, so the preceding instruction is unambiguous.

use super::waited::{Kind, Memory, Waited};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use std::collections::HashSet;

/// Maximum number of instructions in a loop, and from a sample to the end of its loop; longer loops
/// are not recognized.
const MAX_LOOP: usize = 256;
/// Maximum number of instructions from the load of a polled variable to the `pause`.
const MAX_POLL: usize = 8;
/// Maximum number of bytes decoded.
const MAX_BYTES: usize = 4 << 20;

/// The code of a function from its first byte.
pub(super) struct Code {
    bytes: Vec<u8>,
    /// Offsets of instructions, ascending.
    starts: Vec<u32>,
    /// Offsets of the targets of direct branches.
    targets: HashSet<u64>,
}

impl Code {
    /// Decodes a function. `bytes` may extend past its end.
    pub(super) fn new(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(MAX_BYTES);
        let mut code = Self { bytes, starts: Vec::new(), targets: HashSet::new() };
        let mut decoder = Decoder::with_ip(64, &code.bytes, 0, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            code.starts.push(instruction.ip() as u32);
            if let Some(target) = target(&instruction) {
                code.targets.insert(target);
            }
        }
        code
    }

    fn decode(&self, index: usize) -> Instruction {
        let at = self.starts[index] as usize;
        Decoder::with_ip(64, &self.bytes[at..], at as u64, DecoderOptions::NONE).decode()
    }

    /// Returns the instruction that a thread sampled at `offset` was stalled on; `None` if no
    /// instruction starts there.
    pub(super) fn waited(&self, offset: u64) -> Option<Waited> {
        let at = self.starts.binary_search(&u32::try_from(offset).ok()?).ok()?;
        let here = self.decode(at);
        let before = at.checked_sub(1).map(|before| self.decode(before));
        let before = before.filter(|one| one.flow_control() == FlowControl::Next);
        // A `rep` string instruction is interrupted between two of its own iterations.
        let before =
            if here.has_rep_prefix() && here.is_string_instruction() { Some(here) } else { before };
        let body = self.straight_loop(at);
        let is_behind = body.is_none()
            && match &before {
                Some(_) => self.is_behind_branch(at - 1),
                None => self.is_behind_branch(at),
            };
        let carried = body.as_deref().map(carried_loads).unwrap_or_default();
        let (kind, memory) = match &before {
            Some(one) => kind_of(one, carried.contains(&one.ip())),
            // The sampled instruction was reached by a branch.
            None => (Kind::Branch, None),
        };
        // If the registers of the preceding instruction's operand have changed, use the operand of
        // the sampled instruction. A spin loop loads the polled variable before the `pause`.
        let memory = memory.or_else(|| operand(&here, false));
        let polled = || {
            let before = (at.saturating_sub(MAX_POLL)..at).rev();
            before.into_iter().find_map(|index| operand(&self.decode(index), true))
        };
        let memory = if kind == Kind::Pause { memory.or_else(polled) } else { memory };
        Some(Waited { kind, memory, is_behind, is_straight: body.is_some() })
    }

    /// Returns whether an instruction is a branch target or directly follows a branch.
    fn is_behind_branch(&self, at: usize) -> bool {
        // After an unconditional jump or a return, an instruction can only be reached by a branch,
        // for example through a jump table.
        let is_branch = |one: &Instruction| {
            use FlowControl::{ConditionalBranch, IndirectBranch, Return, UnconditionalBranch};
            let flow = one.flow_control();
            matches!(flow, ConditionalBranch | IndirectBranch | UnconditionalBranch | Return)
        };
        let follows = at.checked_sub(1).is_some_and(|before| is_branch(&self.decode(before)));
        follows || self.targets.contains(&u64::from(self.starts[at]))
    }

    /// Returns the loop around an instruction if its back edge is the only branch in it.
    fn straight_loop(&self, at: usize) -> Option<Vec<Instruction>> {
        let ahead = (at..self.starts.len()).take(MAX_LOOP).map(|index| (index, self.decode(index)));
        let (end, branch) =
            ahead.into_iter().find(|(_, one)| one.flow_control() != FlowControl::Next)?;
        if branch.flow_control() != FlowControl::ConditionalBranch {
            return None;
        }
        let start = u32::try_from(target(&branch)?).ok()?;
        let start = self.starts.binary_search(&start).ok().filter(|start| *start <= at)?;
        if end - start >= MAX_LOOP {
            return None;
        }
        let body: Vec<Instruction> = (start..=end).map(|index| self.decode(index)).collect();
        let rest = &body[..body.len() - 1];
        // A branch into the middle would add a second path.
        let is_entered = |one: &Instruction| {
            one.ip() != u64::from(self.starts[start]) && self.targets.contains(&one.ip())
        };
        let is_plain = |one: &Instruction| one.flow_control() == FlowControl::Next;
        (rest.iter().all(is_plain) && !rest.iter().any(is_entered)).then_some(body)
    }
}

/// Target of a direct branch.
fn target(instruction: &Instruction) -> Option<u64> {
    use FlowControl::{ConditionalBranch, UnconditionalBranch};
    let is_branch = matches!(instruction.flow_control(), ConditionalBranch | UnconditionalBranch);
    is_branch.then(|| instruction.near_branch_target())
}

/// Classifies the instruction that the thread was stalled on when sampled, and returns its memory
/// operand if the address can still be computed. `is_carried` means that the address depends on a
/// load in the previous iteration.
fn kind_of(instruction: &Instruction, is_carried: bool) -> (Kind, Option<Memory>) {
    let through_register = operand(instruction, false).filter(|memory| !memory.is_fixed);
    let valid = operand(instruction, true);
    let is_atomic = instruction.has_lock_prefix()
        || (instruction.mnemonic() == Mnemonic::Xchg && through_register.is_some());
    if instruction.mnemonic() == Mnemonic::Pause {
        return (Kind::Pause, None);
    }
    if is_atomic {
        return (Kind::Atomic, valid);
    }
    let Some(memory) = through_register else {
        let kind = if is_long(instruction) { Kind::Long } else { Kind::Simple };
        return (kind, valid);
    };
    if !memory.is_read {
        return (Kind::Store, valid);
    }
    // mov rax, [rax + 8]: the loaded value is the base of the next load.
    let is_chase = valid.is_none() && is_own_address(instruction);
    match is_chase || is_carried {
        true => (Kind::DependentLoad, valid.or(is_chase.then_some(memory))),
        false => (Kind::Load, valid),
    }
}

/// Returns whether a load overwrites its own base register.
fn is_own_address(instruction: &Instruction) -> bool {
    instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == instruction.memory_base()
}

/// Returns the memory operand unless it is relative to `fs`, `gs` or the stack pointer. If
/// `is_done`, the instruction has completed, and its operand is returned only if the instruction
/// did not change the registers of the address.
fn operand(instruction: &Instruction, is_done: bool) -> Option<Memory> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let is_changed = |register: Register| {
        let mut same =
            info.used_registers().iter().filter(|used| used.register().full_register() == register);
        is_done && register != Register::None && same.any(|used| used.access() != OpAccess::Read)
    };
    let of = |used: &UsedMemory| {
        use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
        let is_own = matches!(used.segment(), Register::FS | Register::GS);
        let is_read = matches!(used.access(), Read | CondRead | ReadWrite | ReadCondWrite);
        let is_write = matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite);
        let is_unknown = is_changed(used.base()) || is_changed(used.index());
        if is_own || !(is_read || is_write) || is_unknown || used.base() == Register::RSP {
            return None;
        }
        let is_fixed = used.base() == Register::None && used.index() == Register::None;
        Some(Memory {
            base: number(used.base())?,
            index: number(used.index())?,
            scale: used.scale() as u8,
            displacement: used.displacement(),
            is_relative: instruction.is_ip_rel_memory_operand(),
            is_fixed,
            bytes: used.memory_size().size().clamp(1, 64) as u8,
            is_read,
            is_write,
        })
    };
    info.used_memory().iter().find_map(of)
}

/// Returns a register's index in a sample: `None` if samples lack the register, `Some(None)` if
/// there is no register.
fn number(register: Register) -> Option<Option<u8>> {
    crate::sampler::register_number(register)
}

/// Returns whether an instruction takes more than two cycles even with register operands:
/// multiplication, division, square root, floating point, cryptography (Fog, Instruction tables).
fn is_long(instruction: &Instruction) -> bool {
    const BEGINNINGS: [&str; 23] = [
        "Div", "Idiv", "Mul", "Imul", "Sqrt", "Fmadd", "Fmsub", "Fnmadd", "Fnmsub", "Pmul",
        "Pmadd", "Crc32", "Pclmul", "Aes", "Sha1", "Sha256", "Rcp", "Rsqrt", "Cvt", "Round",
        "Fdiv", "Fmul", "Fsqrt",
    ];
    const FLOATS: [&str; 4] = ["ss", "sd", "ps", "pd"];
    let name = format!("{:?}", instruction.mnemonic());
    let capital = |rest: &str| {
        let mut letters = rest.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    let name = name.strip_prefix('V').map_or_else(|| name.clone(), capital);
    let is_sum = name.starts_with("Add") || name.starts_with("Sub");
    let is_float_sum = is_sum && FLOATS.iter().any(|end| name.ends_with(end));
    let is_x87 = matches!(name.as_str(), "Fadd" | "Fsub" | "Faddp" | "Fsubp");
    is_float_sum || is_x87 || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Returns the offsets of the loads in a loop whose address depends on a load in the previous
/// iteration.
///
/// ```text
/// first iteration:  a register is tainted if it is loaded or computed from tainted registers
/// second iteration: likewise, except that a load taints only if its address is tainted;
///                   a load with a tainted address depends on the previous iteration
/// ```
///
/// The taint of `[a[b[i]]]` ends within its own iteration. The taint of a pointer chase or a table
/// walk carries over into the next one.
fn carried_loads(body: &[Instruction]) -> HashSet<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut tainted: HashSet<Register> = HashSet::new();
    let mut carried = HashSet::new();
    for is_second in [false, true] {
        for instruction in body {
            let info = factory.info(instruction);
            let memory = info.used_memory().first().filter(|used| used.access() != OpAccess::Write);
            let of_address = |used: &&UsedMemory| {
                [used.base(), used.index()].iter().any(|register| tainted.contains(register))
            };
            let is_from_taint = memory.filter(of_address).is_some();
            if is_second && is_from_taint {
                carried.insert(instruction.ip());
            }
            let is_loaded = memory.is_some() && (!is_second || is_from_taint);
            let reads = |access| matches!(access, OpAccess::Read | OpAccess::ReadWrite);
            let writes = |access| matches!(access, OpAccess::Write | OpAccess::ReadWrite);
            let used = info.used_registers();
            let mut sources = used.iter().filter(|one| reads(one.access()));
            let is_tainted =
                is_loaded || sources.any(|one| tainted.contains(&one.register().full_register()));
            for one in used.iter().filter(|one| writes(one.access())) {
                let register = one.register().full_register();
                match is_tainted {
                    true => tainted.insert(register),
                    false => tainted.remove(&register),
                };
            }
        }
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::*;

    /// add rdx, 1; mov rax, [rax]; cmp rsi, rdx; jne -12; ret
    const CHASE: [u8; 13] =
        [0x48, 0x83, 0xc2, 1, 0x48, 0x8b, 0, 0x48, 0x39, 0xd6, 0x75, 0xf4, 0xc3];

    fn waited(bytes: &[u8], offset: u64) -> Waited {
        Code::new(bytes.to_vec()).waited(offset).unwrap()
    }

    #[test]
    fn a_sample_behind_a_chase_waits_for_a_dependent_load() {
        let found = waited(&CHASE, 7);
        assert_eq!((found.kind, found.is_straight), (Kind::DependentLoad, true));
        // The loaded value is the address of the next load.
        let registers: [u64; 16] = std::array::from_fn(|number| 0x1000 + number as u64);
        assert_eq!(found.memory.unwrap().address(&registers, 0), 0x1000);
        // The loop's first instruction waits for the back edge.
        assert_eq!(waited(&CHASE, 0).kind, Kind::Branch);
        assert!(Code::new(CHASE.to_vec()).waited(1).is_none());
    }

    #[test]
    fn a_table_walk_depends_on_the_load_before_and_an_indexed_sum_does_not() {
        // mov rcx, rax; xor rax, rdi; movzx eax, al; shr rcx, 8; mov eax, [rsi+rax*4];
        // xor rax, rcx; sub edx, 1; jne -24
        let walk = [
            0x48, 0x89, 0xc1, 0x48, 0x31, 0xf8, 0x0f, 0xb6, 0xc0, 0x48, 0xc1, 0xe9, 8, 0x8b, 0x04,
            0x86, 0x48, 0x31, 0xc8, 0x83, 0xea, 1, 0x75, 0xe8,
        ];
        assert_eq!(waited(&walk, 16).kind, Kind::DependentLoad);
        // mov rcx, [rdi+rdx*8]; add rax, [rsi+rcx*8]; add rdx, 1; jne -14
        let indexed =
            [0x48, 0x8b, 0x0c, 0xd7, 0x48, 0x03, 0x04, 0xce, 0x48, 0x83, 0xc2, 1, 0x75, 0xf2];
        assert_eq!(waited(&indexed, 4).kind, Kind::Load);
        assert_eq!(waited(&indexed, 8).kind, Kind::Load);
    }

    #[test]
    fn arithmetic_is_long_or_simple() {
        // imul rax, rsi; add rcx, 1; divsd xmm0, xmm1; pause; lock xadd [rdi], rax; mov [rdi], rax
        let code = [
            0x48, 0x0f, 0xaf, 0xc6, 0x48, 0x83, 0xc1, 1, 0xf2, 0x0f, 0x5e, 0xc1, 0xf3, 0x90, 0xf0,
            0x48, 0x0f, 0xc1, 0x07, 0x48, 0x89, 0x07, 0xc3,
        ];
        let kinds = [4, 8, 12, 14, 19, 22].map(|offset| waited(&code, offset).kind);
        let expected =
            [Kind::Long, Kind::Simple, Kind::Long, Kind::Pause, Kind::Atomic, Kind::Store];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn both_sides_of_a_branch_that_depends_on_data_are_behind_it() {
        // 0: cmp al, dl; 2: jb 9; 4: xor rcx, rax; 7: jmp 12; 9: add rax, r8; 12: dec rdi;
        // 15: jne 0
        let code = [
            0x38, 0xd0, 0x72, 5, 0x48, 0x31, 0xc1, 0xeb, 3, 0x4c, 0x01, 0xc0, 0x48, 0xff, 0xcf,
            0x75, 0xef, 0xc3,
        ];
        for offset in [7, 12, 15] {
            let found = waited(&code, offset);
            assert!(found.is_behind && !found.is_straight, "{offset}");
        }
    }

    #[test]
    fn any_bytes_are_decoded() {
        let mut random = linerate_record::random::Random::new(7);
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
            let code = Code::new(bytes);
            for offset in 0..300 {
                let _ = code.waited(offset);
            }
        }
    }
}
