/* A neutral load client: what it measures of one AMQP 1.0 broker it measures of any. See options.c for its usage. */
#include <math.h>
#include <poll.h>
#include <proton/delivery.h>
#include <proton/transport.h>
#include <proton/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "meter.h"
#include "options.h"
#include "payload.h"
#include "report.h"
#include "transact.h"

#define POLL_LONGEST_MS 500

struct load {
  struct options options;
  struct endpoint *endpoints;
  struct pollfd *ready;
  uint32_t endpoint_count;
  bool sends, receives;
  struct transact transact;
  struct payload payload;
  struct histogram latency;
  struct seen seen;
  char *incoming;
  uint64_t sent, in_flight, accepted, refused, received, foreign; /* over all connections */
  double started_s, ended_s, moved_s, first_arrival_s;
};

/* Where a relay sends to; its other connection receives. */
static struct endpoint *sending_end(struct load *l) { return &l->endpoints[0]; }

/* The context of a delivery is when it was sent, in nanoseconds; of a relay's, the delivery that it came by. */
static void note_answer(struct load *l, pn_delivery_t *delivery, uint64_t state) {
  void *context = pn_delivery_get_context(delivery);
  if (l->options.mode == MODE_RELAY) {
    pn_delivery_update(context, state);
    pn_delivery_settle(context);
  } else {
    histogram_add(&l->latency, now_s() - (double)(uintptr_t)context * 1e-9);
  }
}

static void on_answer(struct load *l, struct endpoint *e, pn_delivery_t *delivery) {
  uint64_t state = transact_outcome(delivery);
  if (state == 0 && !pn_delivery_settled(delivery)) return;
  note_answer(l, delivery, state ? state : PN_RELEASED);
  if (state == PN_ACCEPTED)
    l->accepted++;
  else
    l->refused++;
  l->in_flight--;
  e->in_flight--;
  pn_delivery_settle(delivery);
}

/* A message that each connection gets counts as many. */
static uint64_t place_of(const struct load *l, const struct endpoint *e, uint64_t sequence) {
  if (!l->options.copies) return sequence;
  return l->options.first + (sequence - l->options.first) * l->endpoint_count + (uint64_t)(e - l->endpoints);
}

static void check_message(struct load *l, const struct endpoint *e, size_t size) {
  uint64_t sequence;
  uint32_t run;
  if (!payload_read((const uint8_t *)l->incoming, size, &sequence, &run) || run != l->options.run ||
      sequence - l->options.first >= l->options.of)
    l->foreign++;
  else
    seen_add(&l->seen, place_of(l, e, sequence));
}

static void relay(struct load *l, pn_delivery_t *source, size_t size) {
  struct endpoint *e = sending_end(l);
  pn_link_t *link = e->sender;
  pn_delivery_t *delivery = pn_delivery(link, pn_dtag((const char *)&l->sent, sizeof l->sent));
  pn_delivery_set_context(delivery, source);
  pn_link_send(link, l->incoming, size);
  pn_link_advance(link);
  l->sent++;
  l->in_flight++;
  e->in_flight++;
}

static void accept(struct load *l, pn_delivery_t *delivery) {
  if (l->options.transaction)
    transact_mark(&l->transact, delivery, true);
  else
    pn_delivery_update(delivery, PN_ACCEPTED);
  pn_delivery_settle(delivery);
}

static void on_message(struct load *l, struct endpoint *e, pn_delivery_t *delivery) {
  if (!pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) return;
  if (l->received == 0) l->first_arrival_s = now_s();
  size_t pending = pn_delivery_pending(delivery);
  if (pending > PAYLOAD_MAX_BODY + 4096) {
    l->foreign++;
  } else {
    pn_link_recv(e->receiver, l->incoming, pending);
    check_message(l, e, pending);
  }
  pn_link_advance(e->receiver);
  if (l->options.mode == MODE_RELAY)
    relay(l, delivery, pending);
  else
    accept(l, delivery);
  l->received++;
  e->credit_given--;
}

/* What has come goes into the open transaction as far as it has room; the rest waits for the next. */
static void take_messages(struct load *l, struct endpoint *e) {
  pn_delivery_t *next;
  while (transact_has_room(&l->transact) && (next = pn_link_current(e->receiver)) != NULL) {
    uint64_t before = l->received;
    on_message(l, e, next);
    if (l->received == before) return;
  }
}

static void on_delivery(void *context, struct endpoint *e, pn_delivery_t *delivery) {
  struct load *l = context;
  if (l->options.transaction && transact_handles(&l->transact, delivery)) return;
  if (pn_delivery_link(delivery) == e->sender)
    on_answer(l, e, delivery);
  else if (l->options.transaction)
    take_messages(l, e);
  else
    on_message(l, e, delivery);
}

static bool time_is_up(const struct load *l, double now) {
  return l->options.seconds > 0 && now - l->started_s >= l->options.seconds;
}

static bool sending_is_over(const struct load *l, double now) {
  return (l->options.messages && l->sent >= l->options.messages) || time_is_up(l, now);
}

/* How many messages may go now, by window, credit, number and rate. */
static uint64_t allowance(const struct load *l, const struct endpoint *e, double now) {
  if (sending_is_over(l, now)) return 0;
  const struct transact *t = &l->transact;
  if (l->options.transaction && !transact_has_room(t)) return 0;
  uint64_t most = l->options.window - e->in_flight;
  int credit = pn_link_credit(e->sender);
  if (credit < 0) credit = 0;
  if ((uint64_t)credit < most) most = (uint64_t)credit;
  if (l->options.messages && l->options.messages - l->sent < most) most = l->options.messages - l->sent;
  if (l->options.transaction && t->size - t->used < most) most = t->size - t->used;
  if (l->options.rate > 0) {
    uint64_t due = (uint64_t)((now - l->started_s) * l->options.rate) + 1;
    if (due - l->sent < most) most = due > l->sent ? due - l->sent : 0;
  }
  return most;
}

static void send_messages(struct load *l, struct endpoint *e, double now) {
  for (uint64_t left = allowance(l, e, now); left > 0; left--) {
    payload_set(&l->payload, l->options.first + l->sent);
    pn_delivery_t *delivery = pn_delivery(e->sender, pn_dtag((const char *)&l->sent, sizeof l->sent));
    if (l->options.transaction) transact_mark(&l->transact, delivery, false);
    pn_delivery_set_context(delivery, (void *)(uintptr_t)(now * 1e9));
    pn_link_send(e->sender, (const char *)l->payload.bytes, l->payload.size);
    pn_link_advance(e->sender);
    l->sent++;
    l->in_flight++;
    e->in_flight++;
  }
}

/* Credit is renewed when half of it is used. A single receiver has none beyond what is still wanted; of several nobody knows
 * which will get it. A relay's is also used by what waits for the other broker's answer. */
static void give_credit(struct load *l, struct endpoint *e) {
  uint64_t used = e->credit_given + (l->options.mode == MODE_RELAY ? l->in_flight : 0);
  if (used > l->options.credit / 2) return;
  uint64_t more = l->options.credit - used;
  if (l->options.messages && l->options.connections <= 1) {
    uint64_t wanted = l->options.messages - l->received - e->credit_given;
    if (more > wanted) more = wanted;
  }
  if (more == 0) return;
  pn_link_flow(e->receiver, (int)more);
  e->credit_given += (uint32_t)more;
}

/* Time is up in the middle of a transaction: it is left, to be rolled back. */
static bool is_stuck(const struct load *l, double now) {
  const struct transact *t = &l->transact;
  return time_is_up(l, now) && t->phase <= PHASE_OPEN && t->used < t->size;
}

static bool is_done(const struct load *l, double now) {
  if (l->options.transaction && l->transact.phase != PHASE_NONE && !is_stuck(l, now)) return false;
  if (l->sends && !(sending_is_over(l, now) && l->in_flight == 0)) return false;
  if (!l->receives) return true;
  if (l->sends) return l->received >= l->sent;
  return (l->options.messages && l->received >= l->options.messages) || time_is_up(l, now);
}

static const char *first_error(const struct load *l) {
  for (uint32_t i = 0; i < l->endpoint_count; i++)
    if (l->endpoints[i].error[0]) return l->endpoints[i].error;
  return l->transact.error[0] ? l->transact.error : NULL;
}

static bool all_finished(const struct load *l) {
  for (uint32_t i = 0; i < l->endpoint_count; i++)
    if (!l->endpoints[i].finished) return false;
  return true;
}

/* One round: wait for sockets, read, write. The time-out is short where a rate is to be kept. */
static void pump(struct load *l) {
  int64_t now_ms = (int64_t)(now_s() * 1e3);
  for (uint32_t i = 0; i < l->endpoint_count; i++) {
    struct endpoint *e = &l->endpoints[i];
    pn_transport_tick(e->driver.transport, now_ms);
    bool blocked = endpoint_write(e);
    l->ready[i] = (struct pollfd){.fd = e->finished ? -1 : e->fd, .events = (short)(POLLIN | (blocked ? POLLOUT : 0))};
  }
  poll(l->ready, (nfds_t)l->endpoint_count, l->options.rate > 0 ? 1 : POLL_LONGEST_MS);
  for (uint32_t i = 0; i < l->endpoint_count; i++) {
    if (!(l->ready[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
    if (endpoint_read(&l->endpoints[i], on_delivery, l)) l->moved_s = now_s();
  }
}

static void check_patience(struct load *l) {
  if (now_s() - l->moved_s < l->options.patience_s || first_error(l)) return;
  snprintf(l->endpoints[0].error, sizeof l->endpoints[0].error, "nothing moved for %.0f s", l->options.patience_s);
}

static void wait_for_links(struct load *l) {
  l->moved_s = now_s();
  while (!first_error(l)) {
    bool all = true;
    for (uint32_t i = 0; i < l->endpoint_count; i++) all = all && l->endpoints[i].attached;
    if (all) return;
    pump(l);
    check_patience(l);
  }
}

/* No further transaction is to begin. */
static bool is_over(const struct load *l, double now) {
  if (l->sends) return sending_is_over(l, now);
  return (l->options.messages && l->received >= l->options.messages) || time_is_up(l, now);
}

static void work(struct load *l, double now) {
  for (uint32_t i = 0; i < l->endpoint_count; i++) {
    struct endpoint *e = &l->endpoints[i];
    if (e->sender && l->options.mode != MODE_RELAY) send_messages(l, e, now);
    if (e->receiver && l->options.transaction) take_messages(l, e);
    if (e->receiver) give_credit(l, e);
  }
}

static void run_load(struct load *l) {
  l->started_s = l->moved_s = now_s();
  while (!first_error(l)) {
    double now = now_s();
    if (is_done(l, now)) break;
    if (l->options.transaction && !is_over(l, now)) transact_begin(&l->transact);
    work(l, now);
    if (l->options.transaction) transact_commit_if_full(&l->transact, !is_over(l, now));
    pump(l);
    check_patience(l);
  }
  l->ended_s = now_s();
}

/* Waits for the peer's close, so that every outcome sent has reached it. */
static void shut_down(struct load *l) {
  for (uint32_t i = 0; i < l->endpoint_count; i++) endpoint_close(&l->endpoints[i]);
  l->moved_s = now_s();
  while (!first_error(l) && !all_finished(l)) {
    pump(l);
    check_patience(l);
  }
}

static void open_endpoints(struct load *l) {
  const struct options *o = &l->options;
  bool apart = o->connections == 0 && l->sends && l->receives;
  l->endpoint_count = apart ? 2 : o->connections ? o->connections : 1;
  l->endpoints = calloc(l->endpoint_count, sizeof *l->endpoints);
  l->ready = calloc(l->endpoint_count, sizeof *l->ready);
  for (uint32_t i = 0; i < l->endpoint_count; i++)
    endpoint_open(&l->endpoints[i], o, i, l->sends && !(apart && i == 1), l->receives && !(apart && i == 0));
}

static void set_up(struct load *l) {
  struct options *o = &l->options;
  if (o->mode == MODE_PING) o->window = 1;
  l->sends = o->mode != MODE_RECEIVE;
  l->receives = o->mode == MODE_RECEIVE || o->mode == MODE_BOTH || o->mode == MODE_RELAY;
  payload_init(&l->payload, o);
  seen_init(&l->seen, o->first);
  l->incoming = malloc(PAYLOAD_MAX_BODY + 4096);
  open_endpoints(l);
  if (o->transaction && !first_error(l)) transact_open(&l->transact, l->endpoints[0].session, o->transaction, o->xa);
}

static void tear_down(struct load *l) {
  for (uint32_t i = 0; i < l->endpoint_count; i++) endpoint_free(&l->endpoints[i]);
  free(l->endpoints);
  free(l->ready);
  payload_free(&l->payload);
  seen_free(&l->seen);
  free(l->incoming);
}

static bool report(const struct load *l) {
  char library[32];
  snprintf(library, sizeof library, "proton %d.%d.%d", PN_VERSION_MAJOR, PN_VERSION_MINOR, PN_VERSION_POINT);
  return report_print(&(struct report){
      .options = &l->options, .sent = l->sent, .accepted = l->accepted, .refused = l->refused, .received = l->received,
      .foreign = l->foreign, .seen = &l->seen, .sends = l->sends, .receives = l->receives, .started_s = l->started_s,
      .ended_s = l->ended_s, .first_arrival_s = l->first_arrival_s, .latency = &l->latency,
      .transactions = l->transact.committed, .commits = &l->transact.latency, .library = library,
      .error = first_error(l)});
}

int main(int argc, char **argv) {
  static struct load load;
  options_parse(&load.options, argc, argv);
  set_up(&load);
  wait_for_links(&load);
  if (!first_error(&load)) run_load(&load);
  if (!first_error(&load)) shut_down(&load);
  bool good = report(&load);
  tear_down(&load);
  return good ? 0 : 1;
}
