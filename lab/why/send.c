// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends UDP frames at a given rate, by an AF_PACKET socket and sendmmsg(2).
//
//   send INTERFACE BYTES PACKETS_PER_S SECONDS FLOWS MAC [BURST_MS] [qdisc]
//
// BYTES: length of a frame without FCS, 64 to 1514. PACKETS_PER_S: 0 for as many as go. FLOWS:
// source ports, used round-robin. MAC: of the receiver. BURST_MS: the packets of this many
// milliseconds are sent at once, then a pause. `qdisc`: through the queueing discipline of the
// interface, not past it. Addresses: 10.9.0.1 to 10.9.0.2, port 9000. Prints the packets sent and
// their rate.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, LONGEST = 1514, SHORTEST = 64, FIRST_PORT = 4096, PORT = 9000 };

struct frame {
    struct ethhdr ethernet;
    struct iphdr ip;
    struct udphdr udp;
    uint8_t payload[LONGEST - sizeof(struct ethhdr) - sizeof(struct iphdr) - sizeof(struct udphdr)];
} __attribute__((packed));

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint16_t internet_checksum(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < length; i += 2) {
        sum += (uint32_t)at[i] << 8 | at[i + 1];
    }
    sum = (sum >> 16) + (sum & 0xffff);
    sum += sum >> 16;
    return htons((uint16_t)~sum);
}

static void fill(struct frame *frame, size_t bytes, const uint8_t mac[ETH_ALEN])
{
    memset(frame, 0, sizeof *frame);
    memcpy(frame->ethernet.h_dest, mac, ETH_ALEN);
    frame->ethernet.h_source[0] = 2;
    frame->ethernet.h_proto = htons(ETH_P_IP);
    size_t ip_bytes = bytes - sizeof frame->ethernet;
    frame->ip.version = 4;
    frame->ip.ihl = 5;
    frame->ip.ttl = 64;
    frame->ip.protocol = IPPROTO_UDP;
    frame->ip.tot_len = htons((uint16_t)ip_bytes);
    frame->ip.saddr = inet_addr("10.9.0.1");
    frame->ip.daddr = inet_addr("10.9.0.2");
    frame->ip.check = internet_checksum(&frame->ip, sizeof frame->ip);
    frame->udp.dest = htons(PORT);
    frame->udp.len = htons((uint16_t)(ip_bytes - sizeof frame->ip));
}

static int open_socket(const char *interface, int past_qdisc)
{
    int file = socket(AF_PACKET, SOCK_RAW, 0);
    if (file < 0) {
        perror("socket");
        exit(1);
    }
    int one = 1;
    if (past_qdisc && setsockopt(file, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) < 0) {
        perror("PACKET_QDISC_BYPASS");
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

// Sends a batch; what finds no room is left out, and the rest sent. Returns the packets sent.
static int send_all(int file, struct mmsghdr *messages)
{
    int sent = 0;
    for (int at = 0; at < BATCH;) {
        int done = sendmmsg(file, messages + at, (unsigned)(BATCH - at), 0);
        if (done < 0 && errno != ENOBUFS && errno != EAGAIN) {
            perror("sendmmsg");
            return -1;
        }
        sent += done > 0 ? done : 0;
        at += done > 0 ? done : 1;
    }
    return sent;
}

int main(int count, char **words)
{
    if (count < 7) {
        fprintf(stderr, "send INTERFACE BYTES PACKETS_PER_S SECONDS FLOWS MAC [BURST_MS] [qdisc]\n");
        return 2;
    }
    size_t bytes = strtoul(words[2], NULL, 10);
    double rate = strtod(words[3], NULL), seconds = strtod(words[4], NULL);
    unsigned long flows = strtoul(words[5], NULL, 10);
    double burst = count > 7 ? strtod(words[7], NULL) / 1e3 : 0;
    uint8_t mac[ETH_ALEN];
    int read = sscanf(words[6], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3,
                      mac + 4, mac + 5);
    if (bytes < SHORTEST || bytes > LONGEST || flows == 0 || read != ETH_ALEN) {
        fprintf(stderr, "send: a length, a number of flows or an address is invalid\n");
        return 2;
    }
    int past_qdisc = count <= 8 || strcmp(words[8], "qdisc") != 0;
    int file = open_socket(words[1], past_qdisc);

    static struct frame frames[BATCH];
    struct mmsghdr messages[BATCH] = { 0 };
    struct iovec parts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        fill(frames + i, bytes, mac);
        parts[i] = (struct iovec){ frames + i, bytes };
        messages[i].msg_hdr.msg_iov = parts + i;
        messages[i].msg_hdr.msg_iovlen = 1;
    }

    unsigned long sent = 0, flow = 0;
    double start = now(), elapsed;
    while ((elapsed = now() - start) < seconds) {
        // In bursts, the packets of a whole period are due at its beginning.
        double due_at = burst > 0 ? ((unsigned long)(elapsed / burst) + 1) * burst : elapsed;
        if (rate > 0 && (double)sent >= rate * due_at) {
            usleep(50);
            continue;
        }
        for (int i = 0; i < BATCH; i++) {
            frames[i].udp.source = htons((uint16_t)(FIRST_PORT + flow++ % flows));
        }
        int done = send_all(file, messages);
        if (done < 0) {
            return 1;
        }
        // At a given rate a packet that was dropped is not offered again.
        sent += rate > 0 ? BATCH : (unsigned long)done;
    }
    printf("%lu packets, %.0f per second\n", sent, (double)sent / elapsed);
    return 0;
}
