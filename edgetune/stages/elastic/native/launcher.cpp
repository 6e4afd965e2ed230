// See launcher.hpp. The rules of requests and of service are those of loop.py and task_state.py.

#include "launcher.hpp"

#include "host.hpp"
#include "progress.hpp"
#include "ring.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace edgetune {
namespace {

constexpr int kNotReady = 600;          // CUDA_ERROR_NOT_READY
constexpr double kNs = 1e9;
constexpr std::int64_t kNapNs = 1000000;   // within it a stop is seen
constexpr std::int64_t kEarlyNs = 200000;  // a nap ends late: 50 us of timer slack, and waking up

std::size_t form_of(const Shape &shape) {
    if (!shape.blocks) return 0;
    return shape.per_thread == 1 ? 1 : shape.per_thread == 2 ? 2 : shape.per_thread == 4 ? 3 : 4;
}

}  // namespace

class Launcher {
public:
    explicit Launcher(const Plan &plan)
        : plan_(plan), table_(*plan.table), states_(table_.tasks), progress_(table_.tasks) {
        for (std::uint32_t at = 0; at < table_.tasks; ++at) {
            leave(at);
            progress_[at].sent.assign(plan.lines[at].clients, plan.begin_ns);
        }
        turns_.resize(table_.task[table_.tasks - 1].first_call + table_.task[table_.tasks - 1].calls);
        thread_ = std::thread([this] { run(); });
    }

    void stop() { stopped_.store(true, std::memory_order_relaxed); }
    bool ended() const { return ended_.load(std::memory_order_acquire); }
    std::size_t take(Record *to, std::size_t most) { return ring_.take(to, most); }
    Summary finish() {
        thread_.join();
        return summary_;
    }

private:
    void run() {
        check(plan_.api->set_context(plan_.context), 0);
        bool changed = true;
        moved_ns_ = asked_ns_ = now_ns();
        while (!summary_.lost) {
            changed |= take_ends(true);
            seen_ns_ = now_ns();
            if (seen_ns_ >= plan_.end_ns || stopped_.load(std::memory_order_relaxed)) break;
            changed |= take_requests(seen_ns_);
            if (changed && !(changed = decide_once())) continue;
            if (!changed && !in_flight_ && rest()) break;
            pause();
        }
        while (in_flight_ && !summary_.lost) {
            take_ends(false);
            pause();
        }
        take_requests(now_ns());
        abandon(now_ns());
        ended_.store(true, std::memory_order_release);
    }

    // With nothing in flight, sleeps until shortly before the next request; returns whether there will be none.
    bool rest() {
        for (const Progress &progress : progress_)
            if (!progress.idle()) return false;
        const std::int64_t next_ns = earliest_ns();
        const std::int64_t left_ns = std::min(std::min(next_ns, plan_.end_ns) - now_ns() - kEarlyNs, kNapNs);
        const timespec nap{0, static_cast<long>(left_ns)};
        if (left_ns > 0 && next_ns != INT64_MAX) nanosleep(&nap, nullptr);
        return next_ns == INT64_MAX;
    }

    // Takes in the requests that arrived until a time, in their order; returns whether there were any.
    bool take_requests(std::int64_t at_ns) {
        bool any = false;
        for (;;) {
            const std::int64_t next_ns = earliest_ns();
            if (next_ns > at_ns) return any;
            any = true;
            for (std::uint32_t at = 0; at < table_.tasks; ++at) {
                Progress &progress = progress_[at];
                const bool idle = progress.idle();
                while (arrival_ns(at) <= next_ns) {
                    progress.arrived.push_back(arrival_ns(at));
                    if (progress.sent.empty()) ++progress.next_arrival;
                    else progress.sent.pop_front();
                }
                wait_in(at);
                if (idle && !progress.idle() && progress.arrived.front() > progress.idle_since_ns) join(at);
            }
        }
    }

    // Returns when the next request arrives; INT64_MAX where none will before another is answered.
    std::int64_t earliest_ns() const {
        std::int64_t next_ns = INT64_MAX;
        for (std::uint32_t at = 0; at < table_.tasks; ++at) next_ns = std::min(next_ns, arrival_ns(at));
        return next_ns;
    }

    std::int64_t arrival_ns(std::uint32_t task) const {
        const Progress &progress = progress_[task];
        const Line &line = plan_.lines[task];
        if (!progress.sent.empty()) return progress.sent.front();
        return progress.next_arrival < line.arrival_count ? line.arrivals[progress.next_arrival] : INT64_MAX;
    }

    // Lets a task that was idle begin at the service of its busy equals.
    void join(std::uint32_t task) {
        double least_s = -1.0;
        for (std::uint32_t at = 0; at < table_.tasks; ++at) {
            if (at == task || table_.task[at].priority != table_.task[task].priority || progress_[at].idle()) continue;
            if (least_s < 0 || states_[at].served_s < least_s) least_s = states_[at].served_s;
        }
        states_[task].served_s = std::max(states_[task].served_s, least_s);
    }

    void wait_in(std::uint32_t task) {
        states_[task].waiting = progress_[task].arrived.size();
        if (states_[task].waiting) states_[task].oldest_ns = progress_[task].arrived.front();
    }

    // Takes in what has ended, all at one time, after the requests that came before; returns whether anything has.
    bool take_ends(bool requests) {
        bool any = false;
        for (std::uint32_t at = 0; at < table_.tasks; ++at) {
            Progress &progress = progress_[at];
            if (progress.in_flight.empty()) continue;
            progress.seen_ended = load(plan_.lines[at].ended);
            progress.seen_place = 0;
            if (progress.in_flight.front().chain) {
                const std::uint32_t place = load(plan_.lines[at].place);
                if (place != progress.stale) {
                    progress.stale = UINT32_MAX;
                    progress.seen_place = place < table_.task[at].calls ? place : 0;
                }
            }
            any |= progress.seen_ended != progress.ended || progress.seen_place > progress.in_flight.front().call;
        }
        const std::int64_t at_ns = now_ns();
        if (any) {
            if (requests) take_requests(at_ns);
            for (std::uint32_t at = 0; at < table_.tasks; ++at) {
                Progress &progress = progress_[at];
                if (progress.in_flight.empty()) continue;
                if (progress.ended == progress.seen_ended) advance(at, progress.seen_place, at_ns);
                while (progress.ended != progress.seen_ended) end(at, at_ns, kOk);
            }
        }
        if (any || !in_flight_) moved_ns_ = asked_ns_ = at_ns;
        if (at_ns - asked_ns_ > plan_.query_ns) watch(at_ns);
        return any;
    }

    // Moves a chain on to a kernel that it has not come to yet.
    void advance(std::uint32_t task, std::uint32_t place, std::int64_t at_ns) {
        InFlight &front = progress_[task].in_flight.front();
        while (front.call < place) {
            write_launch(task, front, at_ns, kOk);
            progress_[task].started_ns = at_ns;
            ++front.call;
            ++front.number;
            front.shape = whole(task, front.call);
        }
        run_front(task);
    }

    // Asks the driver whether a kernel failed, where nothing ends.
    void watch(std::int64_t at_ns) {
        for (std::uint32_t at = 0; at < table_.tasks; ++at) {
            if (progress_[at].in_flight.empty()) continue;
            const int code = plan_.api->query_stream(plan_.lines[at].stream);
            if (code != kNotReady) check(code, 5);
        }
        if (at_ns - moved_ns_ > plan_.hang_ns) check(kHangs, 5);
        asked_ns_ = at_ns;
    }

    // Ends the oldest launch of a stream.
    void end(std::uint32_t task, std::int64_t at_ns, Outcome outcome) {
        Progress &progress = progress_[task];
        State &state = states_[task];
        InFlight front = progress.in_flight.front();
        progress.in_flight.pop_front();
        ++progress.ended;
        --in_flight_;
        for (bool more = true; more;) {  // of a chain, those that were not seen to end too
            write_launch(task, front, at_ns, outcome);
            progress.started_ns = at_ns;
            more = front.chain && ++front.call < table_.task[task].calls;
            ++front.number;
            if (more) front.shape = whole(task, front.call);
        }
        if (front.chain) {
            progress.stale = table_.task[task].calls - 1;
        } else {
            std::move(state.piece + 1, state.piece + state.pieces, state.piece);
            --state.pieces;
        }
        --state.in_flight;
        run_front(task);
        Open &request = progress.open.front();  // a stream is in order, and so are its requests
        if (outcome == kOk && !--request.in_flight && request.launched) {
            write_request(task, request, at_ns, kOk);
            progress.open.pop_front();
            if (plan_.lines[task].clients && at_ns < plan_.end_ns) progress.sent.push_back(at_ns);
            if (progress.idle()) progress.idle_since_ns = at_ns;
        }
    }

    // Sets what the states say of the kernel that runs on a stream.
    void run_front(std::uint32_t task) {
        const Progress &progress = progress_[task];
        if (progress.in_flight.empty()) return;
        const InFlight &front = progress.in_flight.front();
        const Call &call = table_.calls[table_.task[task].first_call + front.call];
        states_[task].running_blocks = front.shape.blocks ? front.shape.blocks : front.shape.count;
        states_[task].running_threads = (call.threads + front.shape.per_thread - 1) / front.shape.per_thread;
    }

    Shape whole(std::uint32_t task, std::uint32_t call) const {
        return {table_.calls[table_.task[task].first_call + call].blocks, 1, 0};
    }

    // Decides once and launches that; returns whether there was something to launch.
    bool decide_once() {
        const std::int64_t begin_ns = now_ns();
        const Decision decision = decide(table_, states_.data());
        const std::int64_t took_ns = now_ns() - begin_ns;
        ++summary_.decisions;
        summary_.decisions_ns += took_ns;
        summary_.longest_ns = std::max(summary_.longest_ns, took_ns);
        if (decision.kind == kNothing) return false;
        const std::uint32_t task = decision.task;
        State &state = states_[task];
        Progress &progress = progress_[task];
        if (!state.begun) {
            progress.open.push_back({progress.begun++, progress.arrived.front(), begin_ns, 0, false});
            progress.arrived.pop_front();
            wait_in(task);
        }
        Open &request = progress.open.back();
        if (decision.kind == kChain) {
            request.launched = true;
            launch(task, {number_, request.number, 0, 0, whole(task, 0), true, seen_ns_, 0});
            number_ += table_.task[task].calls;
            return true;
        }
        const std::uint32_t place = state.call;
        const Call &call = table_.calls[table_.task[task].first_call + place];
        const std::uint32_t first = call.blocks - state.left;
        state.left -= decision.shape.count;
        state.begun = 1;
        if (!state.left && place + 1 < table_.task[task].calls) {
            ++state.call;
            state.left = table_.calls[table_.task[task].first_call + state.call].blocks;
        } else if (!state.left) {
            request.launched = true;
            leave(task);
        }
        state.piece[state.pieces++] = {number_, about_s(table_, call, decision.shape)};
        launch(task, {number_++, request.number, place, first, decision.shape, false, seen_ns_, 0});
        return true;
    }

    // No request of a task is being launched piece by piece.
    void leave(std::uint32_t task) {
        states_[task].begun = states_[task].call = 0;
        states_[task].left = table_.calls[table_.task[task].first_call].blocks;
    }

    void launch(std::uint32_t task, InFlight in_flight) {
        const Line &line = plan_.lines[task];
        Progress &progress = progress_[task];
        const Api &api = *plan_.api;
        if (in_flight.chain) {
            check(line.chain ? api.launch_graph(line.chain, line.stream) : int{kNoForm}, 2);
        } else {
            launch_piece(table_.task[task].first_call + in_flight.call, in_flight, line.stream);
        }
        if (!summary_.lost) {
            const std::uint32_t count = ++progress.launched;
            check(api.write_value ? api.write_value(line.stream, line.ended_address, count, 0)
                                  : api.set_words(line.ended_address, count, 1, line.stream), 3);
        }
        in_flight.launched_ns = now_ns();
        if (progress.in_flight.empty()) progress.started_ns = in_flight.launched_ns;
        if (!in_flight_) moved_ns_ = asked_ns_ = in_flight.launched_ns;
        progress.in_flight.push_back(in_flight);
        ++progress.open.back().in_flight;
        ++states_[task].in_flight;
        ++in_flight_;
        run_front(task);
    }

    void launch_piece(std::uint32_t call, const InFlight &piece, void *stream) {
        const Ready &ready = plan_.calls[call];
        const Form &form = ready.form[form_of(piece.shape)];
        if (!form.function) return check(kNoForm, 1);
        turns_[call] ^= 1;
        const std::size_t turn = turns_[call];
        if (form.part[turn]) {
            form.part[turn][0] = piece.first;
            form.part[turn][1] = piece.shape.count;
        }
        const bool original = !piece.shape.blocks;
        check(plan_.api->launch_kernel(
                  form.function, original ? ready.grid[0] : piece.shape.blocks, original ? ready.grid[1] : 1,
                  original ? ready.grid[2] : 1, form.block[0], form.block[1], form.block[2], form.shared_bytes, stream,
                  form.arguments[turn], nullptr), 1);
    }

    void check(int code, std::uint32_t function) {
        if (!code || summary_.lost) return;
        summary_.lost = code;
        summary_.function = function;
    }

    // Ends what is in flight in failure, and gives up every request that is left.
    void abandon(std::int64_t at_ns) {
        for (std::uint32_t at = 0; at < table_.tasks; ++at) {
            Progress &progress = progress_[at];
            while (!progress.in_flight.empty()) end(at, at_ns, kFailed);
            for (const Open &request : progress.open)
                write_request(at, request, at_ns, summary_.lost ? kFailed : kAbandoned);
            for (const std::int64_t arrived_ns : progress.arrived)
                write_request(at, {progress.begun++, arrived_ns, -1, 0, false}, at_ns, kAbandoned);
        }
    }

    void write_launch(std::uint32_t task, const InFlight &launch, std::int64_t at_ns, Outcome outcome) {
        const std::int64_t started_ns = std::max(progress_[task].started_ns, launch.launched_ns);
        states_[task].served_s += static_cast<double>(at_ns - started_ns) / kNs;
        write({kLaunch, task, launch.request, launch.number, launch.call, launch.first, launch.shape, outcome,
               launch.seen_ns, launch.launched_ns, started_ns, at_ns});
    }

    void write_request(std::uint32_t task, const Open &request, std::int64_t at_ns, Outcome outcome) {
        write({kRequest, task, request.number, 0, 0, 0, {0, 0, 0}, outcome, 0, request.arrived_ns, request.begun_ns,
               at_ns});
    }

    void write(const Record &record) {
        if (ring_.put(record)) return;
        ++summary_.stalls;
        while (!ring_.put(record)) std::this_thread::yield();
    }

    const Plan plan_;
    const Table &table_;
    std::vector<State> states_;
    std::vector<Progress> progress_;
    std::vector<char> turns_;
    Ring ring_;
    Summary summary_{};
    std::uint64_t number_ = 0;
    std::uint32_t in_flight_ = 0;
    std::int64_t seen_ns_ = 0;   // what arrived until then is known
    std::int64_t moved_ns_ = 0;  // when something last ended, or nothing was in flight
    std::int64_t asked_ns_ = 0;  // when the driver was last asked whether a kernel failed
    std::atomic<bool> stopped_{false};
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

}  // namespace edgetune

extern "C" {

edgetune::Launcher *edgetune_start(const edgetune::Plan *plan) { return new edgetune::Launcher(*plan); }

void edgetune_stop(edgetune::Launcher *launcher) { launcher->stop(); }

int edgetune_ended(const edgetune::Launcher *launcher) { return launcher->ended(); }

std::size_t edgetune_take(edgetune::Launcher *launcher, edgetune::Record *to, std::size_t most) {
    return launcher->take(to, most);
}

void edgetune_finish(edgetune::Launcher *launcher, edgetune::Summary *summary) {
    *summary = launcher->finish();
    delete launcher;
}
}
