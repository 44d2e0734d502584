#!/bin/bash
# install-nvidia.sh CUDA CUDNN DCGM: packages of NVIDIA's repository, which its CUDA images have set up.
set -e
. "$(dirname "$0")/lib.sh"

major=${1%%.*}
if ! is_none "$2" cuDNN; then
  name=libcudnn${2%%.*}
  packages "$name-cuda-$major=$2" "$name-dev-cuda-$major=$2" "$name-headers-cuda-$major=$2"
  apt-mark hold "$name-cuda-$major"
fi
is_none "$3" DCGM || packages "datacenter-gpu-manager-${3%%.*}-cuda$major"
