/* Clock, latency histogram, and the record of which sequence numbers have been seen. */
#ifndef LOADCLIENT_METER_H
#define LOADCLIENT_METER_H

#include <stdbool.h>
#include <stdint.h>

double now_s(void); /* monotonic */

/* Buckets of 1/64 of a power of two: percentiles are exact to 1.6 %, from 16 ns to days. */
#define HISTOGRAM_BUCKETS (64 * 64)
struct histogram {
  uint64_t buckets[HISTOGRAM_BUCKETS];
  uint64_t count;
  double sum_s, max_s;
};
void histogram_add(struct histogram *h, double seconds);
double histogram_quantile_us(const struct histogram *h, double quantile);

/* Sequence numbers first, first + 1, …: each may come once. */
struct seen {
  uint8_t *bits;
  uint64_t capacity, first, highest_next;
  uint64_t distinct, duplicates, out_of_order;
};
void seen_init(struct seen *s, uint64_t first);
void seen_add(struct seen *s, uint64_t sequence);
void seen_free(struct seen *s);

#endif
