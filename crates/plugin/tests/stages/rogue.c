/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A stage that misbehaves from packet `from` on, as `act` says. */
#include <linerate/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const acts[] = {
    "pass", "drop", "consume", "grow", "shrink", "both", "segv",
    "abort", "divide", "verdict", "cause", "length", "offsets", "init",
};
enum { PASS, DROP, CONSUME, GROW, SHRINK, BOTH, SEGV, ABORT, DIVIDE, VERDICT, CAUSE, LENGTH,
       OFFSETS, INIT, ACTS };

struct rogue {
    int act;
    uint64_t from;
};

static int init(struct linerate_setup *setup)
{
    struct rogue *rogue = calloc(1, sizeof *rogue);

    for (rogue->act = 0; rogue->act < ACTS; rogue->act++) {
        if (strcmp(acts[rogue->act], setup->values[0].text) == 0) {
            break;
        }
    }
    if (rogue->act == ACTS) {
        snprintf(setup->error, setup->error_bytes, "unknown act %s", setup->values[0].text);
        free(rogue);
        return 1;
    }
    if (rogue->act == INIT) {
        *(volatile char *)8 = 1;
    }
    rogue->from = (uint64_t)setup->values[1].integer;
    setup->instance = rogue;
    return 0;
}

static volatile int zero;

static void misbehave(int act, struct linerate_packet *packet, uint8_t *verdict)
{
    const int is_odd = packet->position & 1;

    switch (act) {
    case DROP:
        *verdict = is_odd ? LINERATE_DROP(0) : LINERATE_PASS;
        break;
    case CONSUME:
        *verdict = is_odd ? LINERATE_CONSUME : LINERATE_PASS;
        break;
    case GROW:
        if (linerate_push_front(packet, 20) != NULL) {
            memset(linerate_frame(packet), 0, 20);
        }
        packet->ip_version = 0;
        break;
    case SHRINK:
        linerate_truncate(packet, packet->l3_end);
        break;
    case BOTH:
        linerate_trim_front(packet, 14);
        if (linerate_append(packet, 14) != NULL) {
            linerate_frame(packet)[packet->length - 1] = 0;
        }
        packet->ip_version = 0;
        break;
    case SEGV:
        *(volatile char *)16 = 1;
        break;
    case ABORT:
        abort();
    case DIVIDE:
#if defined __x86_64__
        *verdict = (uint8_t)(is_odd / zero);
#else
        __builtin_trap();
#endif
        break;
    case VERDICT:
        *verdict = 7;
        break;
    case CAUSE:
        *verdict = LINERATE_DROP(5);
        break;
    case LENGTH:
        packet->length = UINT16_MAX;
        break;
    case OFFSETS:
        packet->l3_end = (uint16_t)(packet->length + 1);
        break;
    default:
        break;
    }
}

static void process(void *instance, struct linerate_burst *burst)
{
    struct rogue *rogue = instance;

    LINERATE_EACH(burst, i) {
        if (burst->packets[i]->position >= rogue->from) {
            misbehave(rogue->act, burst->packets[i], &burst->verdicts[i]);
        }
    }
}

static const struct linerate_param params[] = {
    LINERATE_REQUIRED_TEXT("act", "How to misbehave."),
    LINERATE_INTEGER("from", 0, INT64_MAX, 0, "First packet to misbehave at."),
    LINERATE_PARAMS_END,
};

static const char *const drop_causes[] = {"odd", NULL};

const struct linerate_stage linerate_stage = {
    .abi = LINERATE_STAGE_ABI,
    .state = LINERATE_STATE_NONE,
    .name = "rogue",
    .help = "Misbehave.",
    .params = params,
    .drop_causes = drop_causes,
    .init = init,
    .process = process,
    .fini = free,
};
