/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lwIP without an operating system: TCP over IPv4, buffers for one fast connection. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#include "lr_lwip.h"

/* For comparison: lwIP's own routine, which it otherwise leaves out if LWIP_CHKSUM is set. */
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

#define MEM_ALIGNMENT 8
#define MEM_SIZE (4 * 1024 * 1024)
#define MEMP_NUM_TCP_SEG 1024
#define MEMP_NUM_PBUF 1024
#define PBUF_POOL_SIZE 128

#define TCP_MSS 1460
#define TCP_WND (40 * TCP_MSS)
#define TCP_SND_BUF (40 * TCP_MSS)
#define TCP_SND_QUEUELEN 400
#define LWIP_TCP_SACK_OUT 1
#define TCP_MSL 1

/* Number of segments with a wrong checksum. */
#define LWIP_STATS 1
#define LWIP_STATS_LARGE 1

#endif
