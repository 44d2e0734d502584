#!/bin/bash
# install-nvidia.sh CUDA CUDNN DCGM: packages of NVIDIA's repository, which its CUDA images have set up.
set -e
. "$(dirname "$0")/lib.sh"

major=${1%%.*}
if ! is_none "$2" cuDNN; then
  cudnn=$(number "$2")
  name=libcudnn${cudnn%%.*}
  packages "$name-cuda-$major=$cudnn" "$name-dev-cuda-$major=$cudnn" "$name-headers-cuda-$major=$cudnn"
  apt-mark hold "$name-cuda-$major"
fi
dcgm=$(number "$3")
is_none "$3" DCGM || packages "datacenter-gpu-manager-${dcgm%%.*}-cuda$major"
