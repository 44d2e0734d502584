#!/bin/bash
# build-nccl-tests.sh VERSION CAPABILITIES MPI: NVIDIA's nccl-tests in /opt/nccl-tests/nvidia, against /opt/nccl and
# an MPI; the names below /opt/nccl-tests/build are busbw's front doors.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/nccl-tests
is_none "$1" nccl-tests && exit
fetch "https://github.com/NVIDIA/nccl-tests/archive/$(tag "$1").tar.gz" /tmp/nccl-tests
make --directory /tmp/nccl-tests --jobs "$(nproc)" MPI=1 MPI_HOME="$3" NCCL_HOME=/opt/nccl/build \
  CUDA_HOME=/usr/local/cuda NVCC_GENCODE="$(gencode "$2")"
mkdir /opt/nccl-tests/nvidia
cp /tmp/nccl-tests/build/*_perf /opt/nccl-tests/nvidia/
