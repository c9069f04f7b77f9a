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
#define PAYLOAD_DEFAULT_PRIORITY 4

/* A message as sent: header (durable, priority), properties (message-id), a traceparent or not, one data section. */
struct payload {
  uint8_t *bytes;
  size_t size;
  size_t priority_at;
  size_t id_at; /* of the ulong's eight bytes, or of the string's digits */
  size_t body_at;
  size_t trace_at; /* of the traceparent's text, 0: there is none */
  uint32_t sampled_one_in;
  uint32_t id_bytes;
  uint32_t run;
  struct bodies bodies;
};

struct options;
void payload_init(struct payload *p, const struct options *o);
void payload_set(struct payload *p, uint64_t sequence, uint8_t priority);
void payload_free(struct payload *p);

/* Finds the first 12 bytes of the body (sequence, run) in encoded sections. False when the bytes are no message of ours. */
bool payload_read(const uint8_t *bytes, size_t size, uint64_t *sequence, uint32_t *run);

#endif
