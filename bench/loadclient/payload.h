/* The bytes of a message: built once, its numbers and body put in for each send; and read back to check what arrived. */
#ifndef LOADCLIENT_PAYLOAD_H
#define LOADCLIENT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bodies.h"

#define PAYLOAD_MIN_BODY 12
#define PAYLOAD_MAX_BODY (100u << 20)
#define PAYLOAD_MIN_ID 24
#define PAYLOAD_MAX_ID 64
#define PAYLOAD_MAX_GROUPS 10000

/* A message as sent: header (durable, priority, ttl), the time of its delivery as an annotation, properties (message-id,
 * group-id), application properties (kind, traceparent), one data section; what the options don't want isn't there. */
struct payload {
  uint8_t *bytes;
  size_t size;
  size_t priority_at;
  size_t delivery_at; /* of the time's eight bytes */
  size_t id_at; /* of the ulong's eight bytes, or of the string's digits */
  size_t group_at; /* of the digits */
  size_t kind_at;
  size_t trace_at; /* of the traceparent's text */
  size_t body_at;
  const struct options *options;
  struct bodies bodies;
};

struct options;
void payload_init(struct payload *p, const struct options *o);
void payload_set(struct payload *p, uint64_t sequence);
void payload_free(struct payload *p);

/* Finds the first 12 bytes of the body (sequence, run) in encoded sections. False when the bytes are no message of ours. */
bool payload_read(const uint8_t *bytes, size_t size, uint64_t *sequence, uint32_t *run);

#endif
