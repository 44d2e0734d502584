#!/bin/bash
# finish.sh VARIABLE...: what every image ends with. SSH as a runner of MPI, the front doors under the paths of
# nccl-tests, and the named variables in sessions that do not get the image's own (SSH, login shells, sudo).
set -e
. "$(dirname "$0")/lib.sh"

python=()
# A virtual environment needs the Python that it was made with.
/opt/busbw/bin/python -c '' 2>/dev/null || python=(python3)
packages ca-certificates openssh-client openssh-server "${python[@]}"

# Hosts of a job come and go, and have the keys of their image; who may log in is decided by the job's own key.
install -d /etc/ssh/ssh_config.d /etc/ssh/sshd_config.d /run/sshd
printf '%s\n' 'Host *' '  StrictHostKeyChecking no' '  UserKnownHostsFile /dev/null' '  LogLevel ERROR' \
  >/etc/ssh/ssh_config.d/busbw.conf
# A key that is mounted from a secret belongs to others than sshd would have it.
printf '%s\n' 'StrictModes no' 'PermitRootLogin prohibit-password' 'PasswordAuthentication no' \
  >/etc/ssh/sshd_config.d/busbw.conf

assignments=''
for name in "$@"; do
  if [ -n "${!name:-}" ]; then
    assignments+=" $name=${!name}"
    printf 'export %s=%q\n' "$name" "${!name}"
  fi
done >/etc/profile.d/busbw-image.sh
# The first SetEnv is the one that counts.
echo "SetEnv$assignments" >>/etc/ssh/sshd_config.d/busbw.conf
install -d -m 755 /etc/sudoers.d
for name in "$@"; do
  # sudo's own rules about PATH and the loader's variables stay.
  case $name in *PATH*) ;; *) echo "Defaults env_keep += \"$name\"" ;; esac
done >/etc/sudoers.d/busbw-image
chmod 440 /etc/sudoers.d/busbw-image

programs='from busbw.foreign.nccl_tests.flags import PROGRAMS; print(*PROGRAMS)'
mkdir -p /opt/nccl-tests/build
ln -s nccl-tests /opt/nccl_tests
for program in $(/opt/busbw/bin/python -c "$programs"); do
  ln -s /opt/busbw/bin/busbw "/opt/nccl-tests/build/$program"
done
ln -sf /opt/busbw/bin/busbw /usr/local/bin/busbw
