#!/bin/bash
# link-ofi-nccl.sh VERSION: the plugin in /opt/aws-ofi-nccl/lib, wherever the EFA installer has put it (its versions
# differ); and what is linked at run time, where the loader finds it.
set -e
. "$(dirname "$0")/lib.sh"

if [ "$1" = bundled ]; then
  plugin=$(find /opt/amazon -name 'libnccl-net*.so' 2>/dev/null | sort | head -n 1)
  : "${plugin:?the EFA installer has brought no aws-ofi-nccl}"
  rmdir /opt/aws-ofi-nccl/lib
  ln -s "$(dirname "$plugin")" /opt/aws-ofi-nccl/lib
fi
libraries busbw-efa /opt/nccl/build/lib /opt/aws-ofi-nccl/lib /opt/amazon/efa/lib /opt/gdrcopy/lib
