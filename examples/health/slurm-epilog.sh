#!/bin/bash
# Epilog= of slurm.conf: after every job, one check of the node's GPUs. A node that is bad is drained, with the
# check's line as the reason; one that cannot be decided stays.
export BUSBW_HOME=${BUSBW_HOME:-/var/lib/busbw}  # the history of this node
export BUSBW_LAUNCHER=none                       # the job's variables are no launch of ours

line=$(timeout 110 busbw check --prometheus /var/lib/node_exporter/busbw.prom 2>/dev/null)
if [ $? -eq 1 ]; then
  scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="${line:-busbw check failed}"
fi
exit 0
