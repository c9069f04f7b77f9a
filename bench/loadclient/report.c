#include "report.h"

#include <stdio.h>
#include <sys/resource.h>

static double cpu_s(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void print_string(const char *text) {
  if (text == NULL) {
    fputs("null", stdout);
    return;
  }
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
  putchar('"');
}

static uint64_t missing(const struct report *r) {
  uint64_t wanted = !r->receives ? 0 : r->sends ? r->sent : r->options->messages;
  return wanted > r->seen->distinct ? wanted - r->seen->distinct : 0;
}

static double per_second(uint64_t count, double seconds) { return seconds > 0 ? (double)count / seconds : 0; }

/* Messages a second from the first that has come to the last. */
static double arrival_rate(const struct report *r) {
  return r->received > 1 ? per_second(r->received - 1, r->ended_s - r->first_arrival_s) : 0;
}

bool report_print(const struct report *r) {
  double seconds = r->ended_s - r->started_s;
  const struct histogram *h = r->latency, *c = r->commits;
  printf("{\"mode\": \"%s\", \"sent\": %lu, \"accepted\": %lu, \"refused\": %lu, \"received\": %lu, ",
         r->options->mode_name, r->sent, r->accepted, r->refused, r->received);
  printf("\"missing\": %lu, \"duplicates\": %lu, \"foreign\": %lu, \"out_of_order\": %lu, ", missing(r),
         r->seen->duplicates, r->foreign, r->seen->out_of_order);
  printf("\"seconds\": %.6f, \"rate\": %.1f, \"cpu_seconds\": %.3f, ", seconds,
         per_second(r->receives ? r->received : r->accepted, seconds), cpu_s());
  printf("\"arrival_rate\": %.1f, ", arrival_rate(r));
  printf("\"latency_us\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"max\": %.1f, \"mean\": %.1f}, ",
         histogram_quantile_us(h, 0.5), histogram_quantile_us(h, 0.9), histogram_quantile_us(h, 0.99), h->max_s * 1e6,
         h->count ? h->sum_s / (double)h->count * 1e6 : 0);
  printf("\"transactions\": %lu, \"transaction_rate\": %.1f, ", r->transactions, per_second(r->transactions, seconds));
  if (c) printf("\"commit_us\": {\"p50\": %.1f, \"p99\": %.1f}, ", histogram_quantile_us(c, 0.5), histogram_quantile_us(c, 0.99));
  printf("\"library\": \"%s\", \"error\": ", r->library);
  print_string(r->error);
  puts("}");
  return !r->error && !r->refused && !r->foreign && !r->seen->duplicates && !missing(r);
}
