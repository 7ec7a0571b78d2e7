/* Keep-alive HTTP/1.1 load on 127.0.0.1, one blocking connection per thread: what kube-scheduler's Go client does, at
 * next to no cost of its own.
 *
 *   loadgen PORT PATH BODY_FILE CONNECTIONS SECONDS REQUESTS LATENCY_FILE
 *
 * Posts BODY_FILE over and over until SECONDS have passed or REQUESTS have been sent, whichever is first. The first
 * request of every connection opens it and is not counted. Appends each latency to LATENCY_FILE (int64, nanoseconds,
 * this machine's byte order) and prints one JSON line: requests, seconds, and the smallest and largest body received.
 * Anything but a whole 200 answer is the end: exit status 1 and the reason on stderr. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_LIMIT = 65536, BUFFER_SIZE = 1 << 18, REQUEST_HEADER_ROOM = 512, TIMEOUT_S = 30 };

typedef struct {
  pthread_t thread;
  int socket;
  char *buffer;
  int64_t *latencies;
  int count;
  uint64_t smallest, largest;
} Connection;

static char *request;
static size_t request_size;
static int port, request_limit;
static double second_limit;
static int64_t started;
static atomic_int issued;
static pthread_barrier_t opened, begun;

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "loadgen: %s: %.120s\n", what, detail);
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_connection(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct timeval timeout = {TIMEOUT_S, 0};
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect", strerror(errno));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  return fd;
}

static void send_request(int fd) {
  for (size_t sent = 0; sent < request_size;) {
    ssize_t part = send(fd, request + sent, request_size - sent, MSG_NOSIGNAL);
    if (part <= 0) fail("send", strerror(errno));
    sent += part;
  }
}

static size_t receive(int fd, char *into, size_t room) {
  ssize_t part = recv(fd, into, room, 0);
  if (part <= 0) fail("receive", part ? strerror(errno) : "the server closed the connection");
  return part;
}

/* Reads past the chunks of a body, `have` bytes of which are at the front of the buffer; returns the body's size. */
static uint64_t skip_chunks(Connection *c, size_t have) {
  uint64_t total = 0;
  for (size_t position = 0;;) {
    char *line_end;
    while (!(line_end = memchr(c->buffer + position, '\n', have - position))) {
      memmove(c->buffer, c->buffer + position, have -= position);
      position = 0;
      have += receive(c->socket, c->buffer + have, BUFFER_SIZE - have);
    }
    uint64_t chunk = strtoull(c->buffer + position, NULL, 16), left = chunk + 2; /* its line end */
    position = line_end + 1 - c->buffer;
    total += chunk;
    while (left > have - position) {
      left -= have - position;
      position = 0;
      have = receive(c->socket, c->buffer, BUFFER_SIZE);
    }
    position += left;
    if (!chunk) return total;
  }
}

/* Reads one answer to its end and returns the size of its body. */
static uint64_t read_answer(Connection *c) {
  size_t have = 0;
  char *end = NULL, *length;
  while (!end) {
    if (have >= HEADER_LIMIT) fail("answer", "header too long");
    have += receive(c->socket, c->buffer + have, HEADER_LIMIT - have);
    c->buffer[have] = 0;
    end = strstr(c->buffer, "\r\n\r\n");
  }
  *end = 0;
  if (strncmp(c->buffer, "HTTP/1.1 200", 12)) fail("answer", c->buffer);
  if (strcasestr(c->buffer, "\r\nconnection: close")) fail("answer", "the server means to close the connection");
  char *body = end + 4;
  uint64_t got = have - (body - c->buffer);
  if (!(length = strcasestr(c->buffer, "\r\ncontent-length:"))) {
    if (!strcasestr(c->buffer, "\r\ntransfer-encoding: chunked")) fail("answer", "neither a length nor chunks");
    memmove(c->buffer, body, got);
    return skip_chunks(c, got);
  }
  uint64_t size = strtoull(length + strlen("\r\ncontent-length:"), NULL, 10);
  while (got < size) got += receive(c->socket, c->buffer, BUFFER_SIZE);
  return size;
}

static void *drive(void *argument) {
  Connection *c = argument;
  c->socket = open_connection();
  send_request(c->socket);
  c->smallest = c->largest = read_answer(c);
  if (pthread_barrier_wait(&opened) == PTHREAD_BARRIER_SERIAL_THREAD) started = now_ns();
  pthread_barrier_wait(&begun);
  while (now_ns() - started < second_limit * 1e9 && atomic_fetch_add(&issued, 1) < request_limit) {
    int64_t before = now_ns();
    send_request(c->socket);
    uint64_t size = read_answer(c);
    c->latencies[c->count++] = now_ns() - before;
    if (size < c->smallest) c->smallest = size;
    if (size > c->largest) c->largest = size;
  }
  close(c->socket);
  return NULL;
}

static void load_request(const char *path, const char *body_path) {
  struct stat status;
  int fd = open(body_path, O_RDONLY);
  if (fd < 0 || fstat(fd, &status)) fail(body_path, strerror(errno));
  request = malloc(status.st_size + REQUEST_HEADER_ROOM);
  request_size = snprintf(request, REQUEST_HEADER_ROOM,
                          "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: Go-http-client/1.1\r\n"
                          "Content-Length: %lld\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n",
                          path, port, (long long)status.st_size);
  for (ssize_t part; (part = read(fd, request + request_size, status.st_size)) > 0;) request_size += part;
  close(fd);
}

static void report(const Connection *connections, int count, const char *latency_path, double seconds) {
  FILE *file = fopen(latency_path, "ab");
  if (!file) fail(latency_path, strerror(errno));
  int total = 0;
  uint64_t smallest = connections[0].smallest, largest = connections[0].largest;
  for (int i = 0; i < count; i++) {
    const Connection *c = &connections[i];
    fwrite(c->latencies, sizeof *c->latencies, c->count, file);
    total += c->count;
    if (c->smallest < smallest) smallest = c->smallest;
    if (c->largest > largest) largest = c->largest;
  }
  if (fclose(file)) fail(latency_path, strerror(errno));
  printf("{\"requests\": %d, \"seconds\": %.6f, \"smallest\": %llu, \"largest\": %llu}\n", total, seconds,
         (unsigned long long)smallest, (unsigned long long)largest);
}

int main(int count, char **arguments) {
  if (count != 8) fail("usage", "loadgen PORT PATH BODY_FILE CONNECTIONS SECONDS REQUESTS LATENCY_FILE");
  port = atoi(arguments[1]);
  load_request(arguments[2], arguments[3]);
  int connections = atoi(arguments[4]);
  second_limit = atof(arguments[5]);
  request_limit = atoi(arguments[6]);
  Connection *all = calloc(connections, sizeof *all);
  pthread_barrier_init(&opened, NULL, connections);
  pthread_barrier_init(&begun, NULL, connections);
  for (int i = 0; i < connections; i++) {
    all[i].buffer = malloc(BUFFER_SIZE + 1);
    all[i].latencies = malloc(request_limit * sizeof *all[i].latencies);
    pthread_create(&all[i].thread, NULL, drive, &all[i]);
  }
  for (int i = 0; i < connections; i++) pthread_join(all[i].thread, NULL);
  report(all, connections, arguments[7], (now_ns() - started) / 1e9);
  return 0;
}
