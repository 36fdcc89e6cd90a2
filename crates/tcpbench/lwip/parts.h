/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Internal interfaces between the files of the plug-in, and their part of the table. */
#ifndef LINERATE_LWIP_PARTS_H
#define LINERATE_LWIP_PARTS_H

#include "plugin.h"

#include "lwip/ip4.h"
#include "lwip/netif.h"

/* IPv4 and TCP headers without options. */
#define LR_HEADER_BYTES 40

/* routines.c */

/* Nonzero while no checksums are computed. */
extern int lr_are_sums_off;
void lr_use(const struct lr_lwip_routines *named);
void lr_set_watch(const struct lr_lwip_watch *named);
const struct lr_lwip_tally *lr_tallies(void);

/* frames.c */

/* The network interface for all frames in and out. */
extern struct netif lr_netif;
err_t lr_on_output(struct netif *netif, struct pbuf *frame, const ip4_addr_t *to);
struct lr_lwip_frame lr_sent(void);
void lr_drop(void *handle);
struct lr_lwip_frame lr_room(size_t bytes);
void lr_input(void *handle);
int lr_input_in_place(void *headers, size_t header_bytes, void *payload, size_t payload_bytes,
		      void *owner);
void *lr_reclaim(void);

/* connection.c */

/* Settings passed at the start. */
extern struct lr_lwip_settings lr_settings;
ip4_addr_t lr_address_of(const uint8_t bytes[4]);
/* Called once, after lwip_init(). */
void lr_connection_begin(void);
int lr_open(void);
int lr_state(void);
size_t lr_send_room(void);
size_t lr_send(const void *src, size_t bytes);
size_t lr_receive(void *dst, size_t bytes);
void lr_close(void);
void lr_flush(void);

#endif
