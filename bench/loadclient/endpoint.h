/* One connection with a sender, a receiver, or both: Proton's engine on a non-blocking socket, with buffers large enough
 * that a system call carries many messages. */
#ifndef LOADCLIENT_ENDPOINT_H
#define LOADCLIENT_ENDPOINT_H

#include <proton/connection_driver.h>
#include <proton/engine.h>
#include <stdbool.h>
#include <stddef.h>

#include "options.h"

#define ENDPOINT_IO_BYTES (256 * 1024)
/* The largest that the peer may send. Proton waits for ever for one that is larger than what it reads at once. */
#define ENDPOINT_FRAME_BYTES ENDPOINT_IO_BYTES

struct endpoint {
  pn_connection_driver_t driver;
  pn_session_t *session;
  pn_link_t *sender, *receiver; /* one may be NULL */
  int fd;
  bool attached; /* the peer has opened the links */
  bool finished; /* the connection is over */
  char *out;
  size_t out_size, out_sent;
  uint64_t in_flight;    /* the load's: sent, unanswered */
  uint32_t credit_given; /* the load's: messages that may come */
  char error[256]; /* first thing that went wrong, empty while nothing has */
};

typedef void delivery_handler(void *context, struct endpoint *e, pn_delivery_t *delivery);

/* Connects (blocking), opens connection, session and links; `number` tells connections apart. Errors go to e->error. */
void endpoint_open(struct endpoint *e, const struct options *o, uint32_t number, bool sends, bool receives);
/* Reads what the socket holds, up to ENDPOINT_IO_BYTES, and handles the events that follow. True when bytes came. */
bool endpoint_read(struct endpoint *e, delivery_handler *handler, void *context);
/* Writes what the engine wants to send. True while the socket could not take all of it. */
bool endpoint_write(struct endpoint *e);
void endpoint_handle_events(struct endpoint *e, delivery_handler *handler, void *context);
/* Closes the links; session and connection follow as the peer answers, so that it has handled all outcomes by then. */
void endpoint_close(struct endpoint *e);
void endpoint_free(struct endpoint *e);

#endif
