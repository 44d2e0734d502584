# What a host says of a job that may hang. An answer begins with a line "##busbw KIND".
# bash ras ADDRESS TIMES: NCCL's RAS there. bash host PID...: the host's links and kernel log, and these processes.
commands='CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n'
stack_signal=60

# All processes of a user on a host listen on one port: a connection may come to a stopped one, which never
# answers, or to another job. So several times, each from a new port of ours, until TIMES answers are there.
ras() {
  local host=${1%:*} left=$2
  host=${host#[} host=${host%]}
  for _ in 1 2 3 4; do
    printf '\n##busbw ras\n'
    # shellcheck disable=SC2016 # the inner shell's own
    timeout 12 bash -c 'exec 3<>"/dev/tcp/$1/$2" || exit; printf "$3" >&3
      read -r -t 1 -u 3 line && echo "$line" && timeout 10 cat <&3' _ "$host" "${1##*:}" "$commands" 2>/dev/null &&
      left=$((left - 1))
    ((left)) || return
  done
}

counters() {
  printf '\n##busbw counters\n'
  grep -sH '' /sys/class/net/*/statistics/{[rt]x_bytes,[rt]x_dropped,rx_errors} \
    /sys/class/infiniband/*/ports/*/{counters,hw_counters}/* /sys/class/cxi/*/device/telemetry/hni_sts_?x_ok_octets
  grep '^Tcp:' /proc/net/snmp 2>/dev/null
}

# It takes its time, so it comes last: who waits no longer has the rest.
nvlinks() {
  command -v nvidia-smi >/dev/null || return
  printf '\n##busbw counters\n'
  timeout 5 nvidia-smi nvlink -gt d 2>/dev/null
  timeout 5 nvidia-smi nvlink -e 2>/dev/null
}

# A rank of busbw writes its Python stack into a file in memory, at a signal that ends any other process.
ask_stack() {
  find "/proc/$1/fd" -lname '/memfd:busbw-stack*' 2>/dev/null | grep -q . && kill -"$stack_signal" "$1"
}

process() {
  printf '\n##busbw process %s\n' "$1"
  [ -r "/proc/$1/stat" ] || return
  # State is the letter after the name, which may hold anything.
  sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null
  printf 'command '
  tr '\0\n' '  ' <"/proc/$1/cmdline" 2>/dev/null
  printf '\nwaits_in '
  cat "/proc/$1/wchan" 2>/dev/null
  printf '\n'
  sed 's/^\[<[0-9a-f]*>\] /kernel /' "/proc/$1/stack" 2>/dev/null
  # Of its sockets those with bytes that the other end has not taken.
  grep -hwFf <(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n') \
    "/proc/$1/net/tcp" "/proc/$1/net/tcp6" 2>/dev/null | grep -v ' 00000000:' | sed 's/^/tcp /'
  if file=$(find "/proc/$1/fd" -lname '/memfd:busbw-stack*' 2>/dev/null | grep -m1 .); then
    sed 's/^/python /' "$file" 2>/dev/null
  elif command -v py-spy >/dev/null; then
    timeout 10 py-spy dump --nonblocking --pid "$1" 2>/dev/null | sed 's/^/py-spy /'
  fi
}

host() {
  for pid; do ask_stack "$pid"; done
  counters
  sleep 1
  counters
  printf '\n##busbw log\n'
  timeout 5 dmesg 2>/dev/null | grep 'NVRM: Xid' | tail -n 3
  for pid; do process "$pid"; done
  nvlinks
  nvlinks
}

"$@"
printf '\n##busbw end\n'
