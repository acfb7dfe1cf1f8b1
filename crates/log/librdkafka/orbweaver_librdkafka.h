/* Included before every file of librdkafka: `.cargo/config.toml` tells its build to. Empty for all other C code.
 *
 * A broker that comes back may answer that a partition has a new leader, and name none (-1). librdkafka counts such a partition in
 * the list of changes that it makes of the answer (KIP-951), but leaves its entry as `malloc` gave it. What was in that memory
 * before is then taken for the number of a partition: the process ends by SIGSEGV, or a leader is changed at random (librdkafka
 * issue 5280, seen with 2.12.1). Memory full of ones says partition -1, leader -1, and is passed over.
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

#endif
#endif
