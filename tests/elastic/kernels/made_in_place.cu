// A constructor behind a macro for its specifiers; a type of a template that is made in an expression.
// launch made_in_place grid=5 block=16 y=int32[160]:zero x=int32[80]
#define HD __host__ __device__
#define FN HD inline
struct Pair {
    int a, b;
    HD Pair() {}
    HD Pair(int x) : a(x), b(x * 3) {}
    FN int sum() const { return a + b; }
};
template <typename T> struct Of {
    struct Box { T v; HD Box(T x) : v(x) {} };
};
template <typename T> HD typename Of<T>::Box boxed(T x) { return typename Of<T>::Box(x); }
HD int unused(int x) { return x; }

__global__ void made_in_place(int *y, const int *x) {
    Pair pair(threadIdx.x);
    __shared__ int s[16];
    s[threadIdx.x] = x[blockIdx.x * 16 + threadIdx.x] + boxed(blockIdx.x).v;
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = s[15 - threadIdx.x] + pair.sum();
    y[blockIdx.x * 32 + 16 + threadIdx.x] = Of<int>::Box(pair.a).v;
}
