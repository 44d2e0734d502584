#!/bin/bash
# install-busbw.sh PYTHON: a Python and the wheel of dist/ in /opt/busbw. The base's Python is taken from 3.11 on;
# else uv brings PYTHON into /opt/busbw-python.
set -e
. "$(dirname "$0")/lib.sh"

packages ca-certificates python3 python3-venv
mkdir -p /opt/busbw-python
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  python3 -m venv /opt/busbw
else
  python3 -m venv /tmp/uv
  /tmp/uv/bin/pip install --quiet --no-cache-dir uv
  UV_PYTHON_INSTALL_DIR=/opt/busbw-python /tmp/uv/bin/uv venv --seed --managed-python \
    --python "$1" /opt/busbw
  rm -rf /tmp/uv ~/.cache/uv
fi
/opt/busbw/bin/python -m pip install --quiet --no-cache-dir "$(dirname "$0")"/dist/busbw-*_"$(uname -m)".whl
