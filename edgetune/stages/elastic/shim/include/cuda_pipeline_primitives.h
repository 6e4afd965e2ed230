// Asynchronous copies of a thread: here a copy is done when it is asked for, and there is nothing to wait for.
#pragma once

#include <string.h>

static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
    memcpy(to, from, bytes - zeros);
    memset(static_cast<char *>(to) + bytes - zeros, 0, zeros);
}
static inline void __pipeline_commit() {}
static inline void __pipeline_wait_prior(size_t) {}
