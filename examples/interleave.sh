#!/usr/bin/env bash
# Training in the background of answers that are due, on the simulated AGX Orin: a plan for two networks, where each
# millisecond of it goes, ten minutes of it, a power budget that is cut meanwhile, and four tenants from a file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"

edgetune search zoo:mobilenet_v2 --kind train+infer --background zoo:resnet18 --background-batch 16 --batch-sizes 1,4,8,16 \
  --modes grid:441 --power-budget 30W --latency-budget 300ms --arrival-rate 40/s --device twin:orin-agx --quiet -o plan.yaml
edgetune interleave plan.yaml --device twin:orin-agx --explain --quiet
echo
edgetune interleave plan.yaml --device twin:orin-agx --duration 10m --arrivals poisson:40 -o run.parquet
echo
edgetune interleave plan.yaml --device twin:orin-agx --duration 3m --power-budget 30W,20W@60s,28W@120s --adapt \
  --modes grid:441 -o adapted.parquet
echo
edgetune interleave "$here/tenants.yaml" --device twin:orin-agx --duration 1m -o tenants.parquet
echo
edgetune interleave plan.yaml --device twin:orin-agx --arrivals uniform:400 -o never.parquet || echo "ended with $?"
