#include "payload.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"

/* AMQP 1.0 part 1 (constructors) and part 3 (sections); only those that a broker sends with a plain message. */
enum { SECTION_HEADER = 0x70, SECTION_DATA = 0x75, SECTION_FOOTER = 0x78 };
enum { AMQP_DESCRIBED = 0x00, AMQP_SMALL_ULONG = 0x53, AMQP_ULONG = 0x80, AMQP_TRUE = 0x41, AMQP_UBYTE = 0x50,
       AMQP_LIST8 = 0xc0, AMQP_LIST32 = 0xd0, AMQP_LIST0 = 0x45, AMQP_MAP8 = 0xc1, AMQP_MAP32 = 0xd1,
       AMQP_BINARY8 = 0xa0, AMQP_BINARY32 = 0xb0, AMQP_STRING8 = 0xa1 };

static void put_u32(uint8_t *at, uint32_t value) {
  for (int i = 3; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static void put_u64(uint8_t *at, uint64_t value) {
  for (int i = 7; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static uint32_t get_u32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t get_u64(const uint8_t *at) { return (uint64_t)get_u32(at) << 32 | get_u32(at + 4); }

static size_t put_properties(struct payload *p, size_t at, uint32_t run) {
  uint8_t *b = p->bytes;
  uint32_t id_size = p->id_bytes ? 2 + p->id_bytes : 9;
  const uint8_t head[] = {AMQP_DESCRIBED, AMQP_SMALL_ULONG, 0x73, AMQP_LIST8, (uint8_t)(1 + id_size), 1};
  memcpy(b + at, head, sizeof head);
  at += sizeof head;
  if (p->id_bytes == 0) {
    b[at] = AMQP_ULONG;
    p->id_at = at + 1;
    return at + 9;
  }
  b[at] = AMQP_STRING8;
  b[at + 1] = (uint8_t)p->id_bytes;
  memset(b + at + 2, '-', p->id_bytes);
  for (size_t digit = 8; digit-- > 0; run >>= 4) b[at + 2 + digit] = (uint8_t)"0123456789abcdef"[run & 15];
  p->id_at = at + 2 + p->id_bytes - 15;
  return at + id_size;
}

/* Application properties with a traceparent: the first digits of its trace are the run's, the last the message's. */
static size_t put_trace(struct payload *p, size_t at, uint32_t run) {
  static const char TEXT[] = "00-000000000000000000000000000000aa-000000000000000a-00";
  static const uint8_t HEAD[] = {AMQP_DESCRIBED, AMQP_SMALL_ULONG, 0x74, AMQP_MAP8, 71, 2, AMQP_STRING8, 11,
                                 't', 'r', 'a', 'c', 'e', 'p', 'a', 'r', 'e', 'n', 't', AMQP_STRING8, 55};
  memcpy(p->bytes + at, HEAD, sizeof HEAD);
  at += sizeof HEAD;
  memcpy(p->bytes + at, TEXT, 55);
  for (size_t digit = 8; digit-- > 0; run >>= 4) p->bytes[at + 3 + digit] = (uint8_t)"0123456789abcdef"[run & 15];
  p->trace_at = at;
  return at + 55;
}

static void set_trace(uint8_t *text, uint64_t sequence, bool sampled) {
  text[54] = sampled ? '1' : '0';
  for (size_t digit = 15; digit-- > 0; sequence /= 10) text[19 + digit] = (uint8_t)('0' + sequence % 10);
}

void payload_init(struct payload *p, const struct options *o) {
  static const uint8_t HEADER[] = {AMQP_DESCRIBED, AMQP_SMALL_ULONG, SECTION_HEADER, AMQP_LIST8, 4, 2, AMQP_TRUE,
                                   AMQP_UBYTE, PAYLOAD_DEFAULT_PRIORITY};
  static const uint8_t DATA[] = {AMQP_DESCRIBED, AMQP_SMALL_ULONG, SECTION_DATA, AMQP_BINARY32};
  p->id_bytes = o->id_bytes;
  p->sampled_one_in = o->sampled_one_in;
  p->run = o->run;
  p->trace_at = 0;
  p->bytes = calloc(1, sizeof HEADER + 8 + 2 + PAYLOAD_MAX_ID + 76 + sizeof DATA + 4 + o->body_bytes);
  memcpy(p->bytes, HEADER, sizeof HEADER);
  p->priority_at = sizeof HEADER - 1;
  size_t at = put_properties(p, sizeof HEADER, o->run);
  if (o->sampled_one_in > 0) at = put_trace(p, at, o->run);
  memcpy(p->bytes + at, DATA, sizeof DATA);
  put_u32(p->bytes + at + sizeof DATA, o->body_bytes);
  p->body_at = at + sizeof DATA + 4;
  p->size = p->body_at + o->body_bytes;
  bodies_init(&p->bodies, o->body, o->body_bytes);
}

void payload_set(struct payload *p, uint64_t sequence, uint8_t priority) {
  p->bytes[p->priority_at] = priority;
  memcpy(p->bytes + p->body_at, bodies_at(&p->bodies, sequence), p->bodies.size);
  put_u64(p->bytes + p->body_at, sequence);
  put_u32(p->bytes + p->body_at + 8, p->run);
  if (p->trace_at) set_trace(p->bytes + p->trace_at, sequence, sequence % p->sampled_one_in == 0);
  if (p->id_bytes == 0) {
    put_u64(p->bytes + p->id_at, sequence);
    return;
  }
  for (size_t digit = 15; digit-- > 0; sequence /= 10) p->bytes[p->id_at + digit] = (uint8_t)('0' + sequence % 10);
}

void payload_free(struct payload *p) {
  bodies_free(&p->bodies);
  free(p->bytes);
  p->bytes = NULL;
}

/* Size of the list, map or binary at `at`, constructor included, or 0 when it is something else or passes the end. */
static size_t value_size(const uint8_t *at, size_t left) {
  if (left < 1) return 0;
  size_t size = 0;
  switch (at[0]) {
    case AMQP_LIST0: size = 1; break;
    case AMQP_LIST8: case AMQP_MAP8: case AMQP_BINARY8: size = left < 2 ? 0 : (size_t)at[1] + 2; break;
    case AMQP_LIST32: case AMQP_MAP32: case AMQP_BINARY32: size = left < 5 ? 0 : (size_t)get_u32(at + 1) + 5; break;
  }
  return size <= left ? size : 0;
}

/* Steps over a section's descriptor; gives its code, or 0 for what is no section. */
static uint8_t section_code(const uint8_t *bytes, size_t size, size_t *at) {
  size_t here = *at;
  if (here + 3 > size || bytes[here] != AMQP_DESCRIBED) return 0;
  uint64_t code = 0;
  if (bytes[here + 1] == AMQP_SMALL_ULONG) {
    code = bytes[here + 2];
    *at = here + 3;
  } else if (bytes[here + 1] == AMQP_ULONG && here + 10 <= size) {
    code = get_u64(bytes + here + 2);
    *at = here + 10;
  }
  return code >= SECTION_HEADER && code <= SECTION_FOOTER ? (uint8_t)code : 0;
}

bool payload_read(const uint8_t *bytes, size_t size, uint64_t *sequence, uint32_t *run) {
  size_t at = 0;
  for (;;) {
    uint8_t code = section_code(bytes, size, &at);
    size_t length = code == 0 ? 0 : value_size(bytes + at, size - at);
    if (length == 0) return false;
    if (code == SECTION_DATA) {
      size_t prefix = bytes[at] == AMQP_BINARY8 ? 2 : 5;
      if (bytes[at] != AMQP_BINARY8 && bytes[at] != AMQP_BINARY32) return false;
      if (length < prefix + PAYLOAD_MIN_BODY) return false;
      *sequence = get_u64(bytes + at + prefix);
      *run = get_u32(bytes + at + prefix + 8);
      return true;
    }
    at += length;
  }
}
