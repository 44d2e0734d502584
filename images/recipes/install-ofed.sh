#!/bin/bash
# install-ofed.sh VERSION: the user space of InfiniBand, of MLNX_OFED's repository or the distribution's.
set -e
. "$(dirname "$0")/lib.sh"

is_none "$1" "the user space of InfiniBand" && exit
if [ "$1" != distro ]; then
  . /etc/os-release
  packages ca-certificates curl gnupg
  from=https://linux.mellanox.com/public/repo/mlnx_ofed/$1
  key=/usr/share/keyrings/mellanox.gpg
  curl --fail --silent --show-error --location https://www.mellanox.com/downloads/ofed/RPM-GPG-KEY-Mellanox |
    gpg --dearmor --output "$key"
  echo "deb [signed-by=$key] $from/ubuntu$VERSION_ID/$(uname -m) ./" >/etc/apt/sources.list.d/mlnx_ofed.list
fi
packages ibverbs-providers ibverbs-utils infiniband-diags libibumad-dev libibumad3 libibverbs-dev librdmacm-dev rdmacm-utils
