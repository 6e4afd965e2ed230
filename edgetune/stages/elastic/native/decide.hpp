// The decisions of a policy without Python: a table that is made before a run, and the rules that read it.
//
//   Table   task -> calls -> call: shape alone | for each number of critical blocks modulo multiprocessors: limits
//   States  of all tasks: what waits, what is left of the next kernel, what is in flight, service so far
//   decide(Table, States) -> a chain, a piece in some shape, or nothing
//
// Plain structures, as ctypes sees them in table.py. Numbers are computed in the order in which policies/elastic.py and
// pieces.py compute them, in double precision without contraction, so that both decide the same.

#pragma once

#include <cstdint>

namespace edgetune {

constexpr std::uint32_t kMostPieces = 32;  // of a task in flight; the table's own limit is not above it

enum Rule : std::uint32_t { kElastic = 0, kMultistream = 1, kSequential = 2 };

struct Shape {
    std::uint32_t count;       // logical blocks; 0: no shape
    std::uint32_t per_thread;  // logical threads in a physical one
    std::uint32_t blocks;      // physical blocks; of a decision, 0 is the original kernel
};

struct Limit {
    std::uint32_t threads;  // of the critical blocks beside it, at most
    Shape shape;
};

struct Call {
    std::uint32_t blocks;   // logical
    std::uint32_t threads;  // of a logical block
    std::uint32_t wave;     // blocks of the original that the GPU holds at once
    std::uint32_t row;      // of the first of sm_count + 1 places in Table::rows
    Shape alone;
    double block_s;  // measured time of a block; not a number where it is unknown
    double whole_s;  // measured time of the original; 0 where it is unknown
    double work_s;   // time of a block at the speeds of the GPU, in place of block_s
    double waits_s;  // time that a thread of a block waits for memory
};

struct Task {
    std::int32_t priority;     // 0 is best effort
    std::uint32_t first_call;  // in Table::calls
    std::uint32_t calls;
};

struct Table {
    std::uint32_t rule;
    std::uint32_t tasks;
    std::uint32_t sm_count;
    std::uint32_t depth;  // pieces in flight without a critical kernel, at least
    std::uint32_t most;   // pieces in flight, at most
    double saturating_threads;
    double launch_s;
    const Task *task;
    const Call *calls;
    const std::uint32_t *rows;  // where the limits for each number of critical blocks begin
    const Limit *limits;
};

struct Piece {
    std::uint64_t number;  // ascending in the order of launches
    double about_s;        // its estimated duration
};

struct State {
    std::int64_t oldest_ns;    // arrival of the oldest waiting request
    std::uint32_t waiting;     // requests
    std::uint32_t begun;       // whether a request is being launched piece by piece
    std::uint32_t call;        // whose blocks are launched next
    std::uint32_t left;        // of its logical blocks
    std::uint32_t in_flight;   // launches
    std::uint32_t pieces;      // of them that are pieces
    std::uint32_t running_blocks;   // physical, of its running or next kernel, where any is in flight
    std::uint32_t running_threads;  // of one of these
    double served_s;
    Piece piece[kMostPieces];  // the oldest first
};

enum Kind : std::uint32_t { kNothing = 0, kChain = 1, kPiece = 2 };

struct Decision {
    std::uint32_t kind;
    std::uint32_t task;
    Shape shape;
};

// Returns what is launched next, by what is in the table and in the states alone.
Decision decide(const Table &table, const State *states);

// Returns about how long a piece takes on an idle GPU, s; as long as launching it where that is unknown.
double about_s(const Table &table, const Call &call, Shape piece);

}  // namespace edgetune

extern "C" {
void edgetune_decide(const edgetune::Table *table, const edgetune::State *states, edgetune::Decision *decision);
double edgetune_about_s(const edgetune::Table *table, std::uint32_t call, const edgetune::Shape *piece);
}
