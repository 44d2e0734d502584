#!/bin/bash
# build-gdrcopy.sh VERSION: GDRCopy's library and programs in /opt/gdrcopy; its kernel module is the host's.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/gdrcopy/lib
is_none "$1" GDRCopy && exit
fetch "https://github.com/NVIDIA/gdrcopy/archive/$(tag "$1").tar.gz" /tmp/gdrcopy
make --directory /tmp/gdrcopy prefix=/opt/gdrcopy CUDA=/usr/local/cuda lib exes lib_install exes_install
