/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lwIP with our checksum and copies: a TCP connection between two interfaces of one process, over a
 * simulated wire that occasionally flips a bit. Run for each variant that this processor has.
 *
 * It passes if every byte arrives as sent, lwIP dropped exactly the corrupted segments, and each
 * call of a hook gave the same result as lwIP's own lwip_standard_chksum. The hooks are wrapped at
 * link time (--wrap), so the code is the same as in a real stack. Nothing is timed.
 */
#include "lr_lwip.h"

#include <linerate/variant.h>

#include "lwip/init.h"
#include "lwip/ip4.h"
#include "lwip/netif.h"
#include "lwip/stats.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BYTES (2u * 1024 * 1024)
/*
 * One in this many data frames is damaged. The number is prime, so that damage does not always hit
 * the same point of a pattern in the stream.
 */
#define DAMAGE_EVERY 211
/*
 * Length of IPv4 and TCP headers with the maximum of TCP options: lwIP requires them in one piece.
 */
#define HEADERS_BYTES (20 + 60)
/* Iterations of 1 ms without a new byte after which the connection counts as dead. */
#define PATIENCE_ITERATIONS 60000

/*
 * Number of calls of each hook, and how many of them returned a different sum or made a different
 * copy than lwIP's own routines.
 */
struct watched {
	unsigned long sums, sums_while_copying, copies, wrong;
};
static struct watched watched;

u16_t lwip_standard_chksum(const void *src, int bytes);
uint16_t __real_lr_lwip_chksum(const void *src, int bytes);
uint16_t __real_lr_lwip_chksum_copy(void *dst, const void *src, uint16_t bytes);
void *__real_lr_copy(void *dst, const void *src, size_t bytes);
uint16_t __wrap_lr_lwip_chksum(const void *src, int bytes);
uint16_t __wrap_lr_lwip_chksum_copy(void *dst, const void *src, uint16_t bytes);
void *__wrap_lr_copy(void *dst, const void *src, size_t bytes);

uint16_t __wrap_lr_lwip_chksum(const void *src, int bytes)
{
	const uint16_t sum = __real_lr_lwip_chksum(src, bytes);

	watched.sums++;
	watched.wrong += sum != lwip_standard_chksum(src, bytes);
	return sum;
}

uint16_t __wrap_lr_lwip_chksum_copy(void *dst, const void *src, uint16_t bytes)
{
	const uint16_t sum = __real_lr_lwip_chksum_copy(dst, src, bytes);

	watched.sums_while_copying++;
	watched.wrong += sum != lwip_standard_chksum(src, bytes);
	watched.wrong += memcmp(dst, src, bytes) != 0;
	return sum;
}

void *__wrap_lr_copy(void *dst, const void *src, size_t bytes)
{
	void *const returned = __real_lr_copy(dst, src, bytes);

	watched.copies++;
	watched.wrong += returned != dst || memcmp(dst, src, bytes) != 0;
	return returned;
}

/* xorshift32 (Marsaglia 2003): the same numbers in every run; the state is never 0. */
static uint32_t state = 2463534242u;

unsigned example_random(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static u32_t now_ms;

u32_t sys_now(void)
{
	return now_ms;
}

/* The wire: frames in flight, and the destination interface of each. */
#define WIRE_FRAMES 1024
static struct {
	struct pbuf *frame;
	struct netif *to;
} wire[WIRE_FRAMES];
static unsigned wire_in, wire_out;
static struct netif left, right;
static unsigned long carried, damaged;

/* Flips a random bit after the IPv4 header, all of which TCP's checksum covers. */
static void damage(struct pbuf *frame)
{
	const uint16_t at = (uint16_t)(20 + example_random() % (frame->tot_len - 20u));

	pbuf_put_at(frame, at, pbuf_get_at(frame, at) ^ (u8_t)(1 << example_random() % 8));
	damaged++;
}

/*
 * Returns a copy of the frame, cut at random after the headers into two pieces if it is long
 * enough.
 */
static struct pbuf *received(const struct pbuf *sent)
{
	u16_t first = sent->tot_len;

	if (first > HEADERS_BYTES)
		first = (u16_t)(HEADERS_BYTES + example_random() % (first - HEADERS_BYTES));
	struct pbuf *const frame = pbuf_alloc(PBUF_RAW, first, PBUF_RAM);
	struct pbuf *const rest = pbuf_alloc(PBUF_RAW, (u16_t)(sent->tot_len - first), PBUF_RAM);
	if (frame && rest) {
		pbuf_cat(frame, rest);
		if (pbuf_copy(frame, sent) == ERR_OK)
			return frame;
	}
	fputs("lwip: no memory for a frame; raise MEM_SIZE in lwipopts.h\n", stderr);
	exit(2);
}

static err_t send_frame(struct netif *from, struct pbuf *sent, const ip4_addr_t *to)
{
	(void)to;
	if (wire_in - wire_out == WIRE_FRAMES)
		return ERR_MEM;
	struct pbuf *const frame = received(sent);
	if (frame->tot_len > HEADERS_BYTES && ++carried % DAMAGE_EVERY == 0)
		damage(frame);
	wire[wire_in % WIRE_FRAMES].frame = frame;
	wire[wire_in++ % WIRE_FRAMES].to = from == &left ? &right : &left;
	return ERR_OK;
}

static void deliver(void)
{
	while (wire_out != wire_in) {
		const unsigned at = wire_out++ % WIRE_FRAMES;
		if (ip4_input(wire[at].frame, wire[at].to) != ERR_OK)
			pbuf_free(wire[at].frame);
	}
}

static err_t plug(struct netif *netif)
{
	netif->output = send_frame;
	netif->mtu = 1500;
	netif->name[0] = 'l';
	netif->name[1] = 'r';
	return ERR_OK;
}

static void add(struct netif *netif, u8_t network)
{
	ip4_addr_t address, mask, gateway;

	IP4_ADDR(&address, 10, 0, network, 1);
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gateway, 0, 0, 0, 0);
	netif_add(netif, &address, &mask, &gateway, NULL, plug, ip4_input);
	netif_set_link_up(netif);
	netif_set_up(netif);
}

static unsigned char stream[STREAM_BYTES];
static size_t sent_bytes, arrived_bytes;
static int is_damaged_stream, is_closed;

static err_t on_data(void *unused, struct tcp_pcb *connection, struct pbuf *data, err_t error)
{
	unsigned char piece[TCP_WND];

	(void)unused;
	(void)error;
	if (!data) {
		is_closed = 1;
		return tcp_close(connection);
	}
	const u16_t bytes = pbuf_copy_partial(data, piece, data->tot_len, 0);
	if (bytes > STREAM_BYTES - arrived_bytes ||
	    memcmp(piece, stream + arrived_bytes, bytes) != 0)
		is_damaged_stream = 1;
	arrived_bytes += bytes;
	tcp_recved(connection, bytes);
	pbuf_free(data);
	return ERR_OK;
}

static err_t on_accept(void *unused, struct tcp_pcb *connection, err_t error)
{
	(void)unused;
	if (error == ERR_OK)
		tcp_recv(connection, on_data);
	return error;
}

static void on_error(void *unused, err_t error)
{
	(void)unused;
	fprintf(stderr, "lwip: the connection was lost: lwIP's error %d (lwip/err.h)\n", error);
	exit(1);
}

/* Writes 1 to 4000 bytes at a time, so that segments are assembled from pieces of odd lengths. */
static void write_some(struct tcp_pcb *client)
{
	while (sent_bytes < STREAM_BYTES) {
		size_t bytes = 1 + example_random() % 4000;
		if (bytes > STREAM_BYTES - sent_bytes)
			bytes = STREAM_BYTES - sent_bytes;
		if (bytes > tcp_sndbuf(client))
			break;
		if (tcp_write(client, stream + sent_bytes, (u16_t)bytes,
			      TCP_WRITE_FLAG_COPY) != ERR_OK)
			break;
		sent_bytes += bytes;
	}
	tcp_output(client);
}

static struct tcp_pcb *checked(struct tcp_pcb *pcb)
{
	if (!pcb) {
		fputs("lwip: no connection left; raise MEMP_NUM_TCP_PCB in lwipopts.h\n", stderr);
		exit(2);
	}
	return pcb;
}

/* Sends the stream from one interface to the other. Returns nonzero if all of it arrived. */
static int transfer(u16_t port)
{
	struct tcp_pcb *const listener = checked(tcp_new());
	struct tcp_pcb *const client = checked(tcp_new());
	size_t seen = 0;

	sent_bytes = arrived_bytes = 0;
	is_damaged_stream = is_closed = 0;
	tcp_bind(listener, netif_ip_addr4(&right), port);
	tcp_bind_netif(listener, &right);
	struct tcp_pcb *const server = checked(tcp_listen(listener));
	tcp_accept(server, on_accept);
	tcp_err(client, on_error);
	tcp_bind(client, netif_ip_addr4(&left), 0);
	tcp_bind_netif(client, &left);
	tcp_connect(client, netif_ip_addr4(&right), port, NULL);
	for (unsigned idle = 0; arrived_bytes < STREAM_BYTES && idle < PATIENCE_ITERATIONS; idle++) {
		if (arrived_bytes != seen)
			idle = 0;
		seen = arrived_bytes;
		if (client->state == ESTABLISHED)
			write_some(client);
		deliver();
		now_ms++;
		sys_check_timeouts();
	}
	tcp_err(client, NULL);
	tcp_close(client);
	for (unsigned turn = 0; !is_closed && turn < PATIENCE_ITERATIONS; turn++) {
		deliver();
		now_ms++;
		sys_check_timeouts();
	}
	tcp_close(server);
	return arrived_bytes == STREAM_BYTES && !is_damaged_stream && is_closed;
}

/* Runs the whole experiment with one variant. Returns nonzero if it passed. */
static int run(const char *variant, u16_t port)
{
	const unsigned long damaged_before = damaged;
	const unsigned long refused_before = (unsigned long)lwip_stats.tcp.chkerr;

	memset(&watched, 0, sizeof watched);
	const int arrived = transfer(port);
	const unsigned long refused = (unsigned long)lwip_stats.tcp.chkerr - refused_before;
	const int holds = arrived && !watched.wrong && watched.sums && watched.copies &&
			  watched.sums_while_copying && damaged > damaged_before &&
			  refused == damaged - damaged_before;

	printf("%-12s %zu bytes%s; %lu sums, %lu sums while copying, %lu copies, %lu wrong; "
	       "%lu of %lu damaged segments refused: %s\n",
	       variant, arrived_bytes, is_damaged_stream ? " (damaged)" : "", watched.sums,
	       watched.sums_while_copying, watched.copies, watched.wrong, refused,
	       damaged - damaged_before, holds ? "agrees" : "FAILED");
	return holds;
}

int main(void)
{
	unsigned ran = 0, held = 0;

	for (size_t i = 0; i < STREAM_BYTES; i++)
		stream[i] = (unsigned char)(example_random() >> 24);
	lwip_init();
	add(&left, 0);
	add(&right, 1);
	printf("lwIP %s, %u bytes per connection\n", LWIP_VERSION_STRING, STREAM_BYTES);
	for (size_t i = 0; i < lr_variant_count; i++) {
		if (lr_variant_force(lr_variants[i]->name) != 0)
			continue;
		held += (unsigned)run(lr_variants[i]->name, (u16_t)(5000 + ran));
		ran++;
	}
	lr_variant_force(NULL);
	held += (unsigned)run("selected", (u16_t)(5000 + ran));
	ran++;
	printf("RESULT %s lwip: %u of %u agree\n", held == ran ? "PASS" : "FAIL", held, ran);
	return held == ran ? 0 : 1;
}
