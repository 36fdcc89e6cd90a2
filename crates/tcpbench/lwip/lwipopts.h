/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lwIP for one fast TCP connection over IPv4 without an operating system. lwIP itself is
 * unmodified: everything below is one of its documented options. LR_SEGMENT is set on the
 * compiler's command line.
 */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#include "hooks.h"
#include "memory.h"

/*
 * Checksums and copies go to routines chosen at run time; routines.c defines the three functions.
 */
#define LWIP_CHKSUM lr_plugin_chksum
#define LWIP_CHKSUM_COPY(dst, src, bytes) lr_plugin_chksum_copy(dst, src, bytes)
#define MEMCPY(dst, src, bytes) lr_plugin_copy(dst, src, bytes)
#define LWIP_CHECKSUM_ON_COPY 1
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1
/* Keeps lwIP's own routine, for comparison; by default it is left out if LWIP_CHKSUM is set. */
#define LWIP_CHKSUM_ALGORITHM 2

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0

#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define LWIP_ICMP 0
#define LWIP_UDP 0
#define LWIP_RAW 0
#define IP_FRAG 0
#define IP_REASSEMBLY 0

/* lwIP uses our heap in place of the C library's. */
#define MEM_LIBC_MALLOC 1
#define mem_clib_malloc lr_memory_take
#define mem_clib_free lr_memory_give
#define mem_clib_calloc lr_memory_take_zeroed
/* A cache line, so that the payload of a segment starts at a line boundary. */
#define MEM_ALIGNMENT 64
/* Frames begin with IPv4. */
#define PBUF_LINK_HLEN 0

/* Short connections leave many PCBs in TIME-WAIT; lwIP reuses the oldest one. */
#define MEMP_NUM_TCP_PCB 16
#define MEMP_NUM_TCP_SEG 8192
#define MEMP_NUM_PBUF 16
#define PBUF_POOL_SIZE 4

/* init.c checks sizes in the preprocessor, so it is compiled with the largest ones. */
#define LR_BUFFER_MAX (0xffff << TCP_RCV_SCALE)
#ifdef LR_SIZES_FIXED
#define LR_BUFFER LR_BUFFER_MAX
#else
#define LR_BUFFER lr_plugin_buffer
#endif
#define TCP_MSS LR_SEGMENT
#define TCP_WND LR_BUFFER
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 7
#define TCP_SND_BUF LR_BUFFER
#define TCP_SND_QUEUELEN 8000
#define TCP_SNDLOWAT 4096
#define TCP_SNDQUEUELOWAT 4000
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1
#define TCP_OVERSIZE TCP_MSS
#define LWIP_NETIF_TX_SINGLE_PBUF 1
#define LWIP_TCP_SACK_OUT 1
/* lwIP's own initial sequence numbers are so close together that the next connection would accept a
 * late segment of the previous one. */
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port) lr_plugin_random()
/* TCP_MSL stays at one minute: lwIP leaves LAST-ACK after two MSL, and a lost FIN must be
 * retransmitted before that. */
/* For a callback when a connection is freed, which lwIP does not otherwise report in TIME-WAIT. */
#define LWIP_TCP_PCB_NUM_EXT_ARGS 1
#define LWIP_SUPPORT_CUSTOM_PBUF 1

/* Only for the number of segments rejected because of a wrong checksum. */
#define LWIP_STATS 1
#define LWIP_STATS_LARGE 1
#define MEM_STATS 0
#define MEMP_STATS 0
#define LINK_STATS 0
#define SYS_STATS 0

#endif
