# What a host says of a job that may hang: NCCL's RAS at ADDRESS, then the kernel of each process id.
# bash ADDRESS PID...; ADDRESS may be -, for none. An answer begins with a line "##busbw KIND".
address=$1
shift
commands='CLIENT PROTOCOL 2\nTIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n'

# All processes of a user on a host listen on one port: a connection may come to a stopped one, which never
# answers, or to another job. So several times, each from a new port of ours.
ask() {
  for _ in 1 2 3 4; do
    printf '\n##busbw ras\n'
    # shellcheck disable=SC2016 # the inner shell's own
    timeout 12 bash -c 'exec 3<>"/dev/tcp/$1/$2" || exit; printf "$3" >&3
      read -r -t 2 -u 3 line && echo "$line" && timeout 10 cat <&3' _ "${address%:*}" "${address##*:}" "$commands" 2>/dev/null
  done
}

[ "$address" = - ] || ask
for pid; do
  printf '\n##busbw process %s\n' "$pid"
  [ -r "/proc/$pid/stat" ] || continue
  # State is the letter after the name, which may hold anything.
  sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null
  printf 'command '
  tr '\0\n' '  ' <"/proc/$pid/cmdline" 2>/dev/null
  printf '\nwaits_in '
  cat "/proc/$pid/wchan" 2>/dev/null
  printf '\n'
  command -v py-spy >/dev/null && timeout 10 py-spy dump --nonblocking --pid "$pid" 2>/dev/null | sed 's/^/stack /'
done
printf '\n##busbw end\n'
