#!/usr/bin/env bash
# Sweep a simulated board and search the table, in a file; then the same by looking at every mode.
set -euo pipefail
sweep=$(mktemp -d)/sweep.parquet
trap 'rm -r "$(dirname "$sweep")"' EXIT
edgetune profile zoo:resnet18 --task train --batch-sizes 16 --device twin:orin-agx --modes grid:441 --quiet -o "$sweep" 2> /dev/null
for strategy in roofline gmd exhaustive; do
    edgetune search - --power-budget 30W --strategy "$strategy" < "$sweep" 2> /dev/null | sed -n '/^problem/,$p'
done
