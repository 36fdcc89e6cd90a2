/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lwIP with one interface and one connection, behind the table of plugin.h: initialization, time,
 * random numbers, and the table. */
#include "parts.h"

#include "lwip/init.h"
#include "lwip/stats.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

uint32_t lr_plugin_buffer;

/* Time and random numbers. */

static u32_t now_ms;

u32_t sys_now(void)
{
	return now_ms;
}

/* xorshift32 (Marsaglia 2003): never 0 unless it starts at 0. */
static uint32_t random_state;

unsigned lr_plugin_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

static void advance(uint32_t ms)
{
	now_ms = ms;
	sys_check_timeouts();
}

static uint32_t next_timer(void)
{
	return sys_timeouts_sleeptime();
}

static uint64_t bad_checksums(void)
{
	return (uint64_t)lwip_stats.tcp.chkerr + lwip_stats.ip.chkerr;
}

static err_t plug(struct netif *plugged)
{
	plugged->output = lr_on_output;
	plugged->mtu = LR_SEGMENT + LR_HEADER_BYTES;
	plugged->name[0] = 'l';
	plugged->name[1] = 'r';
	return ERR_OK;
}

static int begin(const struct lr_lwip_settings *wanted)
{
	ip4_addr_t mask, gateway;

	lr_settings = *wanted;
	random_state = lr_settings.seed ? lr_settings.seed : 1;
	lr_plugin_buffer = lr_settings.buffer;
	lr_are_sums_off = lr_settings.sums == LR_LWIP_SUMS_OFF;
	lwip_init();
	lr_connection_begin();
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gateway, 0, 0, 0, 0);
	const ip4_addr_t address = lr_address_of(lr_settings.address);
	if (!netif_add(&lr_netif, &address, &mask, &gateway, NULL, plug, ip4_input))
		return 0;
	if (lr_are_sums_off)
		NETIF_SET_CHECKSUM_CTRL(&lr_netif, NETIF_CHECKSUM_DISABLE_ALL);
	else if (lr_settings.sums == LR_LWIP_SUMS_ARRIVE_VERIFIED)
		NETIF_SET_CHECKSUM_CTRL(&lr_netif, NETIF_CHECKSUM_ENABLE_ALL &
						~(NETIF_CHECKSUM_CHECK_TCP |
						  NETIF_CHECKSUM_CHECK_IP));
	netif_set_default(&lr_netif);
	netif_set_link_up(&lr_netif);
	netif_set_up(&lr_netif);
	return 1;
}

const struct lr_lwip_table *linerate_lwip_table(void)
{
	static const struct lr_lwip_table table = {
		.version = LR_LWIP_TABLE_VERSION,
		.segment = LR_SEGMENT,
		.lwip = LWIP_VERSION_STRING,
		.begin = begin,
		.end = lr_memory_end,
		.use = lr_use,
		.watch = lr_set_watch,
		.tallies = lr_tallies,
		.advance = advance,
		.next_timer = next_timer,
		.open = lr_open,
		.state = lr_state,
		.send_room = lr_send_room,
		.send = lr_send,
		.receive = lr_receive,
		.close = lr_close,
		.flush = lr_flush,
		.sent = lr_sent,
		.drop = lr_drop,
		.room = lr_room,
		.input = lr_input,
		.input_in_place = lr_input_in_place,
		.reclaim = lr_reclaim,
		.bad_checksums = bad_checksums,
	};

	return &table;
}
