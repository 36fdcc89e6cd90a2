/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints the layout of the structures: one field and its offset per line. Valid C11 and C++11. */
#include <linerate/stage.h>

#include <stdio.h>

#define FIELD(structure, field) \
    printf(#structure " " #field " %u\n", (unsigned)offsetof(struct structure, field))
#define SIZE(structure) printf(#structure " size %u\n", (unsigned)sizeof(struct structure))

int main(void)
{
    FIELD(linerate_packet, position);
    FIELD(linerate_packet, time_ns);
    FIELD(linerate_packet, born_ticks);
    FIELD(linerate_packet, l3);
    FIELD(linerate_packet, l4);
    FIELD(linerate_packet, l3_end);
    FIELD(linerate_packet, ip_version);
    FIELD(linerate_packet, protocol);
    FIELD(linerate_packet, fragment);
    FIELD(linerate_packet, bucket);
    FIELD(linerate_packet, start);
    FIELD(linerate_packet, length);
    FIELD(linerate_packet, room);
    FIELD(linerate_packet, home);
    SIZE(linerate_packet);
    SIZE(linerate_burst);
    SIZE(linerate_param);
    SIZE(linerate_value);
    SIZE(linerate_setup);
    SIZE(linerate_stage);
    return 0;
}
