# Shared by the scripts of the recipes, which read it with `.`. bash.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

packages() { # packages NAME...: from the distribution's and the base image's repositories
  apt-get update -qq
  apt-get install -qq --no-install-recommends "$@" >/dev/null
  apt-get clean
  rm -rf /var/lib/apt/lists/*
}

fetch() { # fetch URL FOLDER: an archive, unpacked without its own top folder
  mkdir -p "$2"
  curl --fail --silent --show-error --location --retry 5 --retry-delay 2 --output /tmp/fetched "$1"
  tar --extract --auto-compress --file /tmp/fetched --directory "$2" --strip-components 1 --no-same-owner
  rm /tmp/fetched
}

is_none() { # is_none VERSION WHAT: whether a component is to be left out
  [ "$1" = none ] || return 1
  echo "without $2"
}

gencode() { # gencode "80 90": nvcc's flags; PTX of the last one serves what is newer
  local words='' last=''
  for last in $1; do words+=" -gencode=arch=compute_$last,code=sm_$last"; done
  echo "${words# } -gencode=arch=compute_$last,code=compute_$last"
}

libraries() { # libraries NAME FOLDER...: found by the loader wherever a process has lost LD_LIBRARY_PATH
  local name=$1
  shift
  printf '%s\n' "$@" >"/etc/ld.so.conf.d/$name.conf"
  ldconfig
}
