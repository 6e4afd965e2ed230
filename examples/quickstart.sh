#!/usr/bin/env bash
# From nothing to a plan: makes an environment, measures real networks on this machine, sweeps a simulated board,
# and searches it. Needs Python 3.10 with venv; takes a few minutes. Everything lands in one folder:
#     ./examples/quickstart.sh [FOLDER]      (default: quickstart in the current folder)
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-quickstart}
mkdir -p "$folder"
cd "$folder"

say() { printf '\n== %s\n' "$*"; }

say "an environment of its own"
python3 -m venv venv
install=(venv/bin/python -m pip install --quiet --prefer-binary)
"${install[@]}" torch==2.13.0
"${install[@]}" "$repository[ort,torch]"
export PATH="$PWD/venv/bin:$PATH"
edgetune doctor

say "a real ONNX network, measured on this machine"
edgetune zoo export mobilenet_v3_large -o mobilenet.onnx
edgetune profile mobilenet.onnx --task infer --batch-sizes 1,4 --device host -o mobilenet.parquet

say "a real PyTorch training step, measured on this machine"
edgetune profile "$repository/examples/train_tiny.py" --task train --batch-sizes 16,64 --device host -o tiny.parquet

say "441 power modes of a Jetson AGX Orin, simulated"
edgetune profile zoo:resnet18 --task train --batch-sizes 16 --device twin:orin-agx --modes grid:441 -o sweep.parquet

say "the fastest mode within 30 W, from at most 10 measurements"
edgetune search sweep.parquet --power-budget 30W --strategy gmd -o plan.yaml
cat plan.yaml
