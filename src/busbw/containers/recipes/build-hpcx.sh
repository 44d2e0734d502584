#!/bin/bash
# build-hpcx.sh VERSION CUDA: HPC-X in /opt/hpcx, with its Open MPI built again for Slurm and the distribution's
# PMIx. Without HPC-X the folder is there, and empty.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/hpcx
is_none "$1" HPC-X && exit
. /etc/os-release
name=hpcx-v$1-gcc-doca_ofed-ubuntu$VERSION_ID-cuda$2-$(uname -m)
fetch "https://content.mellanox.com/hpc/hpc-x/v$1/$name.tbz" /opt/hpcx
# It was built in a folder of its maker's, which stands in files for pkg-config, libtool and CMake.
grep --recursive --files-with-matches --binary-files=without-match "/build-result/$name" /opt/hpcx |
  xargs --no-run-if-empty sed --in-place "s:/build-result/$name:/opt/hpcx:g"
sources=
for file in /opt/hpcx/sources/openmpi-gitclone.tar.gz /opt/hpcx/sources/openmpi4-gitclone.tar.gz; do
  if [ -f "$file" ]; then sources=$file; fi
done
mkdir /tmp/openmpi
tar --extract --file "${sources:?HPC-X has no source of Open MPI 4}" --directory /tmp/openmpi --strip-components 1
rm -rf /opt/hpcx/ompi /opt/hpcx/ompi4 /opt/hpcx/ompi5 /opt/hpcx/sources
bash "$(dirname "$0")/build-openmpi.sh" /tmp/openmpi /opt/hpcx/ompi /opt/hpcx
