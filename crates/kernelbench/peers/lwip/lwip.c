/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One of lwIP's checksum algorithms, selected by LWIP_CHKSUM_ALGORITHM on the compiler's command
 * line. This file is compiled once per algorithm, so each definition gets a unique name.
 */
#define JOIN2(name, number) name##number
#define JOIN(name, number) JOIN2(name, number)
#define OWN(name) JOIN(name, LWIP_CHKSUM_ALGORITHM)

#define lwip_standard_chksum OWN(lwip_standard_chksum_)
#define inet_chksum OWN(lwip_inet_chksum_)
#define inet_chksum_pbuf OWN(lwip_inet_chksum_pbuf_)
#define inet_chksum_pseudo OWN(lwip_inet_chksum_pseudo_)
#define inet_chksum_pseudo_partial OWN(lwip_inet_chksum_pseudo_partial_)
#define ip_chksum_pseudo OWN(lwip_ip_chksum_pseudo_)
#define ip_chksum_pseudo_partial OWN(lwip_ip_chksum_pseudo_partial_)

#include "core/inet_chksum.c"

#include "../peers.h"

uint32_t OWN(peer_lwip)(const void *src, size_t bytes, uint32_t sum)
{
	return peer_add(sum, lwip_standard_chksum(src, (int)bytes));
}
