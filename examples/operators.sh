#!/usr/bin/env bash
# What the operators of a network cost, from its graph alone; then a simulated board runs that table. Any table of
# operators will do, also for a training file, whose graph nobody can see: here one that only bears the network's name.
set -euo pipefail
training=$(realpath "$(dirname "$0")/train_tiny.py")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
edgetune roofline ops zoo:resnet18 --task train --batch-size 16 --by class -o ops.parquet
echo
cp "$training" resnet18.py
edgetune search resnet18.py --task train --ops ops.parquet --device twin:orin-agx --modes gpu_mhz=114:1301 \
    --power-budget 30W --quiet | sed -n '/^configuration/,/^measured/p'
