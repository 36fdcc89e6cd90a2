// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends as many UDP frames as possible. The kernel cuts them from coalesced datagrams (UDP
// segmentation offload in software), which takes much less time than a system call for each
// frame. The interface must not accept coalesced frames or incomplete checksums:
// `ethtool -K INTERFACE tx off gso off`.
//
//   flood INTERFACE BYTES SECONDS FLOWS MAC
//
// BYTES: length of a frame without FCS, 64 to 1514. FLOWS: source ports, used round-robin, a
// coalesced datagram each. MAC: of the receiver. Addresses: 10.9.0.1 to 10.9.0.2, port 9000.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Newer than the headers of some distributions.
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum { SEGMENTS = 40, LONGEST = 1514, SHORTEST = 64, FIRST_PORT = 4096, PORT = 9000 };

struct datagram {
    struct virtio_net_hdr offload;
    struct ethhdr ethernet;
    struct iphdr ip;
    struct udphdr udp;
    uint8_t payload[SEGMENTS * LONGEST];
} __attribute__((packed));

enum {
    UDP_AT = sizeof(struct ethhdr) + sizeof(struct iphdr),
    HEADERS = UDP_AT + sizeof(struct udphdr),
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint32_t sum_of(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < length; i += 2) {
        sum += (uint32_t)at[i] << 8 | at[i + 1];
    }
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    sum += sum >> 16;
    return (uint16_t)sum;
}

// Fills in a datagram that is cut into frames of `bytes` bytes. Returns its length.
static size_t fill(struct datagram *datagram, size_t bytes, const uint8_t mac[ETH_ALEN])
{
    size_t payload = bytes - HEADERS, udp_bytes = sizeof(struct udphdr) + SEGMENTS * payload;
    memset(datagram, 0, sizeof *datagram);
    datagram->offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    datagram->offload.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
    datagram->offload.hdr_len = HEADERS;
    datagram->offload.gso_size = (uint16_t)payload;
    datagram->offload.csum_start = UDP_AT;
    datagram->offload.csum_offset = offsetof(struct udphdr, check);
    memcpy(datagram->ethernet.h_dest, mac, ETH_ALEN);
    datagram->ethernet.h_source[0] = 2;
    datagram->ethernet.h_proto = htons(ETH_P_IP);
    datagram->ip.version = 4;
    datagram->ip.ihl = 5;
    datagram->ip.ttl = 64;
    datagram->ip.protocol = IPPROTO_UDP;
    datagram->ip.tot_len = htons((uint16_t)(sizeof(struct iphdr) + udp_bytes));
    datagram->ip.saddr = inet_addr("10.9.0.1");
    datagram->ip.daddr = inet_addr("10.9.0.2");
    datagram->ip.check = htons((uint16_t)~folded(sum_of(&datagram->ip, sizeof(struct iphdr))));
    datagram->udp.dest = htons(PORT);
    datagram->udp.len = htons((uint16_t)udp_bytes);
    // The sum of the pseudo-header, to which the kernel adds the rest.
    uint32_t sum = sum_of(&datagram->ip.saddr, 8) + IPPROTO_UDP + (uint32_t)udp_bytes;
    datagram->udp.check = htons(folded(sum));
    return offsetof(struct datagram, payload) + SEGMENTS * payload;
}

static int open_socket(const char *interface)
{
    int file = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
    if (file < 0 || setsockopt(file, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) < 0) {
        perror("AF_PACKET with PACKET_VNET_HDR");
        exit(1);
    }
    struct sockaddr_ll to = { .sll_family = AF_PACKET };
    to.sll_ifindex = (int)if_nametoindex(interface);
    if (to.sll_ifindex == 0 || bind(file, (struct sockaddr *)&to, sizeof to) < 0) {
        perror(interface);
        exit(1);
    }
    return file;
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "flood INTERFACE BYTES SECONDS FLOWS MAC\n");
        return 2;
    }
    size_t bytes = strtoul(words[2], NULL, 10);
    double seconds = strtod(words[3], NULL);
    unsigned long flows = strtoul(words[4], NULL, 10);
    uint8_t mac[ETH_ALEN];
    int read = sscanf(words[5], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3,
                      mac + 4, mac + 5);
    if (bytes < SHORTEST || bytes > LONGEST || flows == 0 || read != ETH_ALEN) {
        fprintf(stderr, "flood: a length, a number of flows or an address is invalid\n");
        return 2;
    }
    static struct datagram datagram;
    size_t length = fill(&datagram, bytes, mac);
    int file = open_socket(words[1]);
    double start = now();
    for (unsigned long flow = 0; now() - start < seconds; flow++) {
        datagram.udp.source = htons((uint16_t)(FIRST_PORT + flow % flows));
        // What finds no room is left out.
        if (write(file, &datagram, length) < 0 && errno != ENOBUFS && errno != EAGAIN) {
            perror("write");
            return 1;
        }
    }
    return 0;
}
