/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Incoming frames, and outgoing frames, which are kept until the program has fetched and dropped
 * them.
 */
#include "parts.h"

/*
 * Queue capacity: a power of two above the number of segments in a full window plus an ACK for
 * each.
 */
#define SENT_FRAMES 16384

static struct pbuf *sent_frames[SENT_FRAMES];
static unsigned sent_in, sent_out;

/*
 * Queues a reference to the frame, not a copy. The frame does not change meanwhile, because lwIP
 * retransmits a segment only when it holds the only reference.
 */
err_t lr_on_output(struct netif *netif, struct pbuf *frame, const ip4_addr_t *to)
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

struct lr_lwip_frame lr_sent(void)
{
	struct lr_lwip_frame none = { NULL, NULL, 0 };

	if (sent_in == sent_out)
		return none;
	struct pbuf *const frame = sent_frames[sent_out++ % SENT_FRAMES];
	return (struct lr_lwip_frame){ frame, frame->payload, frame->len };
}

void lr_drop(void *handle)
{
	pbuf_free(handle);
}

/* Incoming frames. */

struct netif lr_netif;

/* Allocates a frame so that the payload after the headers starts at a cache line boundary. */
struct lr_lwip_frame lr_room(size_t bytes)
{
	struct lr_lwip_frame none = { NULL, NULL, 0 };

	if (bytes < LR_HEADER_BYTES || bytes > LR_SEGMENT + 2 * LR_HEADER_BYTES)
		return none;
	struct pbuf *const frame =
		pbuf_alloc(PBUF_TRANSPORT, (u16_t)(bytes - LR_HEADER_BYTES), PBUF_RAM);
	if (!frame)
		return none;
	pbuf_add_header(frame, LR_HEADER_BYTES);
	return (struct lr_lwip_frame){ frame, frame->payload, bytes };
}

void lr_input(void *handle)
{
	if (ip4_input(handle, &lr_netif) != ERR_OK)
		pbuf_free(handle);
}

/* An incoming frame that is read in place. lwIP may free its parts separately. */
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

int lr_input_in_place(void *headers, size_t header_bytes, void *payload,
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
	lr_input(first);
	return 1;
}

void *lr_reclaim(void)
{
	struct in_place *const frame = reclaimable;

	if (!frame)
		return NULL;
	void *const owner = frame->owner;
	reclaimable = frame->next;
	lr_memory_give(frame);
	return owner;
}
