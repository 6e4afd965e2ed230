"""Two tasks of one small kernel, for commands that run on a GPU."""

SOURCE = """
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
NETWORK = """
    source: scale.cu
    buffers: {x: {shape: [1000], role: input}, y: {shape: [1000], role: output}}
    calls: [{kernel: scale, grid: [8], block: [128], arguments: [x, y, {int: 1000}]}]
"""
TASKS = f"""kind: kernel_tasks
version: 1
policy: elastic
duration: 20ms
tasks:
- {{name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}}
- {{name: normal, network: large}}
networks:
  small:{NETWORK}
  large:{NETWORK}
"""
