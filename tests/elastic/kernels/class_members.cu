// Members of a class template that are defined outside of it.
// launch members<float> grid=5 block=16 y=float32[80]:zero x=float32[80]
template <class T> class Pair {
public:
    __device__ Pair(T const &x);
    static __device__ Pair made(T x);
    __device__ T sum() const;
    template <int N> __device__ T times() const;
private:
    T a, b;
};
template <class T> inline __device__ Pair<T>::Pair(T const &x) : a(x), b(x * 3) {}
template <class T> inline __device__ Pair<T> Pair<T>::made(T x) { return Pair<T>(x + T(1)); }
template <class T> inline __device__ T Pair<T>::sum() const { return a + b; }
template <class T> template <int N> inline __device__ T Pair<T>::times() const { return sum() * N; }

template <class T> __global__ void members(T *y, const T *x) {
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = Pair<T>::made(x[at]).sum() + Pair<T>(x[at]).template times<2>();
}
template __global__ void members<float>(float *, const float *);
