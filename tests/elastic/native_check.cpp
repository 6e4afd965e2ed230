// The launcher and the fake driver in one program, for sanitizers: two best-effort tasks and a critical one for 0.3 s.
// Exits with 1 where a logical block was launched twice or left out, or the fake ran other kernels than were recorded.

#include "launcher.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <time.h>
#include <tuple>
#include <vector>

using namespace edgetune;

struct Logged {
    std::int64_t function, launched_ns, started_ns, ended_ns, first, count, blocks, priority;
};

extern "C" {
void fake_open();
void fake_close();
void *fake_function(std::int64_t number, std::int64_t block_ns, std::uint32_t wave, std::int32_t argument, int fails);
void fake_free_function(void *function);
std::size_t fake_log(Logged *to, std::size_t most);
int cuCtxSetCurrent(void *);
int cuStreamCreateWithPriority(void **, unsigned, int);
int cuStreamDestroy_v2(void *);
int cuStreamQuery(void *);
int cuStreamWriteValue32_v2(void *, std::uint64_t, std::uint32_t, unsigned);
int cuMemsetD32Async(std::uint64_t, unsigned, std::size_t, void *);
int cuLaunchKernel(
    void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *);
int cuGraphDestroy(void *);
int cuGraphExecDestroy(void *);
}

namespace {

constexpr std::uint32_t kTasks = 3, kCalls = 2, kSms = 4, kBlocks = 11;

struct Arguments {  // of one form of one call: the launch of abi.py
    std::uint32_t launch[8] = {kBlocks, 1, 1, 64, 1, 1, 0, 0};
    void *pointers[1] = {launch};
};

std::int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

int failed(const char *what) {
    std::fprintf(stderr, "%s\n", what);
    return 1;
}

}  // namespace

int main() {
    fake_open();
    void *original = fake_function(0, 20000, kSms, -1, 0), *form = fake_function(1, 20000, kSms, 0, 0);
    std::vector<Task> tasks;
    std::vector<Call> calls;
    std::vector<std::uint32_t> rows;
    std::vector<Limit> limits;
    for (std::uint32_t task = 0; task < kTasks; ++task) {
        tasks.push_back({task == 0 ? 1 : 0, static_cast<std::uint32_t>(calls.size()), kCalls});
        for (std::uint32_t at = 0; at < kCalls; ++at) {
            calls.push_back({kBlocks, 64, kSms, static_cast<std::uint32_t>(rows.size()), {kSms, 1, kSms}, 20e-6, 60e-6, 0, 0});
            for (std::uint32_t blocks = 0; blocks <= kSms; ++blocks) {
                rows.push_back(static_cast<std::uint32_t>(limits.size()));
                if (blocks < kSms) limits.push_back({1024, {kSms - blocks, 2, kSms - blocks}});
            }
        }
    }
    const Table table{kElastic, kTasks, kSms, 2, 32, 512, 10e-6, tasks.data(), calls.data(), rows.data(), limits.data()};
    const Api api{cuCtxSetCurrent, cuLaunchKernel, cuGraphLaunch, cuStreamWriteValue32_v2, cuMemsetD32Async, cuStreamQuery};

    std::vector<Ready> ready(calls.size());
    std::vector<Arguments> arguments(calls.size() * 6);
    for (std::size_t at = 0; at < ready.size(); ++at) {
        ready[at].grid[0] = kBlocks;
        ready[at].grid[1] = ready[at].grid[2] = 1;
        for (std::size_t place = 0; place < 3; ++place) {
            Form &made = ready[at].form[place];
            made = {place ? form : original, {64, 1, 1}, 0, {}, {}};
            for (std::size_t turn = 0; turn < 2; ++turn) {
                Arguments &of = arguments[at * 6 + place * 2 + turn];
                made.arguments[turn] = of.pointers;
                made.part[turn] = place ? of.launch + 6 : nullptr;
            }
        }
    }

    std::vector<Line> lines(kTasks);
    std::vector<std::uint32_t> words(kTasks * 32, 0);
    std::vector<std::int64_t> arrivals;
    const std::int64_t begin_ns = now_ns(), end_ns = begin_ns + 300000000;
    for (std::int64_t at_ns = begin_ns; at_ns < end_ns; at_ns += 2000000) arrivals.push_back(at_ns);
    void *graph = nullptr, *chain = nullptr;
    for (std::uint32_t task = 0; task < kTasks; ++task) {
        Line &line = lines[task];
        line = {};
        cuStreamCreateWithPriority(&line.stream, 1, task ? 0 : -5);
        line.ended = &words[task * 32];
        line.place = &words[task * 32 + 16];
        line.ended_address = reinterpret_cast<std::uint64_t>(line.ended);
        if (task) {
            line.clients = task;
            continue;
        }
        line.arrivals = arrivals.data();
        line.arrival_count = arrivals.size();
        cuStreamBeginCapture_v2(line.stream, 1);
        for (std::uint32_t at = 0; at < kCalls; ++at) {
            cuMemsetD32Async(reinterpret_cast<std::uint64_t>(line.place), at, 1, line.stream);
            cuLaunchKernel(original, kBlocks, 1, 1, 64, 1, 1, 0, line.stream, arguments[0].pointers, nullptr);
        }
        if (cuStreamEndCapture(line.stream, &graph)) return failed("no graph");
        cuGraphInstantiateWithFlags(&chain, graph, 0);
        cuGraphDestroy(graph);
        line.chain = chain;
    }

    int context = 0;
    const Plan plan{&table, &api, ready.data(), lines.data(), &context, begin_ns, end_ns, 20000000000, 1000000};
    Launcher *launcher = edgetune_start(&plan);
    std::vector<Record> found, some(1000);
    for (;;) {
        const bool over = edgetune_ended(launcher);
        while (const std::size_t count = edgetune_take(launcher, some.data(), some.size()))
            found.insert(found.end(), some.begin(), some.begin() + count);
        if (over) break;
        std::this_thread::yield();
    }
    Summary summary;
    edgetune_finish(launcher, &summary);

    std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, std::multiset<std::uint32_t>> blocks;
    std::size_t launches = 0, answered = 0;
    for (const Record &record : found) {
        if (record.kind != kLaunch) continue;
        ++launches;
        for (std::uint32_t at = 0; at < record.shape.count; ++at)
            blocks[{record.task, record.request, record.call}].insert(record.first + at);
    }
    for (const Record &record : found) {
        if (record.kind != kRequest || record.outcome != kOk) continue;
        ++answered;
        for (std::uint32_t call = 0; call < kCalls; ++call) {
            const auto &of = blocks[{record.task, record.request, call}];
            if (of.size() != kBlocks || std::set<std::uint32_t>(of.begin(), of.end()).size() != kBlocks)
                return failed("blocks of an answered request were launched twice or never");
        }
    }
    std::vector<Logged> log(launches + 1);
    if (fake_log(log.data(), log.size()) != launches) return failed("the fake ran other kernels than were recorded");
    if (summary.lost || !answered || launches < 20) return failed("too little happened");
    cuGraphExecDestroy(chain);
    for (Line &line : lines) cuStreamDestroy_v2(line.stream);
    fake_close();
    fake_free_function(original);
    fake_free_function(form);
    std::printf("%zu launches, %zu requests answered\n", launches, answered);
    return 0;
}
