/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One lwIP with one interface and one connection behind the table of plugin.h. */
#include "plugin.h"

#include "lwip/init.h"
#include "lwip/ip4.h"
#include "lwip/netif.h"
#include "lwip/stats.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

#include <linerate/checksum.h>

#include <string.h>

/* Routines. */

u16_t lwip_standard_chksum(const void *src, int bytes);

static uint32_t own_checksum(const void *src, size_t bytes, uint32_t sum)
{
	return lr_csum_add(sum, lwip_standard_chksum(src, (int)bytes));
}

static uint32_t own_copy_checksum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	memcpy(dst, src, bytes);
	return own_checksum(dst, bytes, sum);
}

static struct lr_lwip_routines routines = { own_checksum, memcpy, own_copy_checksum, 0 };
static int are_sums_off;

static struct lr_lwip_watch watch;
static int is_watched;
/* Of the routines, by activity, and of sums taken inline. */
static struct lr_lwip_tally tallies[LR_LWIP_COPY_CHECKSUM + 1];
#define INLINE_TALLY LR_LWIP_COPY_CHECKSUM

static uint64_t enter(uint8_t activity)
{
	if (watch.activity)
		__atomic_store_n(watch.activity, activity, __ATOMIC_RELAXED);
	return watch.ticks ? watch.ticks() : 0;
}

static void leave(unsigned which, const void *src, size_t bytes, uint64_t before)
{
	if (watch.ticks) {
		const uint64_t ticks = watch.ticks() - before;
		struct lr_lwip_tally *const tally = &tallies[which];
		size_t length = 0;

		while (bytes >> length && length < LR_LWIP_LENGTHS - 1)
			length++;
		tally->calls++;
		tally->bytes += bytes;
		tally->ticks += ticks;
		tally->lengths[length]++;
		tally->alignments[(uintptr_t)src % 64 / 8]++;
	}
	if (watch.activity)
		__atomic_store_n(watch.activity, LR_LWIP_NONE, __ATOMIC_RELAXED);
}

/* A sum of headers that were just written must not load wider than they were stored. */
static int is_inline(size_t bytes)
{
	return bytes <= routines.inline_bytes && bytes % 4 == 0;
}

static uint32_t summed(const void *src, size_t bytes)
{
	if (is_inline(bytes))
		return lr_csum_header(src, bytes / 4, 0);
	return routines.checksum(src, bytes, 0);
}

uint16_t lr_plugin_chksum(const void *src, int bytes)
{
	if (!is_watched)
		return lr_csum_fold(summed(src, (size_t)bytes));
	const uint64_t before = enter(LR_LWIP_CHECKSUM);
	const uint32_t sum = summed(src, (size_t)bytes);
	leave(is_inline((size_t)bytes) ? INLINE_TALLY : LR_LWIP_CHECKSUM - 1, src, (size_t)bytes,
	      before);
	return lr_csum_fold(sum);
}

uint16_t lr_plugin_chksum_copy(void *dst, const void *src, uint16_t bytes)
{
	if (are_sums_off) {
		lr_plugin_copy(dst, src, bytes);
		return 0;
	}
	if (!routines.copy_checksum) {
		lr_plugin_copy(dst, src, bytes);
		return lr_plugin_chksum(dst, bytes);
	}
	if (!is_watched)
		return lr_csum_fold(routines.copy_checksum(dst, src, bytes, 0));
	const uint64_t before = enter(LR_LWIP_COPY_CHECKSUM);
	const uint32_t sum = routines.copy_checksum(dst, src, bytes, 0);
	leave(LR_LWIP_COPY_CHECKSUM - 1, src, bytes, before);
	return lr_csum_fold(sum);
}

void *lr_plugin_copy(void *dst, const void *src, size_t bytes)
{
	if (!is_watched)
		return routines.copy(dst, src, bytes);
	const uint64_t before = enter(LR_LWIP_COPY);
	routines.copy(dst, src, bytes);
	leave(LR_LWIP_COPY - 1, src, bytes, before);
	return dst;
}

static void use(const struct lr_lwip_routines *named)
{
	routines = *named;
	if (!routines.copy)
		routines.copy = memcpy;
	if (routines.checksum)
		return;
	routines.checksum = own_checksum;
	routines.copy_checksum = own_copy_checksum;
}

static void set_watch(const struct lr_lwip_watch *named)
{
	watch = *named;
	is_watched = watch.ticks || watch.activity;
	if (watch.ticks)
		memset(tallies, 0, sizeof tallies);
}

static const struct lr_lwip_tally *get_tallies(void)
{
	return tallies;
}

/* Time and chance. */

static u32_t now_ms;

u32_t sys_now(void)
{
	return now_ms;
}

/* xorshift32 (Marsaglia 2003): never 0 if it does not begin so. */
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

/* Frames on their way out. */

/* More than a full window of segments and an acknowledgement for each. A power of two. */
#define SENT_FRAMES 16384

static struct pbuf *sent_frames[SENT_FRAMES];
static unsigned sent_in, sent_out;

/* Keeps the frame where it is: lwIP sends a segment again only when nobody else refers to it. */
static err_t on_output(struct netif *netif, struct pbuf *frame, const ip4_addr_t *to)
{
	(void)netif;
	(void)to;
	if (sent_in - sent_out == SENT_FRAMES)
		return ERR_MEM;
	if (frame->next) {
		frame = pbuf_clone(PBUF_RAW, PBUF_RAM, frame);
		if (!frame)
			return ERR_MEM;
	} else {
		pbuf_ref(frame);
	}
	sent_frames[sent_in++ % SENT_FRAMES] = frame;
	return ERR_OK;
}

static struct lr_lwip_frame sent(void)
{
	struct lr_lwip_frame none = { NULL, NULL, 0 };

	if (sent_in == sent_out)
		return none;
	struct pbuf *const frame = sent_frames[sent_out++ % SENT_FRAMES];
	return (struct lr_lwip_frame){ frame, frame->payload, frame->len };
}

static void drop(void *handle)
{
	pbuf_free(handle);
}

/* Frames that arrive. */

/* IPv4 and TCP without options. */
#define HEADER_BYTES 40

static struct netif netif;

/* Behind the headers begins a line of the cache. */
static struct lr_lwip_frame room(size_t bytes)
{
	struct lr_lwip_frame none = { NULL, NULL, 0 };

	if (bytes < HEADER_BYTES || bytes > LR_SEGMENT + 2 * HEADER_BYTES)
		return none;
	struct pbuf *const frame =
		pbuf_alloc(PBUF_TRANSPORT, (u16_t)(bytes - HEADER_BYTES), PBUF_RAM);
	if (!frame)
		return none;
	pbuf_add_header(frame, HEADER_BYTES);
	return (struct lr_lwip_frame){ frame, frame->payload, bytes };
}

static void input(void *handle)
{
	if (ip4_input(handle, &netif) != ERR_OK)
		pbuf_free(handle);
}

/* A frame that is read where it is. Its parts may be freed one by one. */
struct in_place {
	struct pbuf_custom headers, payload;
	struct in_place *next;
	void *owner;
	unsigned parts;
};
static struct in_place *reclaimable;

static void part_freed(struct in_place *frame)
{
	if (--frame->parts)
		return;
	frame->next = reclaimable;
	reclaimable = frame;
}

static void headers_freed(struct pbuf *part)
{
	part_freed((struct in_place *)(void *)part);
}

static void payload_freed(struct pbuf *part)
{
	part_freed((struct in_place *)(void *)((char *)part - offsetof(struct in_place, payload)));
}

static int input_in_place(void *headers, size_t header_bytes, void *payload,
			  size_t payload_bytes, void *owner)
{
	struct in_place *const frame = lr_memory_take(sizeof *frame);

	if (!frame)
		return 0;
	frame->owner = owner;
	frame->parts = payload_bytes ? 2 : 1;
	frame->headers.custom_free_function = headers_freed;
	frame->payload.custom_free_function = payload_freed;
	struct pbuf *const first =
		pbuf_alloced_custom(PBUF_RAW, (u16_t)header_bytes, PBUF_REF, &frame->headers,
				    headers, (u16_t)header_bytes);
	if (payload_bytes)
		pbuf_cat(first, pbuf_alloced_custom(PBUF_RAW, (u16_t)payload_bytes, PBUF_REF,
						    &frame->payload, payload,
						    (u16_t)payload_bytes));
	input(first);
	return 1;
}

static void *reclaim(void)
{
	struct in_place *const frame = reclaimable;

	if (!frame)
		return NULL;
	void *const owner = frame->owner;
	reclaimable = frame->next;
	lr_memory_give(frame);
	return owner;
}

static uint64_t bad_checksums(void)
{
	return (uint64_t)lwip_stats.tcp.chkerr + lwip_stats.ip.chkerr;
}

/* The connection. */

uint32_t lr_plugin_buffer;

static struct lr_lwip_settings settings;
static u8_t arg_id;
static struct tcp_pcb *connection, *listener;
/* What arrived in order and was not read yet; so many bytes of the first piece were. */
static struct pbuf *unread, *unread_last;
static size_t read_bytes;
static int is_waiting, is_shut, is_peer_done, is_widened;

static void on_destroyed(u8_t id, void *freed)
{
	(void)id;
	if (freed == connection)
		connection = NULL;
}

static const struct tcp_ext_arg_callbacks watched_end = { on_destroyed, NULL };

static err_t on_data(void *unused, struct tcp_pcb *from, struct pbuf *data, err_t error)
{
	(void)unused;
	(void)from;
	(void)error;
	if (!data) {
		is_peer_done = 1;
		return ERR_OK;
	}
	if (unread)
		unread_last->next = data;
	else
		unread = data;
	for (unread_last = data; unread_last->next; unread_last = unread_last->next)
		;
	return ERR_OK;
}

/* Takes the connection for the one that there is. */
static void adopt(struct tcp_pcb *adopted)
{
	connection = adopted;
	tcp_ext_arg_set_callbacks(adopted, arg_id, &watched_end);
	tcp_ext_arg_set(adopted, arg_id, adopted);
	tcp_recv(adopted, on_data);
	if (!settings.nagle)
		tcp_nagle_disable(adopted);
}

static err_t on_accept(void *unused, struct tcp_pcb *accepted, err_t error)
{
	(void)unused;
	if (error != ERR_OK || !accepted)
		return ERR_VAL;
	if (!is_waiting) {
		tcp_abort(accepted);
		return ERR_ABRT;
	}
	is_waiting = 0;
	adopt(accepted);
	return ERR_OK;
}

/* Frees what was not read; lwIP's own length of a chain does not hold for ours. */
static void forget_unread(void)
{
	while (unread) {
		struct pbuf *const piece = unread;
		unread = piece->next;
		piece->next = NULL;
		pbuf_free(piece);
	}
	read_bytes = 0;
}

static ip4_addr_t address_of(const uint8_t bytes[4])
{
	ip4_addr_t address;

	IP4_ADDR(&address, bytes[0], bytes[1], bytes[2], bytes[3]);
	return address;
}

static int begin_listening(void)
{
	err_t error = ERR_MEM;
	struct tcp_pcb *const fresh = tcp_new();

	if (!fresh)
		return ERR_MEM;
	error = tcp_bind(fresh, netif_ip_addr4(&netif), settings.port);
	listener = error == ERR_OK ? tcp_listen_with_backlog_and_err(fresh, 0xff, &error) : NULL;
	if (!listener) {
		tcp_abort(fresh);
		return error;
	}
	tcp_accept(listener, on_accept);
	return ERR_OK;
}

static int begin_connecting(void)
{
	const ip4_addr_t peer = address_of(settings.peer);
	struct tcp_pcb *const fresh = tcp_new();

	if (!fresh)
		return ERR_MEM;
	adopt(fresh);
	err_t error = tcp_bind(fresh, netif_ip_addr4(&netif), 0);
	if (error == ERR_OK)
		error = tcp_connect(fresh, &peer, settings.port, NULL);
	if (error != ERR_OK)
		tcp_abort(fresh);
	return error;
}

static int open_connection(void)
{
	forget_unread();
	if (connection)
		tcp_ext_arg_set(connection, arg_id, NULL);
	connection = NULL;
	is_waiting = is_shut = is_peer_done = is_widened = 0;
	if (!settings.is_server)
		return begin_connecting();
	if (!listener) {
		const int error = begin_listening();
		if (error != ERR_OK)
			return error;
	}
	is_waiting = 1;
	return ERR_OK;
}

static int state(void)
{
	if (!connection)
		return is_waiting ? LR_LWIP_OPENING : LR_LWIP_CLOSED;
	switch (connection->state) {
	case SYN_SENT:
	case SYN_RCVD:
		return LR_LWIP_OPENING;
	case CLOSED:
	case TIME_WAIT:
		return LR_LWIP_CLOSED;
	default:
		break;
	}
	if (is_shut)
		return LR_LWIP_CLOSING;
	return is_peer_done && !unread ? LR_LWIP_PEER_CLOSED : LR_LWIP_OPEN;
}

static size_t send_room(void)
{
	if (!connection || is_shut || connection->snd_queuelen >= TCP_SND_QUEUELEN)
		return 0;
	if (connection->state != ESTABLISHED && connection->state != CLOSE_WAIT)
		return 0;
	return tcp_sndbuf(connection);
}

/* tcp_write() counts in 16 bits; whole segments, so that the last one has no rest to be filled. */
#define WRITE_MAX (0xffff / LR_SEGMENT * LR_SEGMENT)

static size_t send_bytes(const void *src, size_t bytes)
{
	const unsigned char *const from = src;
	size_t done = 0;

	while (done < bytes) {
		size_t now = LWIP_MIN(bytes - done, send_room());
		now = LWIP_MIN(now, WRITE_MAX);
		if (!now || tcp_write(connection, from + done, (u16_t)now, TCP_WRITE_FLAG_COPY))
			break;
		done += now;
	}
	return done;
}

/* tcp_recved() counts in 16 bits, too. */
static void tell_read(size_t bytes)
{
	while (connection && bytes) {
		const u16_t now = (u16_t)LWIP_MIN(bytes, 0xffff);
		tcp_recved(connection, now);
		bytes -= now;
	}
}

static size_t receive(void *dst, size_t bytes)
{
	unsigned char *const to = dst;
	size_t done = 0;

	while (unread && done < bytes) {
		const size_t now = LWIP_MIN(bytes - done, unread->len - read_bytes);
		if (now)
			lr_plugin_copy(to + done, (const char *)unread->payload + read_bytes, now);
		done += now;
		read_bytes += now;
		if (read_bytes < unread->len)
			break;
		struct pbuf *const piece = unread;
		unread = piece->next;
		piece->next = NULL;
		pbuf_free(piece);
		read_bytes = 0;
	}
	if (connection && connection->state != TIME_WAIT)
		tell_read(done);
	return done;
}

static void close_connection(void)
{
	is_waiting = 0;
	if (!connection || is_shut)
		return;
	is_shut = 1;
	if (connection->state == SYN_SENT)
		tcp_close(connection);
	else
		tcp_shutdown(connection, 0, 1);
}

static void flush(void)
{
	if (!connection || connection->state == TIME_WAIT)
		return;
	if (settings.wide_open && !is_widened && connection->state >= ESTABLISHED) {
		connection->cwnd = LR_BUFFER_MAX;
		is_widened = 1;
	}
	tcp_output(connection);
}

static err_t plug(struct netif *plugged)
{
	plugged->output = on_output;
	plugged->mtu = LR_SEGMENT + HEADER_BYTES;
	plugged->name[0] = 'l';
	plugged->name[1] = 'r';
	return ERR_OK;
}

static int begin(const struct lr_lwip_settings *wanted)
{
	ip4_addr_t mask, gateway;

	settings = *wanted;
	random_state = settings.seed ? settings.seed : 1;
	lr_plugin_buffer = settings.buffer;
	are_sums_off = settings.sums == LR_LWIP_SUMS_OFF;
	lwip_init();
	arg_id = tcp_ext_arg_alloc_id();
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gateway, 0, 0, 0, 0);
	const ip4_addr_t address = address_of(settings.address);
	if (!netif_add(&netif, &address, &mask, &gateway, NULL, plug, ip4_input))
		return 0;
	if (are_sums_off)
		NETIF_SET_CHECKSUM_CTRL(&netif, NETIF_CHECKSUM_DISABLE_ALL);
	else if (settings.sums == LR_LWIP_SUMS_ARRIVE_VERIFIED)
		NETIF_SET_CHECKSUM_CTRL(&netif, NETIF_CHECKSUM_ENABLE_ALL &
						~(NETIF_CHECKSUM_CHECK_TCP |
						  NETIF_CHECKSUM_CHECK_IP));
	netif_set_default(&netif);
	netif_set_link_up(&netif);
	netif_set_up(&netif);
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
		.use = use,
		.watch = set_watch,
		.tallies = get_tallies,
		.advance = advance,
		.next_timer = next_timer,
		.open = open_connection,
		.state = state,
		.send_room = send_room,
		.send = send_bytes,
		.receive = receive,
		.close = close_connection,
		.flush = flush,
		.sent = sent,
		.drop = drop,
		.room = room,
		.input = input,
		.input_in_place = input_in_place,
		.reclaim = reclaim,
		.bad_checksums = bad_checksums,
	};

	return &table;
}
