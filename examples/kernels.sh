#!/usr/bin/env bash
# A critical network and two others on a model of an AGX Orin's GPU, kernel by kernel: in order, on streams of unlike
# priority, with barriers between streams, and in pieces that fit into what the critical kernels leave.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"

edgetune schedule kernels simulate "$here/kernels.yaml" --dry-run
echo
edgetune schedule kernels simulate "$here/kernels.yaml" --policy sequential,multistream,barrier,elastic -o kernels.parquet
