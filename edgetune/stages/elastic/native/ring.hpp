// Records from the launcher's thread to Python's, without a lock.

#pragma once

#include "launcher.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

namespace edgetune {

constexpr std::size_t kRing = 1 << 16;  // records: seconds of launches; Python takes them every few milliseconds

class Ring {
public:
    bool put(const Record &record) {
        const std::size_t at = put_.load(std::memory_order_relaxed);
        if (at - taken_.load(std::memory_order_acquire) == kRing) return false;
        records_[at % kRing] = record;
        put_.store(at + 1, std::memory_order_release);
        return true;
    }

    std::size_t take(Record *to, std::size_t most) {
        const std::size_t at = taken_.load(std::memory_order_relaxed);
        const std::size_t count = std::min(most, put_.load(std::memory_order_acquire) - at);
        for (std::size_t place = 0; place < count; ++place) to[place] = records_[(at + place) % kRing];
        taken_.store(at + count, std::memory_order_release);
        return count;
    }

private:
    std::unique_ptr<Record[]> records_{new Record[kRing]()};  // touched now: no page is new during the run
    alignas(64) std::atomic<std::size_t> put_{0};
    alignas(64) std::atomic<std::size_t> taken_{0};
};

}  // namespace edgetune
