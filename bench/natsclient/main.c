/* The load client for NATS JetStream, by NATS' own C client: options, bodies, checks and report are those of
 * bench/loadclient. An address is a stream, its only subject and its durable push consumer. */
#include <endian.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../loadclient/meter.h"
#include "../loadclient/options.h"
#include "../loadclient/payload.h"
#include "../loadclient/report.h"

struct load {
  struct options options;
  natsConnection *sender, *receiver;
  jsCtx *js;
  natsSubscription *arriving;
  struct payload payload;
  struct histogram latency;
  struct seen seen;
  atomic_uint_fast64_t sent, accepted, refused;
  atomic_bool sending_is_over;
  uint64_t received, foreign;
  double started_s, ended_s, first_arrival_s;
  _Atomic(const char *) error;
};

static bool failed(struct load *l, natsStatus status) {
  if (status != NATS_OK) l->error = natsStatus_GetText(status);
  return status != NATS_OK;
}

static bool time_is_up(const struct load *l) {
  return l->options.seconds > 0 && now_s() - l->started_s >= l->options.seconds;
}

static bool has_all(const struct load *l, uint64_t count) {
  return (l->options.messages && count >= l->options.messages) || time_is_up(l);
}

static int64_t patience_ms(const struct load *l) { return (int64_t)(l->options.patience_s * 1e3); }

static void on_answer(jsCtx *js, natsMsg *message, jsPubAck *answer, jsPubAckErr *error, void *context) {
  struct load *l = context;
  (void)js;
  (void)error;
  atomic_fetch_add(answer ? &l->accepted : &l->refused, 1);
  natsMsg_Destroy(message);
}

/* The library waits while a window of them is unanswered. */
static void send_all(struct load *l) {
  const struct options *o = &l->options;
  while (!has_all(l, l->sent) && l->error == NULL) {
    payload_set(&l->payload, o->first + l->sent);
    if (failed(l, js_PublishAsync(l->js, o->send_address, l->payload.bytes + l->payload.body_at, (int)o->body_bytes, NULL)))
      break;
    l->sent++;
  }
  l->sending_is_over = true;
  jsPubOptions wait;
  jsPubOptions_Init(&wait);
  wait.MaxWait = patience_ms(l);
  if (l->error == NULL) failed(l, js_PublishAsyncComplete(l->js, &wait));
}

static void *send_in_thread(void *context) {
  send_all(context);
  return NULL;
}

static void ping_all(struct load *l) {
  const struct options *o = &l->options;
  while (!has_all(l, l->sent)) {
    payload_set(&l->payload, o->first + l->sent);
    double begun_s = now_s();
    l->sent++;
    if (failed(l, js_Publish(NULL, l->js, o->send_address, l->payload.bytes + l->payload.body_at, (int)o->body_bytes, NULL, NULL)))
      return;
    histogram_add(&l->latency, now_s() - begun_s);
    l->accepted++;
  }
}

static void check_message(struct load *l, natsMsg *message) {
  uint64_t sequence;
  uint32_t run;
  if (natsMsg_GetDataLength(message) != (int)l->options.body_bytes) {
    l->foreign++;
    return;
  }
  memcpy(&sequence, natsMsg_GetData(message), sizeof sequence);
  memcpy(&run, natsMsg_GetData(message) + sizeof sequence, sizeof run);
  sequence = be64toh(sequence);
  if (be32toh(run) != l->options.run || sequence - l->options.first >= l->options.of)
    l->foreign++;
  else
    seen_add(&l->seen, sequence);
}

static bool is_received(const struct load *l) {
  if (l->options.mode == MODE_BOTH) return l->sending_is_over && l->received >= l->sent;
  return has_all(l, l->received);
}

static void receive_all(struct load *l) {
  double moved_s = now_s();
  while (!is_received(l) && l->error == NULL) {
    natsMsg *message;
    natsStatus status = natsSubscription_NextMsg(&message, l->arriving, 100);
    if (status == NATS_TIMEOUT) {
      if (now_s() - moved_s >= l->options.patience_s) l->error = "nothing moved";
      continue;
    }
    if (failed(l, status)) return;
    moved_s = now_s();
    if (l->received++ == 0) l->first_arrival_s = moved_s;
    check_message(l, message);
    failed(l, natsMsg_Ack(message, NULL));
    natsMsg_Destroy(message);
  }
}

static void run_load(struct load *l) {
  pthread_t sending;
  l->started_s = now_s();
  switch (l->options.mode) {
    case MODE_SEND: send_all(l); break;
    case MODE_PING: ping_all(l); break;
    case MODE_RECEIVE: receive_all(l); break;
    default:
      pthread_create(&sending, NULL, send_in_thread, l);
      receive_all(l);
      pthread_join(sending, NULL);
  }
  /* Every acknowledgement has reached the server when this is answered. */
  if (l->receiver && l->error == NULL) failed(l, natsConnection_FlushTimeout(l->receiver, patience_ms(l)));
  l->ended_s = now_s();
}

static natsConnection *connect_to(struct load *l) {
  char url[64];
  natsConnection *made = NULL;
  snprintf(url, sizeof url, "nats://%.32s:%.8s", l->options.host, l->options.port);
  failed(l, natsConnection_ConnectTo(&made, url));
  return made;
}

static void open_sender(struct load *l) {
  jsOptions options;
  jsOptions_Init(&options);
  options.Wait = patience_ms(l);
  options.PublishAsync.MaxPending = l->options.window;
  options.PublishAsync.AckHandler = on_answer;
  options.PublishAsync.AckHandlerClosure = l;
  options.PublishAsync.StallWait = patience_ms(l);
  l->sender = connect_to(l);
  if (l->error == NULL) failed(l, natsConnection_JetStream(&l->js, l->sender, &options));
}

static void open_receiver(struct load *l) {
  jsCtx *js;
  jsSubOptions options;
  jsSubOptions_Init(&options);
  options.Stream = options.Consumer = l->options.receive_address;
  options.ManualAck = true;
  l->receiver = connect_to(l);
  if (l->error || failed(l, natsConnection_JetStream(&js, l->receiver, NULL))) return;
  failed(l, js_SubscribeSync(&l->arriving, js, l->options.receive_address, NULL, &options, NULL));
  jsCtx_Destroy(js);
}

static void set_up(struct load *l) {
  const struct options *o = &l->options;
  if (o->mode == MODE_RELAY || o->transaction) {
    fputs("natsclient: relay and transactions aren't there\n", stderr);
    exit(2);
  }
  payload_init(&l->payload, o);
  seen_init(&l->seen, o->first);
  if (o->mode != MODE_RECEIVE) open_sender(l);
  if (o->mode == MODE_RECEIVE || o->mode == MODE_BOTH) open_receiver(l);
}

static void tear_down(struct load *l) {
  natsSubscription_Destroy(l->arriving);
  jsCtx_Destroy(l->js);
  natsConnection_Destroy(l->sender);
  natsConnection_Destroy(l->receiver);
  payload_free(&l->payload);
  seen_free(&l->seen);
}

static bool report(const struct load *l) {
  char library[32];
  snprintf(library, sizeof library, "nats %s", nats_GetVersion());
  return report_print(&(struct report){
      .options = &l->options, .sent = l->sent, .accepted = l->accepted, .refused = l->refused, .received = l->received,
      .foreign = l->foreign, .seen = &l->seen, .sends = l->sender, .receives = l->receiver, .started_s = l->started_s,
      .ended_s = l->ended_s, .first_arrival_s = l->first_arrival_s, .latency = &l->latency, .library = library,
      .error = l->error});
}

int main(int argc, char **argv) {
  static struct load load;
  options_parse(&load.options, argc, argv);
  set_up(&load);
  if (load.error == NULL) run_load(&load);
  bool good = report(&load);
  tear_down(&load);
  return good ? 0 : 1;
}
