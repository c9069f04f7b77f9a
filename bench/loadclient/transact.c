#define _GNU_SOURCE /* memmem */
#include "transact.h"

#include <proton/codec.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/terminus.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DECLARED 0x33
#define TRANSACTIONAL_STATE 0x34
#define TM_SUCCESS 0x04000000u
#define MANAGEMENT "$management"
#define REPLY_TO "answers"
#define FORMAT_ID 0x706f7374 /* "post" */
#define GTRID_BYTES 12

struct bytes {
  char data[512];
  size_t size;
};

static void put(struct bytes *b, const void *data, size_t size) {
  memcpy(b->data + b->size, data, size);
  b->size += size;
}

static void put_byte(struct bytes *b, int byte) { b->data[b->size++] = (char)byte; }

static void put_u32(struct bytes *b, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) put_byte(b, (int)(value >> shift));
}

static void put_short(struct bytes *b, int constructor, const void *data, size_t size) {
  put_byte(b, constructor); /* str8, sym8 or vbin8 */
  put_byte(b, (int)size);
  put(b, data, size);
}

static void put_text(struct bytes *b, const char *text) { put_short(b, 0xa1, text, strlen(text)); }

static void put_descriptor(struct bytes *b, int code) {
  put_byte(b, 0x00);
  put_byte(b, 0x53);
  put_byte(b, code);
}

/* A list8 or map8 is begun with its number of items and closed when its size is known. */
static size_t begin(struct bytes *b, int constructor, int count) {
  put_byte(b, constructor);
  put_byte(b, 0);
  put_byte(b, count);
  return b->size - 2;
}

static void close_at(struct bytes *b, size_t at) { b->data[at] = (char)(b->size - at - 1); }

static void fail(struct transact *t, const char *what, uint64_t code) {
  if (t->error[0] == '\0') snprintf(t->error, sizeof t->error, "transaction %lu: %s (%#lx)", t->begun, what, code);
}

static void send_bytes(pn_link_t *link, uint64_t tag, const struct bytes *b) {
  pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
  pn_link_send(link, b->data, b->size);
  pn_link_advance(link);
}

static pn_link_t *open_control(pn_session_t *session) {
  pn_link_t *link = pn_sender(session, "control");
  pn_terminus_set_type(pn_link_target(link), PN_COORDINATOR);
  pn_link_set_snd_settle_mode(link, PN_SND_UNSETTLED);
  pn_link_open(link);
  return link;
}

void transact_open(struct transact *t, pn_session_t *session, uint32_t size, bool xa) {
  t->size = size;
  t->control = open_control(session);
  if (!xa) return;
  t->requests = pn_sender(session, "requests");
  pn_terminus_set_address(pn_link_target(t->requests), MANAGEMENT);
  pn_link_open(t->requests);
  t->answers = pn_receiver(session, "answers");
  pn_terminus_set_address(pn_link_source(t->answers), MANAGEMENT);
  pn_terminus_set_address(pn_link_target(t->answers), REPLY_TO);
  pn_link_open(t->answers);
  pn_link_flow(t->answers, 1 << 20);
}

/* Differs between processes and transactions; the branch qualifier is the same for all. */
static void global_id(const struct transact *t, char gtrid[GTRID_BYTES]) {
  uint32_t process = (uint32_t)getpid();
  memcpy(gtrid, &process, sizeof process);
  memcpy(gtrid + sizeof process, &t->begun, sizeof t->begun);
}

static void declare(struct transact *t) {
  struct bytes b = {.size = 0};
  char gtrid[GTRID_BYTES];
  t->begun++;
  global_id(t, gtrid);
  put_descriptor(&b, 0x77);
  put_descriptor(&b, 0x31);
  if (t->requests == NULL) {
    put_byte(&b, 0x45); /* list0 */
  } else {
    size_t fields = begin(&b, 0xc0, 1), xid = begin(&b, 0xc0, 3);
    put_byte(&b, 0x71);
    put_u32(&b, FORMAT_ID);
    put_short(&b, 0xa0, gtrid, sizeof gtrid);
    put_short(&b, 0xa0, "b", 1);
    close_at(&b, xid);
    close_at(&b, fields);
  }
  send_bytes(t->control, t->begun * 2, &b);
  t->declaring = true;
}

void transact_begin(struct transact *t) {
  if (t->phase == PHASE_NONE && !t->declaring && pn_link_credit(t->control) > 0) declare(t);
}

void transact_mark(struct transact *t, pn_delivery_t *delivery, bool accepts) {
  pn_data_t *data = pn_disposition_data(pn_delivery_local(delivery));
  pn_data_clear(data);
  pn_data_put_list(data);
  pn_data_enter(data);
  pn_data_put_binary(data, pn_bytes(t->id_size, t->id));
  if (accepts) {
    pn_data_put_described(data);
    pn_data_enter(data);
    pn_data_put_ulong(data, PN_ACCEPTED);
    pn_data_put_list(data);
    pn_data_exit(data);
  }
  pn_data_exit(data);
  pn_delivery_update(delivery, TRANSACTIONAL_STATE);
  t->used++;
}

static void discharge(struct transact *t) {
  struct bytes b = {.size = 0};
  put_descriptor(&b, 0x77);
  put_descriptor(&b, 0x32);
  size_t fields = begin(&b, 0xc0, 2);
  put_short(&b, 0xa0, t->id, t->id_size);
  put_byte(&b, 0x42); /* false: commit */
  close_at(&b, fields);
  send_bytes(t->control, t->begun * 2 - 1, &b);
  t->phase = PHASE_DECIDING;
}

static void put_xid(struct bytes *b, const struct transact *t) {
  char gtrid[GTRID_BYTES], text[64];
  global_id(t, gtrid);
  int at = snprintf(text, sizeof text, "%08x-", FORMAT_ID);
  for (int i = 0; i < GTRID_BYTES; i++) at += snprintf(text + at, sizeof text - (size_t)at, "%02x", gtrid[i] & 0xff);
  snprintf(text + at, sizeof text - (size_t)at, "-62");
  put_text(b, text);
}

static void request(struct transact *t, const char *operation, enum phase phase) {
  struct bytes b = {.size = 0};
  put_descriptor(&b, 0x73);
  size_t properties = begin(&b, 0xc0, 5);
  put_byte(&b, 0x44); /* message-id: ulong 0 */
  for (int i = 0; i < 3; i++) put_byte(&b, 0x40);
  put_text(&b, REPLY_TO);
  close_at(&b, properties);
  put_descriptor(&b, 0x74);
  size_t map = begin(&b, 0xc1, 6);
  put_text(&b, "operation");
  put_text(&b, operation);
  put_text(&b, "type");
  put_text(&b, "postroom.xa-branch");
  put_text(&b, "xid");
  put_xid(&b, t);
  close_at(&b, map);
  put_descriptor(&b, 0x77);
  put_byte(&b, 0x40);
  send_bytes(t->requests, t->begun * 4 + (uint64_t)phase - PHASE_ENDING, &b);
  t->phase = phase;
}

bool transact_has_room(const struct transact *t) { return t->phase == PHASE_OPEN && t->used < t->size; }

void transact_commit_if_full(struct transact *t, bool more) {
  if (t->phase != PHASE_OPEN || t->used < t->size) return;
  t->asked_s = now_s();
  if (t->requests) {
    request(t, "END", PHASE_ENDING);
    return;
  }
  discharge(t);
  if (more && pn_link_credit(t->control) > 0) declare(t);
}

static void committed(struct transact *t) {
  histogram_add(&t->latency, now_s() - t->asked_s);
  t->committed++;
  t->used = 0;
}

static void on_declared(struct transact *t, pn_delivery_t *delivery) {
  pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery));
  pn_data_rewind(data);
  pn_data_next(data);
  pn_data_enter(data);
  pn_data_next(data);
  pn_bytes_t id = pn_data_get_binary(data);
  if (id.size == 0 || id.size > sizeof t->id) {
    fail(t, "declared with an id that is none", id.size);
    return;
  }
  memcpy(t->id, id.start, id.size);
  t->id_size = id.size;
  t->declaring = false;
}

static void on_control(struct transact *t, pn_delivery_t *delivery) {
  uint64_t state = pn_delivery_remote_state(delivery);
  if (state == 0) return;
  if (t->declaring && state == DECLARED) {
    on_declared(t, delivery);
    if (t->phase == PHASE_NONE) t->phase = PHASE_OPEN;
  } else if (t->phase == PHASE_DECIDING && state == PN_ACCEPTED) {
    committed(t);
    t->phase = t->begun == t->committed || t->declaring ? PHASE_NONE : PHASE_OPEN;
  } else {
    fail(t, "refused by the coordinator, state", state);
  }
  pn_delivery_settle(delivery);
}

static bool is_ok(const char *message, size_t size) {
  static const char STATUS[] = "statusCode";
  const char *at = memmem(message, size, STATUS, sizeof STATUS - 1);
  if (at == NULL) return false;
  at += sizeof STATUS - 1;
  static const char OK[] = {0x71, 0, 0, 0, (char)200};
  return at + sizeof OK <= message + size && memcmp(at, OK, sizeof OK) == 0;
}

static void on_answer(struct transact *t, pn_delivery_t *delivery) {
  char message[4096];
  if (!pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) return;
  ssize_t size = pn_link_recv(t->answers, message, sizeof message);
  pn_link_advance(t->answers);
  pn_delivery_settle(delivery);
  if (size < 0 || !is_ok(message, (size_t)size)) {
    fail(t, "refused by the management node, phase", t->phase);
  } else if (t->phase == PHASE_ENDING) {
    request(t, "PREPARE", PHASE_PREPARING);
  } else if (t->phase == PHASE_PREPARING) {
    request(t, "COMMIT", PHASE_DECIDING);
  } else {
    committed(t);
    t->phase = PHASE_NONE;
  }
}

bool transact_handles(struct transact *t, pn_delivery_t *delivery) {
  pn_link_t *link = pn_delivery_link(delivery);
  if (link == t->control)
    on_control(t, delivery);
  else if (link == t->answers)
    on_answer(t, delivery);
  else if (link == t->requests)
    pn_delivery_settle(delivery);
  else
    return false;
  return true;
}

uint64_t transact_outcome(pn_delivery_t *delivery) {
  uint64_t state = pn_delivery_remote_state(delivery);
  if (state != TRANSACTIONAL_STATE) return state;
  pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery));
  pn_data_rewind(data);
  pn_data_next(data);
  pn_data_enter(data);
  pn_data_next(data); /* the transaction */
  if (!pn_data_next(data) || pn_data_type(data) != PN_DESCRIBED) return state;
  pn_data_enter(data);
  pn_data_next(data);
  return pn_data_get_ulong(data);
}
