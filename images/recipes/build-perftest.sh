#!/bin/bash
# build-perftest.sh REPOSITORY COMMIT CUDA: ib_write_bw and its like in /opt/perftest, for GPU memory too where
# there is a CUDA.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/perftest/bin
is_none "$2" perftest && exit
fetch "https://github.com/$1/archive/$2.tar.gz" /tmp/perftest
cd /tmp/perftest
if [ "${3%%.*}" -ge 13 ]; then # cuCtxCreate takes one more argument from CUDA 13 on
  sed --in-place --regexp-extended 's/cuCtxCreate\(([^,]+),([^,]+),/cuCtxCreate(\1, NULL,\2,/' src/*.c
fi
./autogen.sh
cuda=(CUDA_H_PATH=/usr/local/cuda/include/cuda.h "LDFLAGS=-L/usr/local/cuda/lib64/stubs")
[ -d /usr/local/cuda ] || cuda=()
./configure --prefix=/opt/perftest "${cuda[@]}"
make --jobs "$(nproc)" install
