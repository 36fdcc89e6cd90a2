/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of QEMU's plugin interface that this plugin uses. Distributions ship QEMU without the
 * header; the declarations below are from version 1 of the interface (QEMU documentation, "QEMU TCG
 * Plugins"). When QEMU loads a plugin, it checks `qemu_plugin_version` and rejects versions that it
 * does not support.
 */
#ifndef LINERATE_QEMU_PLUGIN_H
#define LINERATE_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void on_exec(unsigned vcpu, void *data);
typedef void on_vcpu(uint64_t id, unsigned vcpu);

typedef void on_return(uint64_t id, unsigned vcpu, int64_t number, int64_t result);

/* Kind of a data access, decoded by qemu_plugin_mem_*(); equal values are the same kind. */
typedef uint32_t qemu_plugin_meminfo_t;
typedef void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data);
typedef void on_syscall(uint64_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
			uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
			uint64_t a8);

/* First field of the structure that `info` in qemu_plugin_install() points to. */
struct qemu_plugin_info {
	/* Emulated architecture: "x86_64", "arm", ... */
	const char *target_name;
};

/* Flag for callbacks that read no registers; data access directions, which can be combined. */
enum { QEMU_PLUGIN_NO_REGISTERS = 0, QEMU_PLUGIN_READS = 1, QEMU_PLUGIN_WRITES = 2 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
/* Returns the address of the instruction in this process. */
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*callback)(uint64_t,
							    struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, on_exec *callback, int flags,
					  void *data);
/* Returns log2 of the access size in bytes. */
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, on_access *callback, int flags,
				      int directions, void *data);
/* Registers a callback for each new thread. */
void qemu_plugin_register_vcpu_init_cb(uint64_t id, on_vcpu *callback);
/*
 * Register callbacks that run before and after each system call. After a fork, the callback after
 * the call runs in both processes.
 */
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, on_syscall *callback);
void qemu_plugin_register_vcpu_syscall_ret_cb(uint64_t id, on_return *callback);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, on_exec *callback,
					    int flags, void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t, void *), void *data);

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

#endif
