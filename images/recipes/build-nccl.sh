#!/bin/bash
# build-nccl.sh VERSION CAPABILITIES: NCCL in /opt/nccl/build, where job files of the kits look for it.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/nccl/build/lib
is_none "$1" NCCL && exit
fetch "https://github.com/NVIDIA/nccl/archive/$(nccl_tag "$1").tar.gz" /tmp/nccl
make --directory /tmp/nccl --jobs "$(nproc)" src.build CUDA_HOME=/usr/local/cuda \
  BUILDDIR=/opt/nccl/build NVCC_GENCODE="$(gencode "$2")"
rm -rf /opt/nccl/build/obj
