#!/usr/bin/env bash
# What a device can do, and three of its power modes.
set -euo pipefail
edgetune device twin:orin-agx
echo
edgetune device modes twin:orin-agx gpu_mhz=318:1300:3,mem_mhz=3199
