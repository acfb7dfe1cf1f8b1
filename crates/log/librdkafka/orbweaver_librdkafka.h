/* Included before every file of librdkafka: `.cargo/config.toml` tells its build to. Empty for all other C code.
 *
 * A broker that comes back may answer that a partition has a new leader, and name none (-1). librdkafka counts such a partition in
 * the list of changes that it makes of the answer (KIP-951), but leaves its entry as `malloc` gave it. What was in that memory
 * before is then taken for the number of a partition: the process ends by SIGSEGV, or a leader is changed at random (librdkafka
 * issue 5280, seen with 2.12.1). Memory full of ones says partition -1, leader -1, and is passed over.
 *
 * The thread of a broker is to wake up when the next batch of a partition is due, also while that batch cannot be sent because the
 * idempotent producer has five or more records of the partition in flight. Then it polls without a pause until they are acknowledged
 * (librdkafka issue 2565, seen with 2.12.1): a whole core for each broker that answers slowly. With a timeout of a millisecond in place
 * of none, it polls a thousand times a second. Sockets and the thread's own queue end a poll as before.
 */
#pragma once
#if defined(__has_include) && !defined(__cplusplus)
#if __has_include("rdkafka_metadata.h")

static inline void *orbweaver_librdkafka_malloc(__SIZE_TYPE__ size) {
        void *memory = __builtin_malloc(size);
        return memory ? __builtin_memset(memory, 0xff, size) : memory;
}
#define malloc orbweaver_librdkafka_malloc

/* A test looks for it: a build that was cached, or was given other CPPFLAGS, may lack all this. */
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
