#!/bin/bash
# build-openmpi.sh SOURCE PREFIX PARTS: Open MPI 4 with the distribution's PMIx, libevent and hwloc, so that Slurm's
# and its own speak one protocol; with UCX, UCC and HCOLL where PARTS has them, and CUDA where there is one.
set -e
. "$(dirname "$0")/lib.sh"

packages libevent-dev libhwloc-dev libpmix-dev
with=()
for part in ucx ucc hcoll; do
  if [ -d "$3/$part" ]; then with+=("--with-$part=$3/$part"); fi
done
if [ -d /usr/local/cuda ]; then with+=(--with-cuda=/usr/local/cuda); fi
cd "$1"
[ -x configure ] || ./autogen.pl
./configure --prefix="$2" --with-pmix="/usr/lib/$(gcc -print-multiarch)/pmix2" --with-libevent=external \
  --with-hwloc=external --with-slurm --without-xpmem --disable-mpi-fortran "${with[@]}"
make --jobs "$(nproc)" install >/dev/null
