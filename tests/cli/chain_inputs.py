"""Small inputs for commands: a plan, costs and jobs, kernel tasks, a table, a kernel, networks, a training file."""

from pathlib import Path

PLAN = """kind: plan
version: 1
created: 2026-01-02T03:04:05Z
tool: edgetune 0.1.0
inputs: {background: {name: resnet18}, workload: {name: mobilenet_v2}}
conditions: {device: twin:orin-agx, simulated: true}
problem: {kind: train+infer, power_budget_w: 40.0, latency_budget_s: 0.3, arrival_rate_per_s: 40.0}
configuration:
  mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 624.75, mem_mhz: 2133}
  infer_batch_size: 8
  train_batch_size: 16
  train_minibatches: 1
measured: {}
search: {strategy: exhaustive, points_measured: 1, seed: 0, known_points: 0}
"""
COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s
faces,conv1,conv,1000000,100000,0.010,0.020
faces,fc6,fc,30000000,1000,0.300,0.010
"""
JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: batch, count: 3}]
"""
TASKS = """kind: kernel_tasks
version: 1
gpu: orin-nano
policy: multistream
duration: 5ms
tasks:
- {name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}
- {name: normal, network: small}
networks:
  small: {calls: [{kernel: a, grid: [6], block: [256], flop_per_block: 2e6, bytes_per_block: 64KiB}]}
"""
GPU_NETWORK = """
    source: scale.cu
    buffers: {x: {shape: [1000], role: input}, y: {shape: [1000], role: output}}
    calls: [{kernel: scale, grid: [8], block: [128], arguments: [x, y, {int: 1000}]}]
"""
GPU_TASKS = f"""kind: kernel_tasks
version: 1
policy: elastic
duration: 20ms
tasks:
- {{name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}}
- {{name: normal, network: large}}
networks:
  small:{GPU_NETWORK}
  large:{GPU_NETWORK}
"""
"""Two tasks of one small kernel of ``scale.cu``, for commands that run on a GPU."""
TABLE = "device,workload,task,batch_size,gpu_mhz,mem_mhz,minibatch_s,power_w\n" + "".join(
    f"board,net,train,16,{gpu},{mem},{60 / gpu + 8 / mem},{8 + (gpu / 400) ** 2 + mem / 600}\n"
    for gpu in (300, 600, 900) for mem in (600, 2100)
)  # fmt: skip
TRAINING = """
import time
steps = []

def make(batch_size):
    def step():
        time.sleep(0.004)
        steps.append(batch_size)
        return 1.0 / len(steps)
    step.save = lambda path: open(path, "w").write(str(len(steps)))
    return step
"""
KERNEL = "__global__ void scale(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2.0f; }\n"


def write_inputs(folder: Path) -> None:
    """Write all of them into a folder."""
    import onnx
    from onnx import TensorProto, helper

    more = TABLE.replace(",16,", ",32,")
    files = {
        "more.csv": more,
        "plan.yaml": PLAN,
        "costs.csv": COSTS,
        "jobs.yaml": JOBS,
        "tasks.yaml": TASKS,
        "table.csv": TABLE,
    }
    for name, text in {**files, "scale.cu": KERNEL}.items():
        (folder / name).write_text(text)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16]) for name in "xy")
    weights = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], [0.1] * 256)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "tiny.onnx")


def small_network(folder: Path) -> Path:
    """Write small.onnx, two products of a vector with a matrix, and train.py; return the folder."""
    import onnx
    from onnx import TensorProto, helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.01] * 64 * 64)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "small", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "small.onnx")
    (folder / "train.py").write_text(TRAINING)
    return folder
