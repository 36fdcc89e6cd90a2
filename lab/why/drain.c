// SPDX-License-Identifier: MIT OR Apache-2.0
// An HTTP client that leaves what it receives unread: the kernel drops it (MSG_TRUNC), so that the
// client costs less than the server and the server's copies show in the rate.
//
//   drain ADDRESS PORT PATH BYTES SECONDS
//
// BYTES: length of the file at PATH; 4 requests are on the way at any time.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ON_THE_WAY = 4, AT_ONCE = 1 << 20 };

static int connected(const char *address, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int socket_of_tcp = socket(AF_INET, SOCK_STREAM, 0);
    if (socket_of_tcp < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
        connect(socket_of_tcp, (struct sockaddr *)&to, sizeof to) != 0) {
        perror(address);
        exit(1);
    }
    return socket_of_tcp;
}

static void ask(int server, const char *path)
{
    char request[512];
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: lab\r\n\r\n", path);
    if (send(server, request, (size_t)length, MSG_NOSIGNAL) != length) {
        perror("drain");
        exit(1);
    }
}

int main(int words, char **word)
{
    if (words != 6) {
        fprintf(stderr, "drain ADDRESS PORT PATH BYTES SECONDS\n");
        return 2;
    }
    int server = connected(word[1], word[2]);
    long long bytes = atoll(word[4]), since_request = 0;
    time_t end = time(NULL) + atoi(word[5]);
    for (int i = 0; i < ON_THE_WAY; i++) {
        ask(server, word[3]);
    }
    while (time(NULL) < end) {
        ssize_t dropped = recv(server, NULL, AT_ONCE, MSG_TRUNC);
        if (dropped <= 0) {
            break;
        }
        // The headers of an answer count as a part of it: requests run slightly ahead.
        for (since_request += dropped; since_request >= bytes; since_request -= bytes) {
            ask(server, word[3]);
        }
    }
    close(server);
    return 0;
}
