/* Included before every source file of librdkafka, by `.cargo/config.toml`. Empty for all other C code.
 *
 * A returning broker may report that a partition has a new leader without naming one (-1). librdkafka counts such a partition in
 * the list of changes that it derives from the response (KIP-951), but leaves its entry uninitialized, as `malloc` returned it. The
 * previous contents of that memory are then read as a partition number: the process crashes with SIGSEGV, or a random leader is
 * changed (librdkafka issue 5280, seen with 2.12.1). Memory filled with ones reads as partition -1, leader -1, and is skipped.
 *
 * A broker's thread wakes up when the next batch of a partition is due, even while that batch cannot be sent because the idempotent
 * producer has five or more records of the partition in flight. It then polls without a pause until they are acknowledged
 * (librdkafka issue 2565, seen with 2.12.1), which takes a whole core per slow broker. With a timeout of one millisecond instead of
 * none, it polls a thousand times per second. Sockets and the thread's own queue end a poll as before.
 */
#pragma once
#if defined(__has_include) && !defined(__cplusplus)
#if __has_include("rdkafka_metadata.h")

static inline void *orbweaver_librdkafka_malloc(__SIZE_TYPE__ size) {
        void *memory = __builtin_malloc(size);
        return memory ? __builtin_memset(memory, 0xff, size) : memory;
}
#define malloc orbweaver_librdkafka_malloc

/* Checked by a test: a cached build, or one with other CPPFLAGS, may lack this header. */
static const char orbweaver_librdkafka[] __attribute__((used)) = "orbweaver: memory of librdkafka is filled";

#ifdef __linux__
struct pollfd;
extern int orbweaver_system_poll(struct pollfd *, unsigned long, int) __asm__("poll");

__attribute__((unused)) static int orbweaver_librdkafka_poll(struct pollfd *files, unsigned long count, int timeout_ms) {
        return orbweaver_system_poll(files, count, timeout_ms ? timeout_ms : 1);
}
#define poll orbweaver_librdkafka_poll
#endif

#endif
#endif
