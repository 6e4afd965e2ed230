// Random numbers for the CPU: functions and states of curand_kernel.h, the numbers other ones than cuRAND's.
// Every generator is splitmix64 (Steele, Lea and Flood 2014), begun at a place made of seed and sequence.
// Source of the names: cuRAND Library, "Device API".
#pragma once

template <int generator>
struct alignas(8) edgetune_random {
    unsigned long long place;
    unsigned long long unused[5];  // a curandState of cuRAND has 48 bytes
};

typedef edgetune_random<0> curandStateXORWOW_t, curandStateXORWOW, curandState_t, curandState;
typedef edgetune_random<1> curandStatePhilox4_32_10_t, curandStatePhilox4_32_10;
typedef edgetune_random<2> curandStateMRG32k3a_t, curandStateMRG32k3a;
typedef edgetune_random<3> curandStateSobol32_t, curandStateSobol32;
typedef edgetune_random<4> curandStateSobol64_t, curandStateSobol64;
typedef edgetune_random<5> curandStateScrambledSobol32_t, curandStateScrambledSobol32;
typedef edgetune_random<6> curandStateScrambledSobol64_t, curandStateScrambledSobol64;
typedef unsigned int curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

#define EDGETUNE_RANDOM template <int generator> static inline
#define EDGETUNE_STATE edgetune_random<generator> *state

EDGETUNE_RANDOM unsigned long long edgetune_draw(EDGETUNE_STATE) {
    unsigned long long z = state->place += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
EDGETUNE_RANDOM void skipahead(unsigned long long count, EDGETUNE_STATE) { state->place += count * 0x9e3779b97f4a7c15ull; }
EDGETUNE_RANDOM void skipahead_sequence(unsigned long long count, EDGETUNE_STATE) { skipahead(count << 40, state); }
EDGETUNE_RANDOM void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                 EDGETUNE_STATE) {
    state->place = seed;
    state->place = edgetune_draw(state) + sequence;
    state->place = edgetune_draw(state);
    skipahead(offset, state);
}
template <int generator, class Vector>
static inline void curand_init(Vector *directions, unsigned int offset, EDGETUNE_STATE) {
    curand_init(directions[0] ^ static_cast<unsigned long long>(directions[1]) << 32, directions[2], offset, state);
}
template <int generator, class Vector>
static inline void curand_init(Vector *directions, unsigned long long scramble, unsigned int offset, EDGETUNE_STATE) {
    curand_init(directions[0] ^ static_cast<unsigned long long>(directions[1]) << 32, scramble, offset, state);
}

EDGETUNE_RANDOM unsigned int curand(EDGETUNE_STATE) { return static_cast<unsigned int>(edgetune_draw(state) >> 32); }
EDGETUNE_RANDOM float curand_uniform(EDGETUNE_STATE) { return ((curand(state) >> 8) + 1) / 16777216.0f; }
EDGETUNE_RANDOM double curand_uniform_double(EDGETUNE_STATE) { return (curand(state) + 1.0) / 4294967296.0; }
EDGETUNE_RANDOM float2 curand_normal2(EDGETUNE_STATE) {  // Box and Muller 1958
    const float radius = sqrtf(-2.0f * logf(curand_uniform(state))), angle = 6.2831853f * curand_uniform(state);
    return {radius * sinf(angle), radius * cosf(angle)};
}
EDGETUNE_RANDOM double2 curand_normal2_double(EDGETUNE_STATE) {
    const double radius = sqrt(-2.0 * log(curand_uniform_double(state)));
    const double angle = 6.283185307179586 * curand_uniform_double(state);
    return {radius * sin(angle), radius * cos(angle)};
}
EDGETUNE_RANDOM float curand_normal(EDGETUNE_STATE) { return curand_normal2(state).x; }
EDGETUNE_RANDOM double curand_normal_double(EDGETUNE_STATE) { return curand_normal2_double(state).x; }
EDGETUNE_RANDOM float curand_log_normal(EDGETUNE_STATE, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
EDGETUNE_RANDOM double curand_log_normal_double(EDGETUNE_STATE, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state));
}
EDGETUNE_RANDOM unsigned int curand_poisson(EDGETUNE_STATE, double mean) {  // Knuth, The Art of Computer Programming, 3.4.1
    unsigned int count = 0;
    for (double left = mean + log(curand_uniform_double(state)); left > 0; left += log(curand_uniform_double(state))) ++count;
    return count;
}

// Four at once, in the order of x, y, z, w.
#define EDGETUNE_FOUR(NAME, TYPE, ONE)                                                                                 \
    EDGETUNE_RANDOM TYPE NAME(EDGETUNE_STATE) {                                                                        \
        TYPE four;                                                                                                     \
        four.x = ONE(state);                                                                                           \
        four.y = ONE(state);                                                                                           \
        four.z = ONE(state);                                                                                           \
        four.w = ONE(state);                                                                                           \
        return four;                                                                                                   \
    }
EDGETUNE_FOUR(curand4, uint4, curand)
EDGETUNE_FOUR(curand_uniform4, float4, curand_uniform)
EDGETUNE_FOUR(curand_uniform4_double, double4, curand_uniform_double)
EDGETUNE_FOUR(curand_normal4, float4, curand_normal)
EDGETUNE_FOUR(curand_normal4_double, double4, curand_normal_double)
#undef EDGETUNE_FOUR
#undef EDGETUNE_STATE
#undef EDGETUNE_RANDOM
