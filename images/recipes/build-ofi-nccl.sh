#!/bin/bash
# build-ofi-nccl.sh VERSION: aws-ofi-nccl in /opt/aws-ofi-nccl, against EFA's libfabric; `bundled` is the one that
# the EFA installer has brought.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/aws-ofi-nccl/lib
[ "$1" != bundled ] || exit 0
is_none "$1" aws-ofi-nccl && exit
packages libhwloc-dev
fetch "https://github.com/aws/aws-ofi-nccl/archive/$(tag "$1").tar.gz" /tmp/ofi-nccl
cd /tmp/ofi-nccl
./autogen.sh
./configure --prefix=/opt/aws-ofi-nccl --with-libfabric=/opt/amazon/efa --with-cuda=/usr/local/cuda \
  --enable-platform-aws --disable-tests
make --jobs "$(nproc)" install
