/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies a packet out of a mapped file, which its owner truncates meanwhile. An ordinary copy would
 * end this process by SIGBUS; this one reports how much of the packet it has copied.
 */
#define _GNU_SOURCE
#include <linerate/checksum.h>
#include <linerate/hosted.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if LR_FAULT
#define PACKET 1460

static uint8_t packet[PACKET];

static int take(const uint8_t *from)
{
	const struct lr_tried tried = lr_try_copy_csum(packet, from, PACKET, 0);
	printf("%zu bytes of %d, checksum 0x%04x%s\n", PACKET - tried.residue, PACKET,
	       lr_csum_finish(tried.sum),
	       tried.side == LR_FAULT_SOURCE	  ? ": the source ended" :
	       tried.side == LR_FAULT_DESTINATION ? ": the destination ended" :
						    "");
	return tried.residue == 0;
}

int main(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * page;
	const int file = memfd_create("packets", 0);
	if (file < 0 || ftruncate(file, (off_t)bytes)) {
		perror("memfd_create");
		return 2;
	}
	uint8_t *shared = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	memset(shared, 0x5a, bytes);

	int error = lr_fault_register(shared, bytes);
	if (!error)
		error = lr_fault_install();
	if (error) {
		fprintf(stderr, "no handlers for faults: %s\n", strerror(error));
		return 2;
	}
	/* The packet crosses the end of the first page. */
	const uint8_t *from = shared + page - 1000;
	const int whole = take(from);
	if (ftruncate(file, (off_t)page)) {
		perror("ftruncate");
		return 2;
	}
	const int truncated = !take(from);

	error = lr_fault_uninstall();
	if (!error)
		error = lr_fault_unregister(shared, bytes);
	munmap(shared, bytes);
	close(file);
	return whole && truncated && !error ? 0 : 1;
}

#else

int main(void)
{
	printf("SKIP: copies that survive a fault are not supported on this architecture\n");
	return 0;
}

#endif
