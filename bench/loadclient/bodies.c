#include "bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* xorshift64*: the same bytes in each run. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1dull;
}

static unsigned below(uint64_t *state, unsigned bound) { return (unsigned)(next_random(state) >> 33) % bound; }

static void fill_random(uint8_t *bytes, size_t size, uint64_t *state) {
  for (size_t at = 0; at < size; at++) bytes[at] = (uint8_t)(next_random(state) >> 56);
}

/* One order, cut off where the body ends. */
static void fill_order(uint8_t *bytes, size_t size, uint64_t *state) {
  static const char *const NAMES[] = {"bracket", "hinge", "bolt", "washer", "gasket", "valve", "filter", "bearing",
                                      "coupling", "flange", "spring", "sensor", "relay", "switch", "lamp", "cable"};
  static const char *const MATERIALS[] = {"steel", "brass", "nylon", "copper", "rubber", "ceramic", "aluminium", "zinc"};
  char text[192];
  int length = snprintf(text, sizeof text, "{\"order\":\"%08x\",\"customer\":\"C%06u\",\"placed\":\"2026-%02u-%02uT%02u:%02u:%02uZ\",\"lines\":[",
                        (unsigned)(next_random(state) >> 32), below(state, 1000000), 1 + below(state, 12), 1 + below(state, 28),
                        below(state, 24), below(state, 60), below(state, 60));
  for (size_t at = 0;;) {
    size_t room = size - at, part = (size_t)length < room ? (size_t)length : room;
    memcpy(bytes + at, text, part);
    at += part;
    if (at == size) return;
    length = snprintf(text, sizeof text, "{\"sku\":\"%c%c-%05u\",\"name\":\"%s, %s\",\"quantity\":%u,\"price\":\"%u.%02u\"},",
                      'A' + below(state, 26), 'A' + below(state, 26), below(state, 100000), NAMES[below(state, 16)],
                      MATERIALS[below(state, 8)], 1 + below(state, 99), below(state, 1000), below(state, 100));
  }
}

void bodies_init(struct bodies *b, enum body_kind kind, size_t size) {
  uint64_t state = 88172645463325252ull;
  b->size = size;
  b->count = size < BODIES_BYTES ? BODIES_BYTES / size : 1;
  b->bytes = malloc(b->count * size);
  for (size_t at = 0; at < b->count; at++)
    (kind == BODY_RANDOM ? fill_random : fill_order)(b->bytes + at * size, size, &state);
}

const uint8_t *bodies_at(const struct bodies *b, uint64_t sequence) { return b->bytes + sequence % b->count * b->size; }

void bodies_free(struct bodies *b) { free(b->bytes); }
