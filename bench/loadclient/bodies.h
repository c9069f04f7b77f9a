/* What is in the bodies: enough of it that no two messages that a broker holds together are alike. */
#ifndef LOADCLIENT_BODIES_H
#define LOADCLIENT_BODIES_H

#include <stddef.h>
#include <stdint.h>

#define BODIES_BYTES (4u << 20)

enum body_kind {
  BODY_ORDERS, /* orders as JSON: what a compression makes of it is about what it makes of business data */
  BODY_RANDOM, /* bytes that no compression makes smaller */
};

/* `count` bodies of `size` bytes each, one behind the other: BODIES_BYTES of them, or one that is larger. */
struct bodies {
  uint8_t *bytes;
  size_t size, count;
};

void bodies_init(struct bodies *b, enum body_kind kind, size_t size);
const uint8_t *bodies_at(const struct bodies *b, uint64_t sequence);
void bodies_free(struct bodies *b);

#endif
