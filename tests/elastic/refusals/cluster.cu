__global__ void __cluster_dims__(2, 1, 1) pairs(float *x) {
    x[blockIdx.x] = clusterIdx.x;
}
