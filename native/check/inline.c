/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Callers of the inline functions; symbols.sh inspects their code. */
#include <linerate/checksum.h>
#include <linerate/vector_context.h>

uint32_t lr_inline_header(const void *src);
uint32_t lr_inline_header_with_options(const void *src);
uint32_t lr_inline_pseudo_ipv4(const void *addresses, uint16_t bytes);
uint32_t lr_inline_pseudo_ipv6(const void *addresses, uint32_t bytes);

uint32_t lr_inline_header(const void *src)
{
	return lr_csum_header(src, 5, 0);
}

uint32_t lr_inline_header_with_options(const void *src)
{
	return lr_csum_header(src, 15, 0);
}

uint32_t lr_inline_pseudo_ipv4(const void *addresses, uint16_t bytes)
{
	return lr_csum_pseudo_ipv4(addresses, 17, bytes);
}

uint32_t lr_inline_pseudo_ipv6(const void *addresses, uint32_t bytes)
{
	return lr_csum_pseudo_ipv6(addresses, 6, bytes);
}

#if LR_VEC
int lr_inline_enter(struct lr_vec_unit *unit);
void lr_inline_leave(struct lr_vec_unit *unit);

int lr_inline_enter(struct lr_vec_unit *unit)
{
	return lr_vec_enter(unit);
}

void lr_inline_leave(struct lr_vec_unit *unit)
{
	lr_vec_leave(unit);
}
#endif
