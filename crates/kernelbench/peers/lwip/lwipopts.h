/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lwIP without an operating system, reduced to what its checksum code needs. */
#ifndef LINERATE_LWIPOPTS_H
#define LINERATE_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_NOASSERT 1

#endif
