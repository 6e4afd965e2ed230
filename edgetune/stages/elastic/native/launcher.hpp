// The launcher: one thread that takes requests, decides by a table, launches, and sees ends of kernels by words in the
// host's memory.
//
//   stream of a piece   [kernel][ended = 7]                    a write behind each launch, no event
//   stream of a chain   [graph: kernel 0 -> kernel 1 -> kernel 2][ended = 3]
//                               +-> place = 0 +-> place = 1 +-> place = 2     beside the chain: nothing waits for them
//   host                spins on ended and place -> states -> decide() -> launch ...
//
// Python plans arrivals and tables, and reads what happened from a ring. Times are those of CLOCK_MONOTONIC, at which the
// host saw an end; a launch starts where it was launched, or at the end of the one before it on its stream.

#pragma once

#include "decide.hpp"

#include <cstddef>
#include <cstdint>

namespace edgetune {

// Functions of the CUDA driver API, as cuda.h declares them; handles are pointers.
struct Api {
    int (*set_context)(void *context);
    int (*launch_kernel)(
        void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared_bytes, void *stream, void **arguments, void **extra);
    int (*launch_graph)(void *graph, void *stream);
    int (*write_value)(void *stream, std::uint64_t address, std::uint32_t value, unsigned flags);  // or null
    int (*set_words)(std::uint64_t address, unsigned value, std::size_t count, void *stream);      // in its place
    int (*query_stream)(void *stream);
};

// A form of a call. Its arguments are there twice and used in turns: those of the launch before stay as they are.
struct Form {
    void *function;  // null: there is no such form
    std::uint32_t block[3];
    std::uint32_t shared_bytes;
    void **arguments[2];
    std::uint32_t *part[2];  // first logical block and number of blocks; null of the original
};

constexpr std::size_t kForms = 5;  // the original, and of 1, 2, 4 and 8 logical threads in a physical one

struct Ready {
    std::uint32_t grid[3];  // logical
    Form form[kForms];
};

struct Line {  // a task's stream and requests
    void *stream;
    void *chain;                    // graph of all its kernels; null where the policy launches none of it
    const std::uint32_t *ended;     // launches of the stream that have ended
    const std::uint32_t *place;     // kernel of the chain that runs
    std::uint64_t ended_address;    // of the same word, for the GPU
    const std::int64_t *arrivals;   // ascending
    std::uint64_t arrival_count;
    std::uint32_t clients;          // of a closed loop, which has no arrivals
};

struct Plan {
    const Table *table;
    const Api *api;
    const Ready *calls;  // as Table::calls
    const Line *lines;   // as Table::task
    void *context;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::int64_t hang_ns;   // nothing ends for so long: a kernel hangs
    std::int64_t query_ns;  // nothing ends for so long: ask the driver whether one failed
};

enum RecordKind : std::uint32_t { kLaunch = 0, kRequest = 1 };
enum Outcome : std::uint32_t { kOk = 0, kFailed = 1, kAbandoned = 2 };

struct Record {
    std::uint32_t kind;
    std::uint32_t task;
    std::uint64_t request;
    std::uint64_t number;  // of a launch; from here to blocks, of launches alone
    std::uint32_t call;
    std::uint32_t first;
    Shape shape;
    std::uint32_t outcome;
    std::int64_t seen_ns;     // of a launch: requests that arrived until then were known when it was decided
    std::int64_t asked_ns;    // a launch: when it had been launched; a request: its arrival
    std::int64_t started_ns;  // -1 where it did not start
    std::int64_t ended_ns;
};

enum Loss : std::int32_t { kHangs = -1, kNoForm = -2 };  // others are codes of CUDA

struct Summary {
    std::int32_t lost;       // why nothing could be launched any more; 0 where it could
    std::uint32_t function;  // of Api, in order, that said so
    std::uint64_t decisions;
    std::int64_t decisions_ns;
    std::int64_t longest_ns;
    std::uint64_t stalls;  // times that the ring was full
};

class Launcher;

}  // namespace edgetune

extern "C" {
// Starts a run; the plan and all that it points to stay until it is finished.
edgetune::Launcher *edgetune_start(const edgetune::Plan *plan);
// Ends the run as if time were up.
void edgetune_stop(edgetune::Launcher *launcher);
// Returns whether the run has ended; records may be left.
int edgetune_ended(const edgetune::Launcher *launcher);
// Moves up to so many records out of the ring; returns how many.
std::size_t edgetune_take(edgetune::Launcher *launcher, edgetune::Record *to, std::size_t most);
// Waits for the end, after which there are no records, and frees everything.
void edgetune_finish(edgetune::Launcher *launcher, edgetune::Summary *summary);
}
