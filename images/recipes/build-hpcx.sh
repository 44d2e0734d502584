#!/bin/bash
# build-hpcx.sh DISTRIBUTION: HPC-X, such as hpcx-v2.26-gcc-doca_ofed-ubuntu24.04-cuda13, in /opt/hpcx, with its
# Open MPI built again for Slurm and the distribution's PMIx. Without HPC-X the folder has only an empty ompi/.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/hpcx/ompi
is_none "$1" HPC-X && exit
version=${1#hpcx-}
name=$1-$(uname -m)
fetch "https://content.mellanox.com/hpc/hpc-x/${version%%-*}/$name.tbz" /opt/hpcx
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
