/* What a run has come to, as one JSON object on stdout. */
#ifndef LOADCLIENT_REPORT_H
#define LOADCLIENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "meter.h"
#include "options.h"

struct report {
  const struct options *options;
  uint64_t sent, accepted, refused, received, foreign;
  const struct seen *seen;
  bool sends, receives;
  double started_s, ended_s, first_arrival_s;
  const struct histogram *latency;
  uint64_t transactions;
  const struct histogram *commits; /* NULL: there are no transactions */
  const char *library;             /* the protocol's, and its version */
  const char *error;               /* NULL: none */
};

/* Whether nothing was lost, doubled, foreign or refused, and no error ended the run. */
bool report_print(const struct report *r);

#endif
