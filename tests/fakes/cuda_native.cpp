// A fake of CUDA's driver as a library: entry points of cuda.h, streams that run on a thread, kernels that take a given
// time and do nothing. Behaviour as documented by NVIDIA (CUDA Driver API reference): streams are ordered and independent
// of each other, arguments are copied at the launch, a write of a value comes after all work before it on its stream, an
// event that was never recorded is complete, a captured stream runs nothing, streams join a capture by events and have to
// be joined again, and after a failed kernel every call fails. There is no contention: kernels run beside each other, each
// as fast as alone. One thread is the GPU, and spins while there is work, or was until lately.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <time.h>
#include <vector>

namespace {

constexpr std::int64_t kSpinNs = 5'000'000;
constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidHandle = 400, kNotReady = 600, kUnjoined = 904;

std::int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

struct Function {
    std::int64_t block_ns;    // of one wave of blocks; below zero: the kernel never ends
    std::uint32_t wave;       // blocks that run at once
    std::int32_t argument;    // whose bytes 24 to 31 are the first logical block and their number; -1: the grid is
    int fails;                // the code of its failure
    std::int64_t number;      // for the log
};

struct Logged {
    std::int64_t function, launched_ns, started_ns, ended_ns, first, count, blocks, priority;
};

struct Event {
    std::uint64_t recorded = 0, done = 0;
    std::int64_t done_ns = 0;
    struct Graph *graph = nullptr;
    std::size_t node = 0;
};

enum class Kind { kKernel, kWrite, kRecord, kWait, kGraph };

struct Op {
    Kind kind = Kind::kKernel;
    Function *function = nullptr;
    std::uint32_t *word = nullptr;
    std::uint32_t value = 0;
    Event *event = nullptr;
    std::uint64_t generation = 0;
    struct Graph *graph = nullptr;
    Logged logged{};
    std::int64_t lasts_ns = 0;
    std::vector<std::size_t> after;  // of a node of a graph
};

struct Graph {
    std::vector<Op> nodes;
    std::vector<struct Stream *> capturing;
};

struct Running {  // a graph that runs
    std::vector<std::int64_t> ends_ns;  // 0: not begun; -1: over
};

struct Stream {
    int priority;
    std::deque<Op> ops;
    std::int64_t ends_ns = 0;  // of the kernel at the head, once it has begun
    Running running;
    Graph *capture = nullptr;
    std::vector<std::size_t> last;  // nodes that the next one comes after
};

struct Gpu {
    std::mutex mutex;
    std::vector<Stream *> streams;
    std::vector<Logged> log;
    std::atomic<int> failed{0};
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> calls{0};
    std::thread thread;

    Gpu() { thread = std::thread([this] { run(); }); }

    void run() {
        std::int64_t busy_ns = 0;  // when there was last any work
        while (!over.load()) {
            bool busy = now_ns() - busy_ns < kSpinNs;
            {
                std::lock_guard<std::mutex> held(mutex);
                for (Stream *stream : streams)
                    while (!stream->ops.empty() && !failed.load()) {
                        busy = true;
                        busy_ns = now_ns();
                        if (!step(*stream)) break;
                    }
            }
            if (busy) {
                for (int turn = 0; turn < 20; ++turn) pause();  // callers get the mutex
            } else {
                timespec nap{0, 1000};
                nanosleep(&nap, nullptr);
            }
        }
    }

    // Goes on with the head of a stream; returns whether it is over and another may follow.
    bool step(Stream &stream) {
        Op &op = stream.ops.front();
        switch (op.kind) {
            case Kind::kKernel:
                if (!kernel(op, stream.ends_ns)) return false;
                stream.ends_ns = 0;
                break;
            case Kind::kWrite: __atomic_store_n(op.word, op.value, __ATOMIC_RELEASE); break;
            case Kind::kRecord:
                op.event->done = op.generation;
                op.event->done_ns = now_ns();
                break;
            case Kind::kWait:
                if (op.event->done < op.generation) return false;
                break;
            case Kind::kGraph:
                if (!graph(*op.graph, stream.running, op.logged.launched_ns)) return false;
                break;
        }
        stream.ops.pop_front();
        return true;
    }

    bool kernel(Op &op, std::int64_t &ends_ns) {
        const std::int64_t at_ns = now_ns();
        if (!ends_ns) {
            op.logged.started_ns = at_ns;
            ends_ns = op.lasts_ns < 0 ? INT64_MAX : at_ns + op.lasts_ns;
        }
        if (at_ns < ends_ns) return false;
        if (op.function->fails) {
            failed.store(op.function->fails);
            return false;
        }
        op.logged.ended_ns = at_ns;
        log.push_back(op.logged);
        return true;
    }

    bool graph(Graph &graph, Running &running, std::int64_t launched_ns) {
        running.ends_ns.resize(graph.nodes.size(), 0);
        bool all = true;
        for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
            std::int64_t &ends_ns = running.ends_ns[at];
            if (ends_ns == -1) continue;
            bool ready = true;
            for (const std::size_t before : graph.nodes[at].after) ready &= running.ends_ns[before] == -1;
            Op &op = graph.nodes[at];
            if (ready && op.kind == Kind::kWrite) {
                __atomic_store_n(op.word, op.value, __ATOMIC_RELEASE);
                ends_ns = -1;
            } else if (ready) {
                op.logged.launched_ns = launched_ns;
                if (kernel(op, ends_ns)) ends_ns = -1;
            }
            all &= ends_ns == -1;
        }
        if (all) running.ends_ns.clear();
        return all;
    }
};

Gpu *gpu = nullptr;

// Puts an operation on a stream, or into the graph that the stream is captured to.
int put(Stream *stream, Op op) {
    ++gpu->calls;
    if (const int code = gpu->failed.load()) return code;
    if (!stream) return kInvalidHandle;
    op.logged.launched_ns = now_ns();
    std::lock_guard<std::mutex> held(gpu->mutex);
    if (!stream->capture) {
        if (op.kind == Kind::kRecord) op.event->graph = nullptr;
        if (op.kind == Kind::kRecord || op.kind == Kind::kWait)
            op.generation = op.kind == Kind::kRecord ? ++op.event->recorded : op.event->recorded;
        if (op.kind == Kind::kWait && op.event->graph) {  // of a capture: the stream joins it
            stream->capture = op.event->graph;
            stream->capture->capturing.push_back(stream);
            stream->last = {op.event->node};
            return kSuccess;
        }
        stream->ops.push_back(std::move(op));
        return kSuccess;
    }
    Graph &graph = *stream->capture;
    if (op.kind == Kind::kRecord) {
        op.event->graph = &graph;
        // A node that does nothing would be the same; here the event is the last node, or nothing at the beginning.
        op.event->node = stream->last.empty() ? SIZE_MAX : stream->last.back();
        return kSuccess;
    }
    if (op.kind == Kind::kWait) {
        if (op.event->graph != &graph) return kInvalidValue;
        if (op.event->node != SIZE_MAX) stream->last.push_back(op.event->node);
        return kSuccess;
    }
    for (const std::size_t before : stream->last)
        if (before != SIZE_MAX) op.after.push_back(before);
    graph.nodes.push_back(std::move(op));
    stream->last = {graph.nodes.size() - 1};
    return kSuccess;
}

}  // namespace

extern "C" {

// --- the test's side

void fake_open() { gpu = new Gpu; }

void fake_close() {
    gpu->over.store(true);
    gpu->thread.join();
    delete gpu;
    gpu = nullptr;
}

void *fake_function(std::int64_t number, std::int64_t block_ns, std::uint32_t wave, std::int32_t argument, int fails) {
    return new Function{block_ns, wave ? wave : 1, argument, fails, number};
}

void fake_free_function(void *function) { delete static_cast<Function *>(function); }

// Moves the log of kernels that have ended out; returns how many there were.
std::size_t fake_log(Logged *to, std::size_t most) {
    std::lock_guard<std::mutex> held(gpu->mutex);
    const std::size_t count = std::min(most, gpu->log.size());
    if (count) std::memcpy(to, gpu->log.data(), count * sizeof(Logged));
    gpu->log.erase(gpu->log.begin(), gpu->log.begin() + count);
    return count;
}

// --- the driver's side

int cuCtxSetCurrent(void *context) { return context ? kSuccess : 201; }

int cuStreamCreateWithPriority(void **stream, unsigned, int priority) {
    Stream *made = new Stream{};
    made->priority = priority;
    std::lock_guard<std::mutex> held(gpu->mutex);
    gpu->streams.push_back(made);
    *stream = made;
    return kSuccess;
}

int cuStreamDestroy_v2(void *handle) {
    std::lock_guard<std::mutex> held(gpu->mutex);
    for (std::size_t at = 0; at < gpu->streams.size(); ++at)
        if (gpu->streams[at] == handle) {
            gpu->streams.erase(gpu->streams.begin() + at);
            delete static_cast<Stream *>(handle);
            return kSuccess;
        }
    return kInvalidHandle;
}

int cuStreamQuery(void *handle) {
    if (const int code = gpu->failed.load()) return code;
    std::lock_guard<std::mutex> held(gpu->mutex);
    return static_cast<Stream *>(handle)->ops.empty() ? kSuccess : kNotReady;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned) {
    Op op;
    op.kind = Kind::kWait;
    op.event = static_cast<Event *>(event);
    return put(static_cast<Stream *>(stream), op);
}

int cuStreamWriteValue32_v2(void *stream, std::uint64_t address, std::uint32_t value, unsigned flags) {
    if (flags) return kInvalidValue;
    Op op;
    op.kind = Kind::kWrite;
    op.word = reinterpret_cast<std::uint32_t *>(address);
    op.value = value;
    return put(static_cast<Stream *>(stream), op);
}

int cuMemsetD32Async(std::uint64_t address, unsigned value, std::size_t count, void *stream) {
    return count == 1 ? cuStreamWriteValue32_v2(stream, address, value, 0) : kInvalidValue;
}

int cuLaunchKernel(
    void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned, unsigned, unsigned, unsigned,
    void *stream, void **arguments, void **) {
    Function *function = static_cast<Function *>(handle);
    Op op;
    op.kind = Kind::kKernel;
    op.function = function;
    op.logged = {function->number, 0, 0, 0, 0, std::int64_t(grid_x) * grid_y * grid_z, 0, 0};
    op.logged.blocks = op.logged.count;
    if (function->argument >= 0) {
        std::uint32_t part[2];
        std::memcpy(part, static_cast<char *>(arguments[function->argument]) + 24, sizeof part);
        op.logged.first = part[0];
        op.logged.count = part[1];
    }
    const std::int64_t waves = (op.logged.count + function->wave - 1) / function->wave;
    op.lasts_ns = function->block_ns < 0 ? -1 : waves * function->block_ns;
    op.logged.priority = static_cast<Stream *>(stream)->priority;
    return put(static_cast<Stream *>(stream), op);
}

int cuEventCreate(void **event, unsigned) {
    *event = new Event;
    return kSuccess;
}

int cuEventDestroy_v2(void *event) {
    delete static_cast<Event *>(event);
    return kSuccess;
}

int cuEventRecord(void *event, void *stream) {
    Op op;
    op.kind = Kind::kRecord;
    op.event = static_cast<Event *>(event);
    return put(static_cast<Stream *>(stream), op);
}

int cuEventQuery(void *handle) {
    ++gpu->calls;
    if (const int code = gpu->failed.load()) return code;
    std::lock_guard<std::mutex> held(gpu->mutex);
    const Event *event = static_cast<Event *>(handle);
    return event->done == event->recorded ? kSuccess : kNotReady;
}

int cuEventElapsedTime(float *ms, void *start, void *end) {
    std::lock_guard<std::mutex> held(gpu->mutex);
    *ms = static_cast<float>((static_cast<Event *>(end)->done_ns - static_cast<Event *>(start)->done_ns) / 1e6);
    return kSuccess;
}

int cuStreamBeginCapture_v2(void *handle, int) {
    std::lock_guard<std::mutex> held(gpu->mutex);
    Stream *stream = static_cast<Stream *>(handle);
    if (stream->capture) return kInvalidValue;
    stream->capture = new Graph;
    stream->capture->capturing = {stream};
    stream->last.clear();
    return kSuccess;
}

int cuStreamEndCapture(void *handle, void **graph) {
    std::lock_guard<std::mutex> held(gpu->mutex);
    Stream *stream = static_cast<Stream *>(handle);
    Graph *made = stream->capture;
    if (!made) return kInvalidValue;
    std::vector<bool> reached(made->nodes.size(), false);
    std::vector<std::size_t> left = stream->last;
    while (!left.empty()) {
        const std::size_t at = left.back();
        left.pop_back();
        if (at == SIZE_MAX || reached[at]) continue;
        reached[at] = true;
        left.insert(left.end(), made->nodes[at].after.begin(), made->nodes[at].after.end());
    }
    for (Stream *each : made->capturing) {
        each->capture = nullptr;
        each->last.clear();
    }
    for (const bool each : reached)
        if (!each) {
            delete made;
            return kUnjoined;
        }
    *graph = made;
    return kSuccess;
}

int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    if (flags) return kInvalidValue;
    *made = new Graph(*static_cast<Graph *>(graph));
    return kSuccess;
}

int cuGraphLaunch(void *graph, void *stream) {
    Op op;
    op.kind = Kind::kGraph;
    op.graph = static_cast<Graph *>(graph);
    return put(static_cast<Stream *>(stream), op);
}

int cuGraphDestroy(void *graph) {
    delete static_cast<Graph *>(graph);
    return kSuccess;
}

int cuGraphExecDestroy(void *graph) {
    delete static_cast<Graph *>(graph);
    return kSuccess;
}

int cuMemHostAlloc(void **words, std::size_t bytes, unsigned) {
    *words = new char[bytes];
    return kSuccess;
}

int cuMemHostGetDevicePointer_v2(std::uint64_t *address, void *words, unsigned) {
    *address = reinterpret_cast<std::uint64_t>(words);  // as everywhere with unified addresses
    return kSuccess;
}

int cuMemFreeHost(void *words) {
    delete[] static_cast<char *>(words);
    return kSuccess;
}
}
