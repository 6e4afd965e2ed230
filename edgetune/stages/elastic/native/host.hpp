// The host's clock, and how a thread waits on a word of memory.

#pragma once

#include <cstdint>
#include <time.h>

namespace edgetune {

inline std::int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

inline std::uint32_t load(const std::uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace edgetune
