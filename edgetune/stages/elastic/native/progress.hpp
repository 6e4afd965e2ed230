// What the launcher knows of a task and policies do not: its requests, and its launches in flight.

#pragma once

#include "decide.hpp"

#include <cstdint>
#include <deque>

namespace edgetune {

// A launch on a stream: a piece, or a chain of which `call` is the kernel that runs.
struct InFlight {
    std::uint64_t number;
    std::uint64_t request;
    std::uint32_t call;
    std::uint32_t first;
    Shape shape;
    bool chain;
    std::int64_t seen_ns;
    std::int64_t launched_ns;
};

struct Open {
    std::uint64_t number;
    std::int64_t arrived_ns;
    std::int64_t begun_ns;
    std::uint32_t in_flight;
    bool launched;
};

struct Progress {
    std::deque<std::int64_t> arrived;
    std::deque<std::int64_t> sent;  // by clients of a closed loop, not taken yet
    std::deque<Open> open;
    std::deque<InFlight> in_flight;
    std::uint64_t next_arrival = 0;
    std::uint64_t begun = 0;
    std::uint32_t launched = 0;     // launches of the stream, as its word counts them
    std::uint32_t ended = 0;
    std::uint32_t seen_ended = 0;   // what the words said last
    std::uint32_t seen_place = 0;
    std::uint32_t stale = 0;        // what `place` says of the chain before
    std::int64_t started_ns = 0;    // of the kernel that runs
    std::int64_t idle_since_ns = 0;

    bool idle() const { return arrived.empty() && open.empty(); }
};

}  // namespace edgetune
