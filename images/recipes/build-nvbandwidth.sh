#!/bin/bash
# build-nvbandwidth.sh VERSION CAPABILITIES: nvbandwidth in /opt/nvbandwidth/bin.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/nvbandwidth/bin
is_none "$1" nvbandwidth && exit
packages cmake libboost-program-options-dev
fetch "https://github.com/NVIDIA/nvbandwidth/archive/$(tag "$1").tar.gz" /tmp/nvbandwidth
cd /tmp/nvbandwidth
cmake -DCMAKE_CUDA_ARCHITECTURES="${2// /;}" -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc .
make --jobs "$(nproc)" nvbandwidth
install nvbandwidth /opt/nvbandwidth/bin/
