// The rules of policies/{elastic,multistream,sequential}.py.

#include "decide.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace edgetune {
namespace {

constexpr Decision kNone = {kNothing, 0, {0, 0, 0}};

// Returns the waiting task of the highest priority, the first of equals; Table::tasks where none waits.
std::uint32_t most_urgent(const Table &table, const State *states, std::int32_t above) {
    std::uint32_t found = table.tasks;
    for (std::uint32_t at = 0; at < table.tasks; ++at) {
        if (states[at].waiting && table.task[at].priority > above) {
            found = at;
            above = table.task[at].priority;
        }
    }
    return found;
}

Decision chain_of(const Table &table, std::uint32_t task) {
    return task < table.tasks ? Decision{kChain, task, {0, 0, 0}} : kNone;
}

// Returns whether pieces in flight keep the GPU busy until another launch gets there.
bool enough(const Table &table, const State *states, bool beside) {
    std::uint64_t oldest = UINT64_MAX;
    std::uint32_t deep = 0;
    for (std::uint32_t at = 0; at < table.tasks; ++at) {
        deep += states[at].pieces;
        for (std::uint32_t place = 0; place < states[at].pieces; ++place)
            oldest = std::min(oldest, states[at].piece[place].number);
    }
    if (deep >= table.most) return true;
    if (!beside && deep < table.depth) return false;
    double counted_s = 0.0;
    for (std::uint32_t at = 0; at < table.tasks; ++at)
        for (std::uint32_t place = 0; place < states[at].pieces; ++place)
            if (beside || states[at].piece[place].number != oldest) counted_s += states[at].piece[place].about_s;
    return counted_s >= table.launch_s;
}

// Returns the best shape that fits what critical launches leave.
Shape shape_beside(const Table &table, const Call &call, std::uint64_t blocks, std::uint64_t threads) {
    if (blocks >= table.sm_count) return {0, 0, 0};
    const std::uint32_t *row = table.rows + call.row + blocks;
    const Limit *end = table.limits + row[1];
    const Limit *found = std::lower_bound(
        table.limits + row[0], end, threads, [](const Limit &limit, std::uint64_t than) { return limit.threads < than; });
    return found == end ? Shape{0, 0, 0} : found->shape;
}

// Returns a piece of this shape, smaller where less is left; the original kernel where it is that.
Decision piece_of(std::uint32_t task, const Call &call, std::uint32_t left, Shape shape) {
    std::uint32_t count = std::min(shape.count, left), blocks = std::min(shape.blocks, count);
    if (count == blocks && count == call.blocks && shape.per_thread == 1) blocks = 0;
    return {kPiece, task, {count, shape.per_thread, blocks}};
}

Decision elastic(const Table &table, const State *states) {
    const std::uint32_t urgent = most_urgent(table, states, 0);
    if (urgent < table.tasks) return chain_of(table, urgent);
    bool beside = false;
    std::uint64_t critical_blocks = 0, critical_threads = 0;
    std::uint32_t there = 0;
    for (std::uint32_t at = 0; at < table.tasks; ++at) {
        if (!states[at].in_flight) continue;
        if (table.task[at].priority > 0) {
            beside = true;
            critical_blocks += states[at].running_blocks % table.sm_count;
            critical_threads += states[at].running_threads;
        } else {
            ++there;
        }
    }
    if (there && enough(table, states, beside)) return kNone;
    if (beside && there > 1) return kNone;
    // By service so far, then by pieces in flight, then in order: each turn takes the next of them.
    using Rank = std::tuple<double, std::uint32_t, std::int64_t>;
    Rank last{-1.0, 0, -1};
    for (;;) {
        std::uint32_t chosen = table.tasks;
        Rank first{INFINITY, 0, 0};
        for (std::uint32_t at = 0; at < table.tasks; ++at) {
            if (table.task[at].priority > 0 || (beside && there && !states[at].in_flight)) continue;
            const Rank rank{states[at].served_s, states[at].in_flight, at};
            if (rank > last && rank < first) {
                first = rank;
                chosen = at;
            }
        }
        if (chosen == table.tasks) return kNone;
        last = first;
        const State &state = states[chosen];
        if (state.begun ? !state.left : !state.waiting) continue;
        const Call &call = table.calls[table.task[chosen].first_call + (state.begun ? state.call : 0)];
        const Shape shape = beside ? shape_beside(table, call, critical_blocks, critical_threads) : call.alone;
        if (shape.count) return piece_of(chosen, call, state.begun ? state.left : call.blocks, shape);
    }
}

Decision sequential(const Table &table, const State *states) {
    std::uint32_t first = table.tasks;
    for (std::uint32_t at = 0; at < table.tasks; ++at) {
        if (states[at].in_flight) return kNone;
        if (!states[at].waiting) continue;
        const bool earlier = first == table.tasks || states[at].oldest_ns < states[first].oldest_ns ||
                             (states[at].oldest_ns == states[first].oldest_ns &&
                              table.task[at].priority > table.task[first].priority);
        if (earlier) first = at;
    }
    return chain_of(table, first);
}

double reached(const Table &table, double threads) { return std::min(1.0, threads / table.saturating_threads); }

}  // namespace

Decision decide(const Table &table, const State *states) {
    switch (table.rule) {
        case kElastic: return elastic(table, states);
        case kSequential: return sequential(table, states);
        default: return chain_of(table, most_urgent(table, states, -1));
    }
}

double about_s(const Table &table, const Call &call, Shape piece) {
    const double count = piece.count, blocks = piece.blocks ? piece.blocks : piece.count;
    const double turns = std::ceil(count / std::max(1.0, std::min(blocks, static_cast<double>(call.wave))));
    if (!std::isnan(call.block_s)) {
        const double slower =
            reached(table, call.threads) / reached(table, static_cast<double>(call.threads) / piece.per_thread);
        return std::max(turns * slower * call.block_s, count / call.blocks * call.whole_s);
    }
    const double sms = table.sm_count;
    const double threads =
        std::ceil(static_cast<double>(call.threads) / piece.per_thread) * std::ceil(blocks / sms);
    const double took_s = std::max(count * call.work_s / (reached(table, threads) * std::min(1.0, blocks / sms)),
                                   turns * piece.per_thread * call.waits_s);
    return took_s > 0.0 ? took_s : table.launch_s;
}

}  // namespace edgetune

extern "C" {

void edgetune_decide(const edgetune::Table *table, const edgetune::State *states, edgetune::Decision *decision) {
    *decision = edgetune::decide(*table, states);
}

double edgetune_about_s(const edgetune::Table *table, std::uint32_t call, const edgetune::Shape *piece) {
    return edgetune::about_s(*table, table->calls[call], *piece);
}
}
