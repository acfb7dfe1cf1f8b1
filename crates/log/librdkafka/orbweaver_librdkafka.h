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
 *
 * Waits with a timeout end at a time of the system clock (`gettimeofday` and `cnd_timedwait`): a clock that is set back by an hour
 * lengthens them by an hour (seen with 2.12.1). Here they end by the monotonic clock, after a second at most; librdkafka then waits
 * for the rest of its timeout. Threads and mutexes of C11 are those of POSIX in glibc and musl. Where the function is missing, waits
 * are as before.
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

#ifdef __LP64__
struct orbweaver_timespec {
        long seconds;
        long nanoseconds;
};
extern int orbweaver_clock_gettime(int, struct orbweaver_timespec *) __asm__("clock_gettime");
extern int orbweaver_clockwait(void *, void *, int, const struct orbweaver_timespec *) __asm__("pthread_cond_clockwait")
    __attribute__((weak));
extern int orbweaver_system_timedwait(void *, void *, const struct orbweaver_timespec *) __asm__("cnd_timedwait");

/* Defined in every file, and linked once, under the name that `threads.h` then declares. */
int orbweaver_timedwait(void *, void *, const struct orbweaver_timespec *) __asm__("orbweaver_cnd_timedwait") __attribute__((weak));
int orbweaver_timedwait(void *condition, void *mutex, const struct orbweaver_timespec *end) {
        enum { REALTIME = 0, MONOTONIC = 1, SUCCESS = 0, ERROR = 2, TIMED_OUT = 4, ETIMEDOUT_LINUX = 110 };
        const long second = 1000000000;
        struct orbweaver_timespec now, until;
        long seconds, nanoseconds;
        int result;

        if (!orbweaver_clockwait)
                return orbweaver_system_timedwait(condition, mutex, end);
        orbweaver_clock_gettime(REALTIME, &now);
        orbweaver_clock_gettime(MONOTONIC, &until);
        seconds     = end->seconds - now.seconds;
        nanoseconds = seconds > 1 ? second : seconds < -1 ? 0 : seconds * second + end->nanoseconds - now.nanoseconds;
        nanoseconds = nanoseconds > second ? second : nanoseconds < 0 ? 0 : nanoseconds;
        until.nanoseconds += nanoseconds;
        if (until.nanoseconds >= second) {
                until.seconds++;
                until.nanoseconds -= second;
        }
        result = orbweaver_clockwait(condition, mutex, MONOTONIC, &until);
        return result == 0 ? SUCCESS : result == ETIMEDOUT_LINUX ? TIMED_OUT : ERROR;
}
#define cnd_timedwait orbweaver_cnd_timedwait
#endif
#endif

#endif
#endif
