/* What the command line asked for. Meanings, units and defaults stand in options.c's usage text. */
#ifndef LOADCLIENT_OPTIONS_H
#define LOADCLIENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bodies.h"

enum mode { MODE_SEND, MODE_RECEIVE, MODE_BOTH, MODE_PING, MODE_RELAY };

struct options {
  enum mode mode;
  const char *mode_name;
  const char *host;
  const char *port;
  const char *send_port;    /* of the broker that is sent to; NULL: the same */
  const char *virtual_host; /* named in the open frame; NULL: the host */
  const char *send_address;
  const char *receive_address;
  const char *user; /* NULL: SASL ANONYMOUS, otherwise PLAIN */
  const char *password;
  const char *container;
  uint32_t connections; /* at once, each with all its links; 0: one, of `both` and `relay` one for each link */
  uint64_t messages; /* 0: until `seconds` have passed */
  double seconds;
  uint64_t first; /* first sequence number sent or expected */
  uint64_t of;    /* how many sequence numbers the run has in all */
  uint32_t run;   /* tag in each body: what has another tag is foreign */
  uint32_t window;
  uint32_t credit;
  uint32_t body_bytes;
  enum body_kind body;
  uint32_t id_bytes; /* 0: ulong message id, otherwise a string of that length */
  uint32_t sampled_one_in; /* each message has a traceparent, and of so many one is sampled; 0: none has one */
  bool mixed_priorities;
  bool kinds;           /* each message has the property "kind" */
  uint32_t groups;      /* message groups in turn; 0: messages are in none */
  uint32_t ttl_ms;      /* 0: messages don't expire */
  uint32_t delay_ms;    /* until a message may be delivered */
  bool copies;          /* each connection gets every message */
  const char *selector; /* of the receivers; NULL: none */
  double rate; /* messages a second, 0: as fast as the window allows */
  double patience_s;
  uint32_t transaction; /* messages in each; 0: none */
  bool xa;              /* transactions are branches, committed in two phases */
};

/* Fills *o from the arguments; prints usage to stderr and exits with 2 when they make no sense. */
void options_parse(struct options *o, int argc, char **argv);

#endif
