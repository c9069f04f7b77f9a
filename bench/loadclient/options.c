#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "payload.h"

static const char USAGE[] =
    "usage: loadclient send|receive|both|ping|relay --address NAME [options]\n"
    "\n"
    "  send      N messages, at most a window of them unanswered\n"
    "  receive   N messages, accepting each, checking each\n"
    "  both      send and receive N messages at once, over two connections\n"
    "  ping      send one message at a time, the next when the last is accepted\n"
    "  relay     receive N messages and send each on; it is accepted when it has been accepted there\n"
    "\n"
    "  --host HOST --port PORT      127.0.0.1 5672\n"
    "  --send-port PORT             of the broker that messages are sent to, where it is another\n"
    "  --virtual-host NAME          named when a connection opens (the host)\n"
    "  --address NAME               of the queue; --send-address and --receive-address where they differ\n"
    "  --connections N              so many at once, each with a sender, a receiver, or both; each has a window and a credit;\n"
    "                               a % in the address is the number of the connection, from 0 (one; both and relay: two)\n"
    "  --copies                     each connection receives every message; --messages counts them all\n"
    "  --messages N                 how many (default 100000; 0: only --seconds counts)\n"
    "  --seconds S                  stop sending or receiving after S seconds\n"
    "  --window N --credit N        unanswered messages allowed when sending; link credit when receiving (1000, 1000);\n"
    "                               credit of a relay counts messages that it has not accepted yet\n"
    "  --body-bytes N               of each message (1024, at least 12)\n"
    "  --random-bodies              bytes that no compression makes smaller (orders as JSON)\n"
    "  --id-bytes N                 message-id is a string of N characters (24 to 64; 0, the default: a ulong)\n"
    "  --sampled-one-in N           each message has a traceparent, one of N with the flag \"sampled\" (0: none has one)\n"
    "  --mixed-priorities           priorities 0 to 9 in turn\n"
    "  --kinds                      each message has the application property kind, 0 to 9 in turn\n"
    "  --selector TEXT              of the receivers (apache.org:selector-filter:string); all messages should match it\n"
    "  --groups N                   each message has a group-id, one of N in turn (0: none; up to 10000)\n"
    "  --ttl MS --delay MS          time to live; time from sending to delivery, as x-opt-delivery-time says it (0, 0: none)\n"
    "  --rate R                     messages a second when sending (0: no limit)\n"
    "  --first SEQ --run TAG        first sequence number, and tag of this run, in the bodies (0, 1)\n"
    "  --user NAME --password WORD  SASL PLAIN; ANONYMOUS without them\n"
    "  --container NAME             container-id prefix (loadclient)\n"
    "  --patience S                 give up when nothing moves for S seconds (30)\n"
    "  --transaction N              send or receive in transactions of N messages, one after another, as Qpid JMS does:\n"
    "                               with the credit of --credit, the next declare behind the discharge\n"
    "  --xa                         they are branches of XA, committed in two phases\n"
    "  --of N                       received sequence numbers lie below first + N (default: --messages)\n"
    "\n"
    "One JSON object goes to stdout. Exit code 0: all as asked; 1: lost, doubled, foreign or refused messages, or an\n"
    "error that the JSON names; 2: usage.\n";

enum { OPT_HOST = 256, OPT_PORT, OPT_ADDRESS, OPT_SEND_ADDRESS, OPT_RECEIVE_ADDRESS, OPT_MESSAGES, OPT_SECONDS,
       OPT_WINDOW, OPT_CREDIT, OPT_BODY_BYTES, OPT_ID_BYTES, OPT_MIXED, OPT_RATE, OPT_FIRST, OPT_RUN, OPT_USER,
       OPT_PASSWORD, OPT_CONTAINER, OPT_PATIENCE, OPT_OF, OPT_TRANSACTION, OPT_XA, OPT_SEND_PORT, OPT_VIRTUAL_HOST,
       OPT_SAMPLED, OPT_RANDOM_BODIES, OPT_CONNECTIONS, OPT_COPIES, OPT_KINDS, OPT_SELECTOR, OPT_GROUPS, OPT_TTL, OPT_DELAY };

static const struct option LONG[] = {
    {"host", required_argument, NULL, OPT_HOST},
    {"port", required_argument, NULL, OPT_PORT},
    {"send-port", required_argument, NULL, OPT_SEND_PORT},
    {"virtual-host", required_argument, NULL, OPT_VIRTUAL_HOST},
    {"address", required_argument, NULL, OPT_ADDRESS},
    {"send-address", required_argument, NULL, OPT_SEND_ADDRESS},
    {"receive-address", required_argument, NULL, OPT_RECEIVE_ADDRESS},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"copies", no_argument, NULL, OPT_COPIES},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"credit", required_argument, NULL, OPT_CREDIT},
    {"body-bytes", required_argument, NULL, OPT_BODY_BYTES},
    {"random-bodies", no_argument, NULL, OPT_RANDOM_BODIES},
    {"id-bytes", required_argument, NULL, OPT_ID_BYTES},
    {"sampled-one-in", required_argument, NULL, OPT_SAMPLED},
    {"mixed-priorities", no_argument, NULL, OPT_MIXED},
    {"kinds", no_argument, NULL, OPT_KINDS},
    {"selector", required_argument, NULL, OPT_SELECTOR},
    {"groups", required_argument, NULL, OPT_GROUPS},
    {"ttl", required_argument, NULL, OPT_TTL},
    {"delay", required_argument, NULL, OPT_DELAY},
    {"rate", required_argument, NULL, OPT_RATE},
    {"first", required_argument, NULL, OPT_FIRST},
    {"run", required_argument, NULL, OPT_RUN},
    {"user", required_argument, NULL, OPT_USER},
    {"password", required_argument, NULL, OPT_PASSWORD},
    {"container", required_argument, NULL, OPT_CONTAINER},
    {"patience", required_argument, NULL, OPT_PATIENCE},
    {"of", required_argument, NULL, OPT_OF},
    {"transaction", required_argument, NULL, OPT_TRANSACTION},
    {"xa", no_argument, NULL, OPT_XA},
    {NULL, 0, NULL, 0},
};

static void fail(const char *what, const char *value) {
  fprintf(stderr, "loadclient: %s: %s\n\n%s", what, value, USAGE);
  exit(2);
}

static uint64_t whole(const char *name, uint64_t least, uint64_t most) {
  char *end;
  uint64_t value = strtoull(optarg, &end, 10);
  if (*end != '\0' || *optarg == '\0' || *optarg == '-' || value < least || value > most) fail(name, optarg);
  return value;
}

static double positive(const char *name) {
  char *end;
  double value = strtod(optarg, &end);
  if (*end != '\0' || *optarg == '\0' || !(value >= 0)) fail(name, optarg);
  return value;
}

static void set_mode(struct options *o, const char *name) {
  static const char *const NAMES[] = {"send", "receive", "both", "ping", "relay"};
  for (int i = 0; i < 5; i++) {
    if (strcmp(name, NAMES[i]) == 0) {
      o->mode = (enum mode)i;
      o->mode_name = NAMES[i];
      return;
    }
  }
  fail("unknown mode", name);
}

static void set_option(struct options *o, int option) {
  switch (option) {
    case OPT_HOST: o->host = optarg; break;
    case OPT_PORT: o->port = optarg; break;
    case OPT_SEND_PORT: o->send_port = optarg; break;
    case OPT_VIRTUAL_HOST: o->virtual_host = optarg; break;
    case OPT_ADDRESS: o->send_address = o->receive_address = optarg; break;
    case OPT_SEND_ADDRESS: o->send_address = optarg; break;
    case OPT_RECEIVE_ADDRESS: o->receive_address = optarg; break;
    case OPT_CONNECTIONS: o->connections = (uint32_t)whole("--connections", 1, 10000); break;
    case OPT_COPIES: o->copies = true; break;
    case OPT_MESSAGES: o->messages = whole("--messages", 0, UINT32_MAX); break;
    case OPT_SECONDS: o->seconds = positive("--seconds"); break;
    case OPT_WINDOW: o->window = (uint32_t)whole("--window", 1, 1u << 20); break;
    case OPT_CREDIT: o->credit = (uint32_t)whole("--credit", 1, 1u << 20); break;
    case OPT_BODY_BYTES: o->body_bytes = (uint32_t)whole("--body-bytes", PAYLOAD_MIN_BODY, PAYLOAD_MAX_BODY); break;
    case OPT_RANDOM_BODIES: o->body = BODY_RANDOM; break;
    case OPT_ID_BYTES: o->id_bytes = (uint32_t)whole("--id-bytes", 0, PAYLOAD_MAX_ID); break;
    case OPT_SAMPLED: o->sampled_one_in = (uint32_t)whole("--sampled-one-in", 0, UINT32_MAX); break;
    case OPT_MIXED: o->mixed_priorities = true; break;
    case OPT_KINDS: o->kinds = true; break;
    case OPT_SELECTOR: o->selector = optarg; break;
    case OPT_GROUPS: o->groups = (uint32_t)whole("--groups", 0, PAYLOAD_MAX_GROUPS); break;
    case OPT_TTL: o->ttl_ms = (uint32_t)whole("--ttl", 0, UINT32_MAX); break;
    case OPT_DELAY: o->delay_ms = (uint32_t)whole("--delay", 0, UINT32_MAX); break;
    case OPT_RATE: o->rate = positive("--rate"); break;
    case OPT_FIRST: o->first = whole("--first", 0, UINT32_MAX); break;
    case OPT_RUN: o->run = (uint32_t)whole("--run", 0, UINT32_MAX); break;
    case OPT_USER: o->user = optarg; break;
    case OPT_PASSWORD: o->password = optarg; break;
    case OPT_CONTAINER: o->container = optarg; break;
    case OPT_PATIENCE: o->patience_s = positive("--patience"); break;
    case OPT_TRANSACTION: o->transaction = (uint32_t)whole("--transaction", 1, 1u << 20); break;
    case OPT_XA: o->xa = true; break;
    case OPT_OF: o->of = whole("--of", 1, UINT32_MAX); break;
    default: fputs(USAGE, stderr); exit(2);
  }
}

void options_parse(struct options *o, int argc, char **argv) {
  *o = (struct options){.host = "127.0.0.1", .port = "5672", .container = "loadclient", .messages = 100000,
                        .run = 1, .window = 1000, .credit = 1000, .body_bytes = 1024,
                        .patience_s = 30};
  int option;
  while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) set_option(o, option);
  if (optind + 1 != argc) fail("one mode is needed", optind < argc ? argv[optind + 1] : "none given");
  set_mode(o, argv[optind]);
  if (o->send_address == NULL || o->receive_address == NULL) fail("an address is needed", "none given");
  if (o->id_bytes != 0 && o->id_bytes < PAYLOAD_MIN_ID) fail("--id-bytes", "too short for a sequence number");
  if (o->transaction && o->mode != MODE_SEND && o->mode != MODE_RECEIVE) fail("--transaction is for send and receive, not", o->mode_name);
  if (o->connections && (o->transaction || o->mode == MODE_RELAY)) fail("--connections is not for", "transactions and relays");
  if (o->copies && (o->mode != MODE_RECEIVE || !o->connections)) fail("--copies needs", "receive and --connections");
  if (o->xa && !o->transaction) fail("--xa needs", "--transaction");
  if (o->transaction && o->messages % o->transaction) fail("--messages", "not a multiple of --transaction");
  if (o->of == 0) o->of = o->messages ? o->messages : UINT32_MAX;
  if (o->messages == 0 && o->seconds == 0) fail("a limit is needed", "--messages or --seconds");
}
