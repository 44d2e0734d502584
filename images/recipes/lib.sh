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
  curl --fail --silent --show-error --location --retry 5 --retry-delay 2 --output /tmp/fetched "$1" || {
    echo "cannot fetch $1; hint: look up how its maker spells that version" >&2
    return 1
  }
  tar --extract --auto-compress --file /tmp/fetched --directory "$2" --strip-components 1 --no-same-owner
  rm /tmp/fetched
}

is_none() { # is_none VERSION WHAT: whether a component is to be left out
  [ "$1" = none ] || return 1
  echo "without $2"
}

number() { # number VERSION: without the v and the CUDA that some makers write: v2.30.4-1+cuda13.0 is 2.30.4-1
  local plain=${1%%+cuda*}
  case $plain in
    [vV][0-9]*) echo "${plain:1}" ;;
    *) echo "$plain" ;;
  esac
}

tag() { # tag VERSION: as its maker names it: 2.30.4-1 is v2.30.4-1; branches and commits stay
  local plain
  plain=$(number "$1")
  case $plain in
    [0-9]*.*) echo "v$plain" ;;
    *) echo "$plain" ;;
  esac
}

nccl_tag() { # nccl_tag VERSION: NCCL's tags count packages too: 2.30.4 is v2.30.4-1
  local found
  found=$(tag "$1")
  case $found in
    v*-*) echo "$found" ;;
    v[0-9]*.[0-9]*) echo "$found-1" ;;
    *) echo "$found" ;;
  esac
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
