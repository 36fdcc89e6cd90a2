/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interface of the plug-in: lwIP, with checksum and copy functions that the program sets at run
 * time. crates/tcpbench/src/lwip/plugin.rs declares the same in Rust; change both together, and
 * LR_LWIP_TABLE_VERSION.
 *
 * A loaded object is one lwIP with one interface and at most one connection at a time. It has no
 * threads, no clock and no I/O: time and frames are passed in, frames are fetched. Calls must not
 * overlap. It calls back into the program only through the routines.
 *
 * A frame is an IPv4 packet. Frames that come out stay where lwIP has them until they are dropped,
 * so that they can be copied once or be read in place by who receives them; frames that go in are
 * written into memory of lwIP, or are read where they are until they are handed back.
 */
#ifndef LINERATE_LWIP_PLUGIN_H
#define LINERATE_LWIP_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

/* Raised with every change of what follows; the program refuses any other. */
#define LR_LWIP_TABLE_VERSION 2

/* A routine that is null is lwIP's own, or memcpy; checksum and copy_checksum are given together
 * or not at all. Sums are as in linerate/checksum.h. */
struct lr_lwip_routines {
	uint32_t (*checksum)(const void *src, size_t bytes, uint32_t sum);
	void *(*copy)(void *dst, const void *src, size_t bytes);
	uint32_t (*copy_checksum)(void *dst, const void *src, size_t bytes, uint32_t sum);
	/* Sums of whole 32-bit words of up to this many bytes are inline; 0 for none. */
	uint32_t inline_bytes;
};

/* Classes of lengths: 0, 1, 2 to 3, 4 to 7 and so on, 32768 and more. */
#define LR_LWIP_LENGTHS 17
/* Classes of where the source begins: its address modulo 64, by steps of 8. */
#define LR_LWIP_ALIGNMENTS 8

/* Statistics of the calls of one routine, or of inline sums, while they were watched. */
struct lr_lwip_tally {
	uint64_t calls, bytes, ticks;
	uint64_t lengths[LR_LWIP_LENGTHS];
	uint64_t alignments[LR_LWIP_ALIGNMENTS];
};

/* Which routine runs: what the byte at lr_lwip_watch.activity holds meanwhile. */
enum { LR_LWIP_NONE, LR_LWIP_CHECKSUM, LR_LWIP_COPY, LR_LWIP_COPY_CHECKSUM };

struct lr_lwip_watch {
	/* A timestamp; null where calls are not counted and timed. */
	uint64_t (*ticks)(void);
	/* Where other threads may read at any time which routine runs; null if none does. */
	uint8_t *activity;
};

/* Which side computes the checksums of TCP and IP. */
enum {
	/* None: they are sent as 0, and not verified. */
	LR_LWIP_SUMS_OFF,
	/* lwIP, by the routines. */
	LR_LWIP_SUMS_LWIP,
	/* lwIP of what it sends; what arrives was verified before it is handed in. */
	LR_LWIP_SUMS_ARRIVE_VERIFIED,
};

struct lr_lwip_settings {
	uint8_t address[4], peer[4];
	uint16_t port;
	/* Whether it waits for connections to that port, rather than opening one. */
	uint8_t is_server;
	/* One of the above. */
	uint8_t sums;
	/* Whether small segments wait for acknowledgements. */
	uint8_t nagle;
	/* Whether it begins with a congestion window that nothing fills. */
	uint8_t wide_open;
	/* For the first port and the first sequence number. */
	uint32_t seed;
	/* Bytes of the window and of the send buffer, two segments to 65535 * 128. */
	uint32_t buffer;
};

/* State of the connection. */
enum {
	LR_LWIP_CLOSED,
	LR_LWIP_OPENING,
	LR_LWIP_OPEN,
	LR_LWIP_PEER_CLOSED,
	LR_LWIP_CLOSING,
};

/* A frame in memory of lwIP. */
struct lr_lwip_frame {
	void *handle;
	unsigned char *bytes;
	size_t length;
};

struct lr_lwip_table {
	uint32_t version;
	/* The largest payload of a segment, in bytes. */
	uint32_t segment;
	/* "2.1.3" */
	const char *lwip;

	/* Once, before anything else; 0 if lwIP refuses. */
	int (*begin)(const struct lr_lwip_settings *settings);
	/* Frees all memory. After this no function may be called, and no frame accessed. */
	void (*end)(void);
	/* Before anything is sent or received, and again at any time. */
	void (*use)(const struct lr_lwip_routines *routines);
	/* Begins or ends watching calls of routines; where it times, counts begin at 0. */
	void (*watch)(const struct lr_lwip_watch *watch);
	/* The tallies of checksum, copy, copy_checksum, and of sums taken inline: four of them. */
	const struct lr_lwip_tally *(*tallies)(void);

	/* Advances the time to this many milliseconds since the start: runs the timers that are due. */
	void (*advance)(uint32_t now_ms);
	/* Milliseconds until the next timer is due, UINT32_MAX for never. */
	uint32_t (*next_timer)(void);

	/* 0 or lwIP's error (lwip/err.h). Only where state() is LR_LWIP_CLOSED. */
	int (*open)(void);
	int (*state)(void);
	size_t (*send_room)(void);
	size_t (*send)(const void *src, size_t bytes);
	size_t (*receive)(void *dst, size_t bytes);
	void (*close)(void);
	/* Sends pending data, as far as allowed. */
	void (*flush)(void);

	/* The oldest frame that is to be sent, to be dropped; its handle is null if there is none. */
	struct lr_lwip_frame (*sent)(void);
	void (*drop)(void *handle);
	/* Room for a frame that arrives, to be handed to input() or drop(); null handle: no memory. */
	struct lr_lwip_frame (*room)(size_t bytes);
	/* The frame has arrived; it is lwIP's from here on. */
	void (*input)(void *handle);
	/*
	 * A frame in two parts has arrived, headers first; these are copied, the payload is read in place
	 * until reclaim() returns owner. 0 if out of memory: the frame is lost.
	 */
	int (*input_in_place)(void *headers, size_t header_bytes, void *payload,
			      size_t payload_bytes, void *owner);
	/* An owner whose frame lwIP does not need any more, or null. */
	void *(*reclaim)(void);
	/* Segments dropped because a checksum did not match. */
	uint64_t (*bad_checksums)(void);
};

/* The only symbol that the object exports. */
__attribute__((visibility("default"))) const struct lr_lwip_table *linerate_lwip_table(void);

#endif
