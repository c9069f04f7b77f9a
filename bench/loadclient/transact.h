/* Work in transactions, one at a time: local ones by declare and discharge on a control link, as any broker has them, or
 * branches of XA, which Postroom ends, prepares and commits by requests on the same session. The order of frames is that
 * of Qpid JMS: a commit doesn't wait for the answers to what was sent in it, and the next declare follows the discharge at
 * once; work in that transaction waits for the answers to both. */
#ifndef LOADCLIENT_TRANSACT_H
#define LOADCLIENT_TRANSACT_H

#include <proton/engine.h>
#include <stdbool.h>
#include <stdint.h>

#include "meter.h"

enum phase { PHASE_NONE, PHASE_OPEN, PHASE_ENDING, PHASE_PREPARING, PHASE_DECIDING };

struct transact {
  pn_link_t *control, *requests, *answers; /* the last two only for branches */
  uint32_t size;                           /* messages in each transaction; 0: none are used */
  uint32_t used;                           /* of the open one */
  enum phase phase;
  char id[64];
  size_t id_size;
  bool declaring; /* a declare has no answer yet */
  uint64_t begun; /* of a branch the end of its Xid */
  uint64_t committed;
  double asked_s;
  struct histogram latency; /* from asking for the commit (of a branch: for its end) to the answer */
  char error[160];
};

/* Opens the links on the session of the load. */
void transact_open(struct transact *t, pn_session_t *session, uint32_t size, bool xa);
/* Begins a transaction where there is none. */
void transact_begin(struct transact *t);
/* Whether a message may be sent, or accepted, in the open transaction. */
bool transact_has_room(const struct transact *t);
/* Have `delivery` name the open transaction: as sent in it, or as accepted in it. */
void transact_mark(struct transact *t, pn_delivery_t *delivery, bool accepts);
/* Commits once the transaction is full; `more`: another follows. */
void transact_commit_if_full(struct transact *t, bool more);
/* Whether the delivery is of one of these links; if so it has been taken care of. */
bool transact_handles(struct transact *t, pn_delivery_t *delivery);
/* The outcome that a transactional state names; any other state as it is. */
uint64_t transact_outcome(pn_delivery_t *delivery);

#endif
