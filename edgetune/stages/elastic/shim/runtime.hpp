// What the two halves of the runtime know of each other: fibers.cpp runs a grid, program.cpp is given what to run.
#pragma once

#include "cuda_shim.hpp"

namespace edgetune_shim {

constexpr size_t page_bytes = 65536;              // a multiple of every page size in use, of 64 KiB kernels too
constexpr unsigned int most_threads = 1024;       // of a block, on every CUDA device
constexpr unsigned int most_resident = 3;         // blocks that run in turns
constexpr size_t most_dynamic_bytes = 227 << 10;  // of a block, on the largest CUDA device

enum Status : int { unfinished, ok, deadlock, mismatched, hang, crash, bad_launch };

// End this sequence of launches: say what happened, and on which line of the source where that is known (else 0).
[[noreturn]] __attribute__((format(printf, 3, 4))) void fail(Status status, int line, const char *format, ...);

// End the program: no result can be given at all.
[[noreturn]] void give_up(const char *what);

enum Order : unsigned int { forward, reverse, shuffled };

struct Schedule {
    Order order;
    unsigned long long random;
    unsigned char pattern;  // what memory of a block is filled with before it begins
};

struct Launch {
    const Entry *kernel;
    void **arguments;
    unsigned int dynamic_bytes;
    volatile unsigned int *control;  // of a persistent form, as in abi.py; else nullptr
    unsigned int rank;               // of the first physical block
    bool quota_changes;              // at moments of chance
};

extern Schedule schedule;
extern Launch launch;

unsigned long long random_number();  // of the schedule

// Start a fiber, which then waits to be a thread; once for each thread that the blocks that run in turns may have.
void prime(unsigned int number);

// Find where the shared memory of the source is.
void find_shared_memory();

// Whether an address that cannot be touched is behind the dynamic shared memory of a block.
bool beside_dynamic_shared(const void *address);

void run_grid(const unsigned int *grid, const unsigned int *block);

}  // namespace edgetune_shim
