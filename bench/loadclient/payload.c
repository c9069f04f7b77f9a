#include "payload.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

/* AMQP 1.0 part 1 (constructors) and part 3 (sections); only those that a broker sends with a plain message. */
enum { SECTION_HEADER = 0x70, SECTION_ANNOTATIONS = 0x72, SECTION_PROPERTIES, SECTION_APPLICATION_PROPERTIES, SECTION_DATA,
       SECTION_FOOTER = 0x78 };
enum { AMQP_DESCRIBED = 0x00, AMQP_SMALL_ULONG = 0x53, AMQP_ULONG = 0x80, AMQP_TRUE = 0x41, AMQP_UBYTE = 0x50,
       AMQP_UINT = 0x70, AMQP_SMALL_INT = 0x54, AMQP_TIMESTAMP = 0x83, AMQP_NULL = 0x40, AMQP_LIST8 = 0xc0,
       AMQP_LIST32 = 0xd0, AMQP_LIST0 = 0x45, AMQP_MAP8 = 0xc1, AMQP_MAP32 = 0xd1, AMQP_BINARY8 = 0xa0,
       AMQP_BINARY32 = 0xb0, AMQP_STRING8 = 0xa1, AMQP_SYMBOL8 = 0xa3 };
#define SECTIONS_BYTES 512 /* more than all but the body */
#define DEFAULT_PRIORITY 4
#define GROUP_DIGITS 4
#define ID_DIGITS 15
#define ABSENT_BEFORE_GROUP 9 /* properties between message-id and group-id */

static void put_u32(uint8_t *at, uint32_t value) {
  for (int i = 3; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static void put_u64(uint8_t *at, uint64_t value) {
  for (int i = 7; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static void put_digits(uint8_t *at, size_t count, uint64_t value) {
  for (; count-- > 0; value /= 10) at[count] = (uint8_t)('0' + value % 10);
}

static void put_run(uint8_t *at, uint32_t run) {
  for (size_t digit = 8; digit-- > 0; run >>= 4) at[digit] = (uint8_t)"0123456789abcdef"[run & 15];
}

static uint32_t get_u32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t get_u64(const uint8_t *at) { return (uint64_t)get_u32(at) << 32 | get_u32(at + 4); }

static void add_byte(struct payload *p, int byte) { p->bytes[p->size++] = (uint8_t)byte; }

static void add(struct payload *p, const void *bytes, size_t size) {
  memcpy(p->bytes + p->size, bytes, size);
  p->size += size;
}

/* Room for a value that each message has for itself; gives its place. */
static size_t add_room(struct payload *p, size_t size) {
  p->size += size;
  return p->size - size;
}

static void add_text(struct payload *p, int constructor, const char *text) {
  add_byte(p, constructor);
  add_byte(p, (int)strlen(text));
  add(p, text, strlen(text));
}

static void begin_section(struct payload *p, int code) {
  add_byte(p, AMQP_DESCRIBED);
  add_byte(p, AMQP_SMALL_ULONG);
  add_byte(p, code);
}

/* A list8 or map8 of so many items; its size is known at its end. */
static size_t begin_items(struct payload *p, int constructor, int count) {
  add_byte(p, constructor);
  size_t at = add_room(p, 1);
  add_byte(p, count);
  return at;
}

static void end_items(struct payload *p, size_t at) { p->bytes[at] = (uint8_t)(p->size - at - 1); }

static void add_header(struct payload *p) {
  begin_section(p, SECTION_HEADER);
  size_t items = begin_items(p, AMQP_LIST8, p->options->ttl_ms ? 3 : 2);
  add_byte(p, AMQP_TRUE);
  add_byte(p, AMQP_UBYTE);
  p->priority_at = add_room(p, 1);
  p->bytes[p->priority_at] = DEFAULT_PRIORITY;
  if (p->options->ttl_ms) {
    add_byte(p, AMQP_UINT);
    put_u32(p->bytes + add_room(p, 4), p->options->ttl_ms);
  }
  end_items(p, items);
}

static void add_annotations(struct payload *p) {
  if (p->options->delay_ms == 0) return;
  begin_section(p, SECTION_ANNOTATIONS);
  size_t items = begin_items(p, AMQP_MAP8, 2);
  add_text(p, AMQP_SYMBOL8, "x-opt-delivery-time");
  add_byte(p, AMQP_TIMESTAMP);
  p->delivery_at = add_room(p, 8);
  end_items(p, items);
}

/* Either a ulong, or a text that begins with the run and ends with the sequence number. */
static void add_id(struct payload *p) {
  size_t size = p->options->id_bytes;
  if (size == 0) {
    add_byte(p, AMQP_ULONG);
    p->id_at = add_room(p, 8);
    return;
  }
  add_byte(p, AMQP_STRING8);
  add_byte(p, (int)size);
  uint8_t *text = p->bytes + add_room(p, size);
  memset(text, '-', size);
  put_run(text, p->options->run);
  p->id_at = p->size - ID_DIGITS;
}

static void add_properties(struct payload *p) {
  begin_section(p, SECTION_PROPERTIES);
  size_t items = begin_items(p, AMQP_LIST8, p->options->groups ? 2 + ABSENT_BEFORE_GROUP : 1);
  add_id(p);
  if (p->options->groups) {
    for (int i = 0; i < ABSENT_BEFORE_GROUP; i++) add_byte(p, AMQP_NULL);
    add_text(p, AMQP_STRING8, "group-0000");
    p->group_at = p->size - GROUP_DIGITS;
  }
  end_items(p, items);
}

/* The first digits of a traceparent's trace are the run's, the last the message's. */
static void add_application_properties(struct payload *p) {
  static const char TRACE[] = "00-000000000000000000000000000000aa-000000000000000a-00";
  int count = (p->options->kinds ? 2 : 0) + (p->options->sampled_one_in ? 2 : 0);
  if (count == 0) return;
  begin_section(p, SECTION_APPLICATION_PROPERTIES);
  size_t items = begin_items(p, AMQP_MAP8, count);
  if (p->options->kinds) {
    add_text(p, AMQP_STRING8, "kind");
    add_byte(p, AMQP_SMALL_INT);
    p->kind_at = add_room(p, 1);
  }
  if (p->options->sampled_one_in) {
    add_text(p, AMQP_STRING8, "traceparent");
    add_text(p, AMQP_STRING8, TRACE);
    p->trace_at = p->size - (sizeof TRACE - 1);
    put_run(p->bytes + p->trace_at + 3, p->options->run);
  }
  end_items(p, items);
}

void payload_init(struct payload *p, const struct options *o) {
  *p = (struct payload){.bytes = calloc(1, SECTIONS_BYTES + o->body_bytes), .options = o};
  add_header(p);
  add_annotations(p);
  add_properties(p);
  add_application_properties(p);
  begin_section(p, SECTION_DATA);
  add_byte(p, AMQP_BINARY32);
  put_u32(p->bytes + add_room(p, 4), o->body_bytes);
  p->body_at = add_room(p, o->body_bytes);
  bodies_init(&p->bodies, o->body, o->body_bytes);
  memcpy(p->bytes + p->body_at, bodies_at(&p->bodies, 0), o->body_bytes);
}

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void set_properties(struct payload *p, uint64_t sequence) {
  const struct options *o = p->options;
  if (o->delay_ms) put_u64(p->bytes + p->delivery_at, now_ms() + o->delay_ms);
  if (o->groups) put_digits(p->bytes + p->group_at, GROUP_DIGITS, sequence % o->groups);
  if (o->kinds) p->bytes[p->kind_at] = (uint8_t)(sequence % 10);
  if (o->sampled_one_in) {
    put_digits(p->bytes + p->trace_at + 19, ID_DIGITS, sequence);
    p->bytes[p->trace_at + 54] = sequence % o->sampled_one_in == 0 ? '1' : '0';
  }
  if (o->id_bytes)
    put_digits(p->bytes + p->id_at, ID_DIGITS, sequence);
  else
    put_u64(p->bytes + p->id_at, sequence);
}

void payload_set(struct payload *p, uint64_t sequence) {
  if (p->options->mixed_priorities) p->bytes[p->priority_at] = (uint8_t)(sequence % 10);
  set_properties(p, sequence);
  if (p->bodies.count > 1) memcpy(p->bytes + p->body_at, bodies_at(&p->bodies, sequence), p->bodies.size);
  put_u64(p->bytes + p->body_at, sequence);
  put_u32(p->bytes + p->body_at + 8, p->options->run);
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
