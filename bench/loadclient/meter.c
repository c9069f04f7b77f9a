#include "meter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned bucket_of(double seconds) {
  uint64_t units = (uint64_t)(seconds * 1e9 / 16);
  if (units < 64) return (unsigned)units;
  unsigned exponent = 63 - (unsigned)__builtin_clzll(units);
  return (exponent - 5) * 64 + (unsigned)((units >> (exponent - 6)) & 63);
}

static double middle_of(unsigned bucket) {
  if (bucket < 64) return (bucket + 0.5) * 16e-9;
  unsigned exponent = bucket / 64 + 5;
  return ldexp(64 + bucket % 64 + 0.5, (int)exponent - 6) * 16e-9;
}

void histogram_add(struct histogram *h, double seconds) {
  h->buckets[bucket_of(seconds)]++;
  h->count++;
  h->sum_s += seconds;
  if (seconds > h->max_s) h->max_s = seconds;
}

double histogram_quantile_us(const struct histogram *h, double quantile) {
  uint64_t wanted = (uint64_t)ceil(quantile * (double)h->count), passed = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    passed += h->buckets[i];
    if (passed >= wanted && passed > 0) return middle_of(i) * 1e6;
  }
  return 0;
}

void seen_init(struct seen *s, uint64_t first) { *s = (struct seen){.first = first}; }

static void grow(struct seen *s, uint64_t wanted) {
  uint64_t capacity = s->capacity ? s->capacity : 1 << 20;
  while (capacity <= wanted) capacity *= 2;
  s->bits = realloc(s->bits, capacity / 8);
  if (s->bits == NULL) {
    fputs("loadclient: no memory for the record of sequence numbers\n", stderr);
    exit(1);
  }
  memset(s->bits + s->capacity / 8, 0, (capacity - s->capacity) / 8);
  s->capacity = capacity;
}

void seen_add(struct seen *s, uint64_t sequence) {
  uint64_t index = sequence - s->first;
  if (index >= s->capacity) grow(s, index);
  uint8_t mask = (uint8_t)(1u << (index & 7));
  if (s->bits[index >> 3] & mask) {
    s->duplicates++;
    return;
  }
  s->bits[index >> 3] |= mask;
  s->distinct++;
  if (index < s->highest_next)
    s->out_of_order++;
  else
    s->highest_next = index + 1;
}

void seen_free(struct seen *s) {
  free(s->bits);
  s->bits = NULL;
}
