/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interface of the plug-in: lwIP, with checksum and copy functions that the program sets at run
 * time. crates/tcpbench/src/lwip/plugin.rs declares the same in Rust; change both together, and
 * LR_LWIP_TABLE_VERSION.
 *
 * Each loaded object is one lwIP with one interface and at most one connection at a time. It has no
 * threads, no clock and no I/O: the program passes in the time and incoming frames, and fetches
 * outgoing ones. Calls must not overlap. It calls back into the program only through the routines.
 *
 * A frame is an IPv4 packet. Outgoing frames stay in lwIP's memory until they are dropped, so that
 * the receiver can copy them once or read them in place. Incoming frames are written into lwIP's
 * memory, or are read in place until they are handed back.
 */
#ifndef LINERATE_LWIP_PLUGIN_H
#define LINERATE_LWIP_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

/* Incremented with every change below; the program refuses any other version. */
#define LR_LWIP_TABLE_VERSION 2

/* Null means lwIP's own routine for checksum, memcpy for copy, and a copy followed by a checksum
 * for copy_checksum, which must be null if checksum is. Sums are as in linerate/checksum.h. */
struct lr_lwip_routines {
	uint32_t (*checksum)(const void *src, size_t bytes, uint32_t sum);
	void *(*copy)(void *dst, const void *src, size_t bytes);
	uint32_t (*copy_checksum)(void *dst, const void *src, size_t bytes, uint32_t sum);
	/* Sums of whole 32-bit words, up to this many bytes, are computed inline; 0 for none. */
	uint32_t inline_bytes;
};

/* Classes of lengths: 0, 1, 2 to 3, 4 to 7 and so on, 32768 and more. */
#define LR_LWIP_LENGTHS 17
/* Classes of source alignment: the address modulo 64, in steps of 8. */
#define LR_LWIP_ALIGNMENTS 8

/* Statistics of the calls of one routine, or of inline sums, collected while calls are watched. */
struct lr_lwip_tally {
	uint64_t calls, bytes, ticks;
	uint64_t lengths[LR_LWIP_LENGTHS];
	uint64_t alignments[LR_LWIP_ALIGNMENTS];
};

/* The routine that is running: values of the byte at lr_lwip_watch.activity. */
enum { LR_LWIP_NONE, LR_LWIP_CHECKSUM, LR_LWIP_COPY, LR_LWIP_COPY_CHECKSUM };

struct lr_lwip_watch {
	/* Reads a timestamp; null if calls are not counted and timed. */
	uint64_t (*ticks)(void);
	/*
	 * Byte that always holds the number of the running routine, for other threads to read; null
	 * if there are no such threads.
	 */
	uint8_t *activity;
};

/* Which side computes the checksums of TCP and IP. */
enum {
	/* No side: they are sent as 0 and not verified. */
	LR_LWIP_SUMS_OFF,
	/* lwIP computes and verifies them, with the routines. */
	LR_LWIP_SUMS_LWIP,
	/* lwIP computes them for outgoing frames. Incoming frames have been verified before. */
	LR_LWIP_SUMS_ARRIVE_VERIFIED,
};

struct lr_lwip_settings {
	uint8_t address[4], peer[4];
	uint16_t port;
	/* Whether to listen on `port` rather than connect to it. */
	uint8_t is_server;
	/* One of LR_LWIP_SUMS_*. */
	uint8_t sums;
	/* Whether small segments wait for acknowledgements. */
	uint8_t nagle;
	/* Whether to start with a congestion window too large to limit sending. */
	uint8_t wide_open;
	/* Random seed for the first port and the first sequence number. */
	uint32_t seed;
	/* Size of the window and of the send buffer in bytes: two segments to 65535 * 128. */
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

/* A frame in lwIP's memory. */
struct lr_lwip_frame {
	void *handle;
	unsigned char *bytes;
	size_t length;
};

struct lr_lwip_table {
	uint32_t version;
	/* The largest payload of a segment, in bytes. */
	uint32_t segment;
	/* The version of lwIP, such as "2.1.3". */
	const char *lwip;

	/*
	 * Starts lwIP; called once, before any other function except use(). Returns 0 if lwIP
	 * refuses.
	 */
	int (*begin)(const struct lr_lwip_settings *settings);
	/* Frees all memory. After this no function may be called, and no frame accessed. */
	void (*end)(void);
	/* Sets the routines; called before anything is sent or received, and again at any time. */
	void (*use)(const struct lr_lwip_routines *routines);
	/* Starts or stops watching calls to routines; if they are timed, counts restart at 0. */
	void (*watch)(const struct lr_lwip_watch *watch);
	/* Returns four tallies: checksum, copy, copy_checksum, and inline sums. */
	const struct lr_lwip_tally *(*tallies)(void);

	/*
	 * Advances the time to this many milliseconds since the start, and runs the timers that are
	 * due.
	 */
	void (*advance)(uint32_t now_ms);
	/* Returns the milliseconds until the next timer is due, or UINT32_MAX for never. */
	uint32_t (*next_timer)(void);

	/* Returns 0 or lwIP's error (lwip/err.h). Call it only while state() is LR_LWIP_CLOSED. */
	int (*open)(void);
	int (*state)(void);
	size_t (*send_room)(void);
	size_t (*send)(const void *src, size_t bytes);
	size_t (*receive)(void *dst, size_t bytes);
	void (*close)(void);
	/* Sends as much of the pending data as TCP allows now. */
	void (*flush)(void);

	/*
	 * Takes the oldest outgoing frame, which must later be passed to drop(). The handle is null
	 * if there is none.
	 */
	struct lr_lwip_frame (*sent)(void);
	void (*drop)(void *handle);
	/*
	 * Allocates an incoming frame, to be filled and passed to input() or drop(). The handle is
	 * null if there is no memory.
	 */
	struct lr_lwip_frame (*room)(size_t bytes);
	/* Hands in an incoming frame, which belongs to lwIP from then on. */
	void (*input)(void *handle);
	/*
	 * Hands in an incoming frame in two parts, headers and payload. lwIP uses both in place
	 * until reclaim() returns `owner`. Returns 0 if out of memory; the frame is then lost.
	 */
	int (*input_in_place)(void *headers, size_t header_bytes, void *payload,
			      size_t payload_bytes, void *owner);
	/* Returns the owner of a frame that lwIP no longer needs, or null. */
	void *(*reclaim)(void);
	/* Returns the number of segments dropped because a checksum did not match. */
	uint64_t (*bad_checksums)(void);
};

/* The only symbol that the object exports. */
__attribute__((visibility("default"))) const struct lr_lwip_table *linerate_lwip_table(void);

#endif
