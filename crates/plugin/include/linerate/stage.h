/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface between linerate and a stage in C or C++, version 1.
 *
 * A stage is a shared object that defines one constant:
 *
 *     const struct linerate_stage linerate_stage = { LINERATE_STAGE_ABI, ... };
 *
 * A path file names the object, by a path relative to itself:
 *
 *     [[stage]]
 *     kind = "plugin"
 *     file = "./libttl.so"
 *     min_ttl = 2          # a parameter that the stage declares
 *
 * linerate builds one instance (init, fini) per worker that runs the stage, and an instance is used
 * by one thread at a time, so an instance needs no locks. It counts packets, bytes, drops and time;
 * the stage only declares what it keeps (`state`) and why it drops (`drop_causes`).
 *
 * A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, abort) ends the run and is reported with the stage and
 * the packet. C++ exceptions must not escape from a stage's functions; one that does ends in
 * abort().
 *
 * Needs C11 or C++11, and no other file of linerate. Layout and semantics change only together with
 * LINERATE_STAGE_ABI; linerate refuses objects built for another version.
 */
#ifndef LINERATE_STAGE_H
#define LINERATE_STAGE_H

#include <stddef.h>
#include <stdint.h>

#define LINERATE_STAGE_ABI 1u

#ifdef __cplusplus
extern "C" {
#endif

/* ---- packets -------------------------------------------------------------------------- */

/*
 * The metadata of a packet: one cache line, followed by the packet's buffer. Write only the fields
 * marked writable; use the functions below to move the start or the end of the frame.
 */
struct linerate_packet {
    uint64_t position;   /* position in the sequence that the source offers, from 0 */
    uint64_t time_ns;    /* time of capture, ns since 1970 UTC */
    uint64_t born_ticks; /* used by linerate */
    uint16_t l3;         /* writable: offset of the IP header from the first byte of the frame */
    uint16_t l4;         /* writable: offset after the IP header and its extension headers */
    uint16_t l3_end;     /* writable: offset of the end of the IP packet, by its length field */
    uint8_t ip_version;  /* writable: 4 or 6; 0 if `parse` has not seen the packet */
    uint8_t protocol;    /* writable: IP protocol number of the header at l4 */
    uint16_t fragment;   /* writable: 0 whole packet, 1 first fragment, 2 later fragment */
    uint8_t bucket;      /* RSS bucket, 0 to 127 */
    uint8_t port;        /* port of the path that the packet came from; 0 for packets from memory */
    uint8_t reserved[4];
    uint16_t start;  /* offset of the frame in the buffer: see linerate_push_front, _trim_front */
    uint16_t length; /* bytes of the frame, without FCS: see linerate_truncate, _append */
    uint16_t room;   /* size of the buffer in bytes; not writable */
    uint16_t home;   /* used by linerate */
    uint8_t line_end[16];
};

/* Returns a pointer to the first byte of the frame, which has `length` bytes. */
static inline uint8_t *linerate_frame(struct linerate_packet *packet)
{
    return (uint8_t *)(packet + 1) + packet->start;
}

/*
 * Extends the frame by `bytes` bytes at the front, for a header; returns its new first byte, or
 * NULL if the headroom is too small. Does not adjust l3, l4, l3_end.
 */
static inline uint8_t *linerate_push_front(struct linerate_packet *packet, size_t bytes)
{
    if (bytes > packet->start || packet->length + bytes > UINT16_MAX) {
        return NULL;
    }
    packet->start = (uint16_t)(packet->start - bytes);
    packet->length = (uint16_t)(packet->length + bytes);
    return linerate_frame(packet);
}

/*
 * Removes `bytes` bytes at the front of the frame and returns 1; returns 0, and changes nothing, if
 * the frame is shorter.
 */
static inline int linerate_trim_front(struct linerate_packet *packet, size_t bytes)
{
    if (bytes > packet->length) {
        return 0;
    }
    packet->start = (uint16_t)(packet->start + bytes);
    packet->length = (uint16_t)(packet->length - bytes);
    return 1;
}

/*
 * Extends the frame by `bytes` bytes at the end; returns the first of them, or NULL if the buffer
 * is too small.
 */
static inline uint8_t *linerate_append(struct linerate_packet *packet, size_t bytes)
{
    const uint16_t before = packet->length;

    if (bytes > (size_t)(packet->room - packet->start - before)) {
        return NULL;
    }
    packet->length = (uint16_t)(before + bytes);
    return linerate_frame(packet) + before;
}

/* Truncates the frame to `bytes` bytes if it is longer. */
static inline void linerate_truncate(struct linerate_packet *packet, size_t bytes)
{
    if (bytes < packet->length) {
        packet->length = (uint16_t)bytes;
    }
}

/* ---- bursts --------------------------------------------------------------------------- */

/* Verdicts: what happens to a packet. LINERATE_DROP takes an index into `drop_causes`. */
#define LINERATE_PASS ((uint8_t)0)
#define LINERATE_CONSUME ((uint8_t)1) /* ends in this stage by design */
#define LINERATE_DROP(cause) ((uint8_t)(16 + (cause)))

/* Packets that are processed together: 1 to 256, in order. */
struct linerate_burst {
    struct linerate_packet *const *packets;
    uint8_t *verdicts; /* one per packet, LINERATE_PASS unless the stage writes another */
    uint32_t count;
    uint32_t at; /* index of the packet being processed, which a crash report names */
};

/*
 * Visits the packets of a burst, and notes which one is being processed:
 *
 *     LINERATE_EACH(burst, i) {
 *         if (burst->packets[i]->length < 60) {
 *             burst->verdicts[i] = LINERATE_DROP(0);
 *         }
 *     }
 *
 * A write to a frame might change *burst as far as the compiler knows. Local copies of the pointers
 * `packets` and `verdicts` save it from loading both again for each packet.
 */
#define LINERATE_EACH(burst, i) \
    for (uint32_t i = 0, i##_end = (burst)->count; i < i##_end && ((burst)->at = i, 1); i++)

/* ---- parameters ----------------------------------------------------------------------- */

/* Types of parameters. */
enum { LINERATE_TYPE_INTEGER = 1, LINERATE_TYPE_BOOL = 2, LINERATE_TYPE_TEXT = 3 };

/* A key of the stage's section in the path file. Use the macros below. */
struct linerate_param {
    const char *name; /* letters, digits and _; not kind, name, only or file. NULL ends the list */
    const char *help; /* one line, with the unit */
    uint32_t type;
    uint32_t required;
    int64_t min, max; /* range of an integer, bounds included */
    int64_t integer;  /* default of an integer or a bool */
    const char *text; /* default of a text */
};

#define LINERATE_INTEGER(name, min, max, value, help) \
    { name, help, LINERATE_TYPE_INTEGER, 0, min, max, value, NULL }
#define LINERATE_REQUIRED_INTEGER(name, min, max, help) \
    { name, help, LINERATE_TYPE_INTEGER, 1, min, max, 0, NULL }
#define LINERATE_BOOL(name, value, help) { name, help, LINERATE_TYPE_BOOL, 0, 0, 1, value, NULL }
#define LINERATE_TEXT(name, value, help) { name, help, LINERATE_TYPE_TEXT, 0, 0, 0, 0, value }
#define LINERATE_REQUIRED_TEXT(name, help) { name, help, LINERATE_TYPE_TEXT, 1, 0, 0, 0, NULL }
#define LINERATE_PARAMS_END { NULL, NULL, 0, 0, 0, 0, 0, NULL }

/* Value of a parameter: from the path file, or the default. Texts are valid only during init. */
struct linerate_value {
    int64_t integer; /* value of an integer; 0 or 1 for a bool */
    const char *text;
};

/* The argument of init. */
struct linerate_setup {
    const struct linerate_value *values; /* in the order of `params` */
    uint32_t replica;                    /* index of this instance among the replicas, from 0 */
    uint32_t replicas;
    char *error; /* buffer for the reason of a failure, as a string */
    size_t error_bytes;
    void *instance; /* set by init; passed to the other functions */
};

/* ---- the stage ------------------------------------------------------------------------ */

/*
 * State that the stage keeps between packets. It determines whether linerate may replicate the
 * stage; each replica then gets all packets of its share of the flows.
 */
enum {
    LINERATE_STATE_NONE = 1,     /* any instance may take any packet */
    LINERATE_STATE_PER_FLOW = 2, /* packets of a flow go to one instance: same addresses and TCP or
                                    UDP ports; without ports or if fragmented, same addresses */
    LINERATE_STATE_GLOBAL = 3    /* one instance must get all packets, such as for state that all
                                    flows of two hosts share: never replicated */
};

/* Flags; 0 if none applies. */
enum {
    LINERATE_NEEDS_HEADERS = 1, /* reads l3, l4, ...: a `parse` stage must precede it */
    LINERATE_REORDERS = 2       /* packets of different flows may leave in another order */
};

/*
 * A stage. Lists end with NULL, the list of parameters with LINERATE_PARAMS_END. A list or function
 * may be NULL only if its comment says what NULL means.
 */
struct linerate_stage {
    uint32_t abi;      /* LINERATE_STAGE_ABI */
    uint32_t state;    /* LINERATE_STATE_..., no default */
    uint32_t flags;
    uint32_t reserved; /* 0 */
    const char *name;  /* letters, digits, - and _ */
    const char *help;  /* what it does, one line that ends with '.' */
    const struct linerate_param *params; /* NULL: none */
    const char *const *drop_causes;      /* names for reports, at most 16; NULL: drops nothing */
    const char *const *counts;           /* names of the stage's counts, at most 32; NULL: none */
    /*
     * Builds an instance: returns 0, or another value and a reason in setup->error. Called on the
     * thread that prepares the run. NULL: the instance is NULL.
     */
    int (*init)(struct linerate_setup *setup);
    /* Processes a burst in place. Must not allocate, lock or call the system per packet. */
    void (*process)(void *instance, struct linerate_burst *burst);
    /* Writes the counts in the order of `counts`; called after the last burst. NULL: no counts. */
    void (*read_counts)(void *instance, uint64_t *values);
    /* Frees the instance; called last. NULL: nothing to free. */
    void (*fini)(void *instance);
};

/* Defined by the shared object. This declaration gives it external linkage in C++ too. */
extern __attribute__((visibility("default"))) const struct linerate_stage linerate_stage;

#ifdef __cplusplus
}
#endif

#endif
