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
  struct endpoint endpoints[2]; /* the sender first, where there is one */
  int endpoint_count;
  struct endpoint *sender, *receiver;
  struct transact transact;
  struct payload payload;
  struct histogram latency;
  struct seen seen;
  char *incoming;
  uint64_t sent, in_flight, accepted, refused, received, foreign;
  uint32_t credit_given;
  double started_s, ended_s, moved_s, first_arrival_s;
};

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

static void on_answer(struct load *l, pn_delivery_t *delivery) {
  uint64_t state = transact_outcome(delivery);
  if (state == 0 && !pn_delivery_settled(delivery)) return;
  note_answer(l, delivery, state ? state : PN_RELEASED);
  if (state == PN_ACCEPTED)
    l->accepted++;
  else
    l->refused++;
  l->in_flight--;
  pn_delivery_settle(delivery);
}

static void check_message(struct load *l, size_t size) {
  uint64_t sequence;
  uint32_t run;
  if (!payload_read((const uint8_t *)l->incoming, size, &sequence, &run) || run != l->options.run ||
      sequence - l->options.first >= l->options.of)
    l->foreign++;
  else
    seen_add(&l->seen, sequence);
}

static void relay(struct load *l, pn_delivery_t *source, size_t size) {
  pn_link_t *link = l->sender->link;
  pn_delivery_t *delivery = pn_delivery(link, pn_dtag((const char *)&l->sent, sizeof l->sent));
  pn_delivery_set_context(delivery, source);
  pn_link_send(link, l->incoming, size);
  pn_link_advance(link);
  l->sent++;
  l->in_flight++;
}

static void accept(struct load *l, pn_delivery_t *delivery) {
  if (l->options.transaction)
    transact_mark(&l->transact, delivery, true);
  else
    pn_delivery_update(delivery, PN_ACCEPTED);
  pn_delivery_settle(delivery);
}

static void on_message(struct load *l, pn_delivery_t *delivery) {
  if (!pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) return;
  if (l->received == 0) l->first_arrival_s = now_s();
  pn_link_t *link = pn_delivery_link(delivery);
  size_t pending = pn_delivery_pending(delivery);
  if (pending > PAYLOAD_MAX_BODY + 4096) {
    l->foreign++;
  } else {
    pn_link_recv(link, l->incoming, pending);
    check_message(l, pending);
  }
  pn_link_advance(link);
  if (l->options.mode == MODE_RELAY)
    relay(l, delivery, pending);
  else
    accept(l, delivery);
  l->received++;
  l->credit_given--;
}

/* What has come goes into the open transaction as far as it has room; the rest waits for the next. */
static void take_messages(struct load *l) {
  pn_delivery_t *next;
  while (transact_has_room(&l->transact) && (next = pn_link_current(l->receiver->link)) != NULL) {
    uint64_t before = l->received;
    on_message(l, next);
    if (l->received == before) return;
  }
}

static void on_delivery(void *context, struct endpoint *e, pn_delivery_t *delivery) {
  struct load *l = context;
  if (l->options.transaction && transact_handles(&l->transact, delivery)) return;
  if (e->sender)
    on_answer(context, delivery);
  else if (l->options.transaction)
    take_messages(l);
  else
    on_message(context, delivery);
}

static bool time_is_up(const struct load *l, double now) {
  return l->options.seconds > 0 && now - l->started_s >= l->options.seconds;
}

static bool sending_is_over(const struct load *l, double now) {
  return (l->options.messages && l->sent >= l->options.messages) || time_is_up(l, now);
}

/* How many messages may go now, by window, credit, number and rate. */
static uint64_t allowance(const struct load *l, double now) {
  if (sending_is_over(l, now)) return 0;
  const struct transact *t = &l->transact;
  if (l->options.transaction && !transact_has_room(t)) return 0;
  uint64_t most = l->options.window - l->in_flight;
  int credit = pn_link_credit(l->sender->link);
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

static void send_messages(struct load *l, double now) {
  pn_link_t *link = l->sender->link;
  for (uint64_t left = allowance(l, now); left > 0; left--) {
    uint64_t sequence = l->options.first + l->sent;
    uint8_t priority = l->options.mixed_priorities ? (uint8_t)(sequence % 10) : PAYLOAD_DEFAULT_PRIORITY;
    payload_set(&l->payload, sequence, priority);
    pn_delivery_t *delivery = pn_delivery(link, pn_dtag((const char *)&l->sent, sizeof l->sent));
    if (l->options.transaction) transact_mark(&l->transact, delivery, false);
    pn_delivery_set_context(delivery, (void *)(uintptr_t)(now * 1e9));
    pn_link_send(link, (const char *)l->payload.bytes, l->payload.size);
    pn_link_advance(link);
    l->sent++;
    l->in_flight++;
  }
}

/* Credit is renewed when half of it is used, and never beyond what is still wanted. A relay's is also used by what waits
 * for the other broker's answer. */
static void give_credit(struct load *l) {
  uint64_t used = l->credit_given + (l->options.mode == MODE_RELAY ? l->in_flight : 0);
  if (used > l->options.credit / 2) return;
  uint64_t wanted = l->options.messages ? l->options.messages - l->received - l->credit_given : UINT32_MAX;
  uint64_t more = l->options.credit - used;
  if (more > wanted) more = wanted;
  if (more == 0) return;
  pn_link_flow(l->receiver->link, (int)more);
  l->credit_given += (uint32_t)more;
}

/* Time is up in the middle of a transaction: it is left, to be rolled back. */
static bool is_stuck(const struct load *l, double now) {
  const struct transact *t = &l->transact;
  return time_is_up(l, now) && t->phase <= PHASE_OPEN && t->used < t->size;
}

static bool is_done(const struct load *l, double now) {
  if (l->options.transaction && l->transact.phase != PHASE_NONE && !is_stuck(l, now)) return false;
  if (l->sender && !(sending_is_over(l, now) && l->in_flight == 0)) return false;
  if (!l->receiver) return true;
  if (l->sender) return l->received >= l->sent;
  return (l->options.messages && l->received >= l->options.messages) || time_is_up(l, now);
}

static const char *first_error(const struct load *l) {
  for (int i = 0; i < l->endpoint_count; i++)
    if (l->endpoints[i].error[0]) return l->endpoints[i].error;
  return l->transact.error[0] ? l->transact.error : NULL;
}

static bool all_finished(const struct load *l) {
  for (int i = 0; i < l->endpoint_count; i++)
    if (!l->endpoints[i].finished) return false;
  return true;
}

/* One round: wait for sockets, read, write. The time-out is short where a rate is to be kept. */
static void pump(struct load *l) {
  struct pollfd ready[2];
  int64_t now_ms = (int64_t)(now_s() * 1e3);
  for (int i = 0; i < l->endpoint_count; i++) {
    struct endpoint *e = &l->endpoints[i];
    pn_transport_tick(e->driver.transport, now_ms);
    bool blocked = endpoint_write(e);
    ready[i] = (struct pollfd){.fd = e->finished ? -1 : e->fd, .events = (short)(POLLIN | (blocked ? POLLOUT : 0))};
  }
  poll(ready, (nfds_t)l->endpoint_count, l->options.rate > 0 ? 1 : POLL_LONGEST_MS);
  for (int i = 0; i < l->endpoint_count; i++) {
    if (!(ready[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
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
    for (int i = 0; i < l->endpoint_count; i++) all = all && l->endpoints[i].attached;
    if (all) return;
    pump(l);
    check_patience(l);
  }
}

/* No further transaction is to begin. */
static bool is_over(const struct load *l, double now) {
  if (l->sender) return sending_is_over(l, now);
  return (l->options.messages && l->received >= l->options.messages) || time_is_up(l, now);
}

static void run_load(struct load *l) {
  l->started_s = l->moved_s = now_s();
  while (!first_error(l)) {
    double now = now_s();
    if (is_done(l, now)) break;
    if (l->options.transaction && !is_over(l, now)) transact_begin(&l->transact);
    if (l->sender && l->options.mode != MODE_RELAY) send_messages(l, now);
    if (l->receiver && l->options.transaction) take_messages(l);
    if (l->receiver) give_credit(l);
    if (l->options.transaction) transact_commit_if_full(&l->transact, !is_over(l, now));
    pump(l);
    check_patience(l);
  }
  l->ended_s = now_s();
}

/* Waits for the peer's close, so that every outcome sent has reached it. */
static void shut_down(struct load *l) {
  for (int i = 0; i < l->endpoint_count; i++) endpoint_close(&l->endpoints[i]);
  l->moved_s = now_s();
  while (!first_error(l) && !all_finished(l)) {
    pump(l);
    check_patience(l);
  }
}

static void set_up(struct load *l) {
  struct options *o = &l->options;
  if (o->mode == MODE_PING) o->window = 1;
  payload_init(&l->payload, o);
  seen_init(&l->seen, o->first);
  l->incoming = malloc(PAYLOAD_MAX_BODY + 4096);
  if (o->mode != MODE_RECEIVE) {
    l->sender = &l->endpoints[l->endpoint_count++];
    endpoint_open(l->sender, o, true);
  }
  if (o->mode == MODE_RECEIVE || o->mode == MODE_BOTH || o->mode == MODE_RELAY) {
    l->receiver = &l->endpoints[l->endpoint_count++];
    endpoint_open(l->receiver, o, false);
  }
  struct endpoint *first = &l->endpoints[0];
  if (o->transaction && !first->error[0])
    transact_open(&l->transact, pn_link_session(first->link), o->transaction, o->xa);
}

static void tear_down(struct load *l) {
  for (int i = 0; i < l->endpoint_count; i++) endpoint_free(&l->endpoints[i]);
  payload_free(&l->payload);
  seen_free(&l->seen);
  free(l->incoming);
}

static bool report(const struct load *l) {
  char library[32];
  snprintf(library, sizeof library, "proton %d.%d.%d", PN_VERSION_MAJOR, PN_VERSION_MINOR, PN_VERSION_POINT);
  return report_print(&(struct report){
      .options = &l->options, .sent = l->sent, .accepted = l->accepted, .refused = l->refused, .received = l->received,
      .foreign = l->foreign, .seen = &l->seen, .sends = l->sender, .receives = l->receiver, .started_s = l->started_s,
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
