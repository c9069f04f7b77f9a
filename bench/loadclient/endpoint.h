/* One connection with one link: Proton's engine on a non-blocking socket, with buffers large enough that a system call
 * carries many messages. */
#ifndef LOADCLIENT_ENDPOINT_H
#define LOADCLIENT_ENDPOINT_H

#include <proton/connection_driver.h>
#include <proton/engine.h>
#include <stdbool.h>
#include <stddef.h>

#include "options.h"

#define ENDPOINT_IO_BYTES (256 * 1024)

struct endpoint {
  pn_connection_driver_t driver;
  pn_link_t *link;
  int fd;
  bool sender;
  bool attached; /* the peer has opened the link */
  bool finished; /* the connection is over */
  char *out;
  size_t out_size, out_sent;
  char error[256]; /* first thing that went wrong, empty while nothing has */
};

typedef void delivery_handler(void *context, struct endpoint *e, pn_delivery_t *delivery);

/* Connects (blocking), opens connection, session and link. Errors go to e->error. */
void endpoint_open(struct endpoint *e, const struct options *o, bool sender);
/* Reads what the socket holds, up to ENDPOINT_IO_BYTES, and handles the events that follow. True when bytes came. */
bool endpoint_read(struct endpoint *e, delivery_handler *handler, void *context);
/* Writes what the engine wants to send. True while the socket could not take all of it. */
bool endpoint_write(struct endpoint *e);
void endpoint_handle_events(struct endpoint *e, delivery_handler *handler, void *context);
/* Closes the link; session and connection follow as the peer answers, so that it has handled all outcomes by then. */
void endpoint_close(struct endpoint *e);
void endpoint_free(struct endpoint *e);

#endif
