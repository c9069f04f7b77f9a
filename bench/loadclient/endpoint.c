#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <proton/codec.h>
#include <proton/sasl.h>
#include <proton/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meter.h"

static void set_error(struct endpoint *e, const char *where, const char *what, const char *detail) {
  if (e->error[0] == '\0') snprintf(e->error, sizeof e->error, "%s: %s %s", where, what, detail ? detail : "");
  e->finished = true;
}

static void set_condition_error(struct endpoint *e, const char *where, pn_condition_t *condition) {
  if (condition && pn_condition_is_set(condition))
    set_error(e, where, pn_condition_get_name(condition), pn_condition_get_description(condition));
}

static int connect_to(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  if (fd < 0) return -1;
  int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

static void set_up_sasl(struct endpoint *e, const struct options *o) {
  pn_sasl_t *sasl = pn_sasl(e->driver.transport);
  pn_sasl_allowed_mechs(sasl, o->user ? "PLAIN" : "ANONYMOUS");
  pn_sasl_set_allow_insecure_mechs(sasl, true);
  if (o->user) {
    pn_connection_set_user(e->driver.connection, o->user);
    pn_connection_set_password(e->driver.connection, o->password ? o->password : "");
  }
}

/* The address with the connection's number where it has a %. */
static void set_address(pn_terminus_t *terminus, const char *address, uint32_t number) {
  char numbered[512];
  const char *mark = strchr(address, '%');
  if (mark) {
    snprintf(numbered, sizeof numbered, "%.*s%u%s", (int)(mark - address), address, number, mark + 1);
    address = numbered;
  }
  pn_terminus_set_address(terminus, address);
}

static void set_selector(pn_terminus_t *source, const char *text) {
  static const char NAME[] = "apache.org:selector-filter:string";
  pn_data_t *filter = pn_terminus_filter(source);
  pn_data_put_map(filter);
  pn_data_enter(filter);
  pn_data_put_symbol(filter, pn_bytes(sizeof NAME - 1, NAME));
  pn_data_put_described(filter);
  pn_data_enter(filter);
  pn_data_put_symbol(filter, pn_bytes(sizeof NAME - 1, NAME));
  pn_data_put_string(filter, pn_bytes(strlen(text), text));
  pn_data_exit(filter);
  pn_data_exit(filter);
}

static void open_links(struct endpoint *e, const struct options *o, uint32_t number, bool sends, bool receives) {
  if (sends) {
    e->sender = pn_sender(e->session, "sender");
    set_address(pn_link_target(e->sender), o->send_address, number);
    pn_link_set_snd_settle_mode(e->sender, PN_SND_UNSETTLED);
    pn_link_open(e->sender);
  }
  if (receives) {
    e->receiver = pn_receiver(e->session, "receiver");
    set_address(pn_link_source(e->receiver), o->receive_address, number);
    if (o->selector) set_selector(pn_link_source(e->receiver), o->selector);
    pn_link_set_rcv_settle_mode(e->receiver, PN_RCV_FIRST);
    pn_link_open(e->receiver);
  }
}

static void open_session(struct endpoint *e, const struct options *o, uint32_t number) {
  char name[256];
  snprintf(name, sizeof name, "%s-%d-%u", o->container, (int)getpid(), number);
  pn_connection_set_container(e->driver.connection, name);
  pn_connection_set_hostname(e->driver.connection, o->virtual_host ? o->virtual_host : o->host);
  pn_connection_open(e->driver.connection);
  e->session = pn_session(e->driver.connection);
  pn_session_open(e->session);
}

void endpoint_open(struct endpoint *e, const struct options *o, uint32_t number, bool sends, bool receives) {
  *e = (struct endpoint){.out = malloc(ENDPOINT_IO_BYTES)};
  const char *port = sends && o->send_port ? o->send_port : o->port;
  e->fd = connect_to(o->host, port);
  if (e->fd < 0) {
    set_error(e, "connect", port, strerror(errno));
    return;
  }
  pn_connection_driver_init(&e->driver, NULL, NULL);
  pn_transport_set_max_frame(e->driver.transport, ENDPOINT_FRAME_BYTES);
  set_up_sasl(e, o);
  open_session(e, o, number);
  open_links(e, o, number, sends, receives);
  endpoint_handle_events(e, NULL, NULL);
}

static bool has_state(const pn_link_t *link, pn_state_t state) {
  return link == NULL || (pn_link_state((pn_link_t *)link) & state);
}

/* Whether all links of the load are in that state. */
static bool links_are(const struct endpoint *e, pn_state_t state) {
  return has_state(e->sender, state) && has_state(e->receiver, state);
}

static void handle_remote_close(struct endpoint *e, pn_event_t *event) {
  switch (pn_event_type(event)) {
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH:
      set_condition_error(e, "link", pn_link_remote_condition(pn_event_link(event)));
      if (links_are(e, PN_REMOTE_CLOSED)) pn_session_close(e->session);
      break;
    case PN_SESSION_REMOTE_CLOSE:
      set_condition_error(e, "session", pn_session_remote_condition(pn_event_session(event)));
      pn_connection_close(e->driver.connection);
      break;
    case PN_CONNECTION_REMOTE_CLOSE:
      set_condition_error(e, "connection", pn_connection_remote_condition(e->driver.connection));
      pn_connection_close(e->driver.connection);
      e->finished = true;
      break;
    case PN_TRANSPORT_ERROR:
      set_condition_error(e, "transport", pn_transport_condition(e->driver.transport));
      break;
    case PN_TRANSPORT_CLOSED:
      e->finished = true;
      break;
    default:
      break;
  }
}

void endpoint_handle_events(struct endpoint *e, delivery_handler *handler, void *context) {
  pn_event_t *event;
  while ((event = pn_connection_driver_next_event(&e->driver)) != NULL) {
    switch (pn_event_type(event)) {
      case PN_DELIVERY: handler(context, e, pn_event_delivery(event)); break;
      case PN_LINK_REMOTE_OPEN: e->attached = links_are(e, PN_REMOTE_ACTIVE); break;
      default: handle_remote_close(e, event);
    }
  }
}

bool endpoint_read(struct endpoint *e, delivery_handler *handler, void *context) {
  pn_rwbytes_t buffer = pn_connection_driver_read_buffer_sized(&e->driver, ENDPOINT_IO_BYTES);
  if (buffer.size == 0) return false;
  ssize_t n = recv(e->fd, buffer.start, buffer.size, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    if (!e->finished) set_error(e, "socket", n == 0 ? "closed by the peer" : strerror(errno), NULL);
    pn_connection_driver_read_close(&e->driver);
    return false;
  }
  pn_connection_driver_read_done(&e->driver, (size_t)n);
  endpoint_handle_events(e, handler, context);
  return true;
}

static void collect_output(struct endpoint *e) {
  while (e->out_size < ENDPOINT_IO_BYTES) {
    pn_bytes_t ready = pn_connection_driver_write_buffer(&e->driver);
    if (ready.size == 0) return;
    size_t room = ENDPOINT_IO_BYTES - e->out_size;
    size_t taken = ready.size < room ? ready.size : room;
    memcpy(e->out + e->out_size, ready.start, taken);
    e->out_size += taken;
    pn_connection_driver_write_done(&e->driver, taken);
  }
}

bool endpoint_write(struct endpoint *e) {
  if (e->fd < 0) return false;
  for (;;) {
    if (e->out_sent == e->out_size) {
      e->out_sent = e->out_size = 0;
      collect_output(e);
      if (e->out_size == 0) return false;
    }
    ssize_t n = send(e->fd, e->out + e->out_sent, e->out_size - e->out_sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0) {
      set_error(e, "socket", strerror(errno), NULL);
      return false;
    }
    e->out_sent += (size_t)n;
  }
}

void endpoint_close(struct endpoint *e) {
  if (e->finished || e->fd < 0) return;
  if (e->sender) pn_link_close(e->sender);
  if (e->receiver) pn_link_close(e->receiver);
}

void endpoint_free(struct endpoint *e) {
  if (e->fd >= 0) {
    close(e->fd);
    pn_connection_driver_destroy(&e->driver);
  }
  free(e->out);
}
