/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opens or accepts the connection, writes to it, reads from it, and closes it. */
#include "parts.h"

#include "lwip/tcp.h"

struct lr_lwip_settings lr_settings;
static u8_t arg_id;
static struct tcp_pcb *connection, *listener;
/* Data received in order but not yet read. Of the first piece, read_bytes bytes have been read. */
static struct pbuf *unread, *unread_last;
static size_t read_bytes;
static int is_waiting, is_shut, is_peer_done, is_widened;

void lr_connection_begin(void)
{
	arg_id = tcp_ext_arg_alloc_id();
}

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

/* Makes a control block the plug-in's only connection. */
static void adopt(struct tcp_pcb *adopted)
{
	connection = adopted;
	tcp_ext_arg_set_callbacks(adopted, arg_id, &watched_end);
	tcp_ext_arg_set(adopted, arg_id, adopted);
	tcp_recv(adopted, on_data);
	if (!lr_settings.nagle)
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

/*
 * Frees unread data piece by piece. Its total length is not valid, unlike that of lwIP's own
 * chains.
 */
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

ip4_addr_t lr_address_of(const uint8_t bytes[4])
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
	error = tcp_bind(fresh, netif_ip_addr4(&lr_netif), lr_settings.port);
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
	const ip4_addr_t peer = lr_address_of(lr_settings.peer);
	struct tcp_pcb *const fresh = tcp_new();

	if (!fresh)
		return ERR_MEM;
	adopt(fresh);
	err_t error = tcp_bind(fresh, netif_ip_addr4(&lr_netif), 0);
	if (error == ERR_OK)
		error = tcp_connect(fresh, &peer, lr_settings.port, NULL);
	if (error != ERR_OK)
		tcp_abort(fresh);
	return error;
}

int lr_open(void)
{
	forget_unread();
	if (connection)
		tcp_ext_arg_set(connection, arg_id, NULL);
	connection = NULL;
	is_waiting = is_shut = is_peer_done = is_widened = 0;
	if (!lr_settings.is_server)
		return begin_connecting();
	if (!listener) {
		const int error = begin_listening();
		if (error != ERR_OK)
			return error;
	}
	is_waiting = 1;
	return ERR_OK;
}

int lr_state(void)
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

size_t lr_send_room(void)
{
	if (!connection || is_shut || connection->snd_queuelen >= TCP_SND_QUEUELEN)
		return 0;
	if (connection->state != ESTABLISHED && connection->state != CLOSE_WAIT)
		return 0;
	return tcp_sndbuf(connection);
}

/*
 * Maximum bytes per tcp_write(), which takes a 16-bit length: whole segments, so that the last one
 * is full, too.
 */
#define WRITE_MAX (0xffff / LR_SEGMENT * LR_SEGMENT)

size_t lr_send(const void *src, size_t bytes)
{
	const unsigned char *const from = src;
	size_t done = 0;

	while (done < bytes) {
		size_t now = LWIP_MIN(bytes - done, lr_send_room());
		now = LWIP_MIN(now, WRITE_MAX);
		if (!now || tcp_write(connection, from + done, (u16_t)now, TCP_WRITE_FLAG_COPY))
			break;
		done += now;
	}
	return done;
}

/*
 * Reports to lwIP that bytes were read; in several steps, because tcp_recved() takes a 16-bit
 * length.
 */
static void tell_read(size_t bytes)
{
	while (connection && bytes) {
		const u16_t now = (u16_t)LWIP_MIN(bytes, 0xffff);
		tcp_recved(connection, now);
		bytes -= now;
	}
}

size_t lr_receive(void *dst, size_t bytes)
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

void lr_close(void)
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

void lr_flush(void)
{
	if (!connection || connection->state == TIME_WAIT)
		return;
	if (lr_settings.wide_open && !is_widened && connection->state >= ESTABLISHED) {
		connection->cwnd = LR_BUFFER_MAX;
		is_widened = 1;
	}
	tcp_output(connection);
}
