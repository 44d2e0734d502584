#!/bin/bash
# install-efa.sh VERSION FLAGS...: the user space of EFA. Its libraries of RDMA take the place of the distribution's.
set -e
. "$(dirname "$0")/lib.sh"

mkdir -p /opt/amazon
is_none "$1" EFA && exit
version=$(number "$1")
shift
apt-get purge -qq --allow-change-held-packages ibverbs-utils libibverbs-dev libibverbs1 libmlx5-1 || true
apt-get update -qq # the installer takes its dependencies from there
fetch "https://efa-installer.amazonaws.com/aws-efa-installer-$version.tar.gz" /tmp/efa
cd /tmp/efa
./efa_installer.sh "$@"
rm -rf /tmp/efa /var/lib/apt/lists/*
