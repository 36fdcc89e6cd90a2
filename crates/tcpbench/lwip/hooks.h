/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that lwIP calls through the macros in lwipopts.h; they use the routines that the
 * program has set.
 */
#ifndef LINERATE_LWIP_HOOKS_H
#define LINERATE_LWIP_HOOKS_H

#include <stddef.h>
#include <stdint.h>

uint16_t lr_plugin_chksum(const void *src, int bytes);
uint16_t lr_plugin_chksum_copy(void *dst, const void *src, uint16_t bytes);
void *lr_plugin_copy(void *dst, const void *src, size_t bytes);

/* Size of the window and of the send buffer, in bytes. */
extern uint32_t lr_plugin_buffer;

#endif
