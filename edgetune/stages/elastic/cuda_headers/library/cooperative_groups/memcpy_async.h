// Copies by all threads of a group: each thread copies its own bytes when it is asked for, and waiting is a meeting.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class Group, class T, class Bytes>
static inline __device__ void memcpy_async(const Group &group, T *to, const T *from, Bytes bytes) {
    char *target = reinterpret_cast<char *>(to);
    const char *source = reinterpret_cast<const char *>(from);
    for (size_t at = group.thread_rank(); at < static_cast<size_t>(bytes); at += group.size()) target[at] = source[at];
}

// Elements of a layout: as many as both hold.
template <class Group, class T>
static inline __device__ void memcpy_async(const Group &group, T *to, size_t room, const T *from, size_t count) {
    memcpy_async(group, to, from, (room < count ? room : count) * sizeof(T));
}

template <class Group>
static inline __device__ void wait(const Group &group) { group.sync(); }

}  // namespace cooperative_groups
