#!/usr/bin/env bash
# The files for sbatch of docs/runs.md and docs/cluster.md on a real Slurm: munged, slurmctld and slurmd of this machine
# alone, started for this and stopped after it. An array of jobs shares a grid, and one of its jobs is killed; then one
# job trains one model in two processes. Takes a minute or two, as root, with Debian's slurm-wlm and munge.
#
# usage: bench/slurm.sh [RECOLLECT]
set -euo pipefail
recollect=$(realpath "${1:-build/ci/bin/recollect}")
work=$(mktemp -d /tmp/recollect-slurm-XXXXXX)
chmod 755 "$work"
cd "$work"
host=$(hostname -s)
stop() {
    for name in slurmd slurmctld munged; do
        [ ! -s $name.pid ] || kill "$(cat $name.pid)" 2>/dev/null || true
    done
    sleep 1
    rm -rf "$work"
}
trap stop EXIT
fail() { echo "slurm: FAILED: $*" >&2; tail -n 5 slurmctld.log slurmd.log 2>/dev/null >&2; exit 1; }

mkdir state spool
dd if=/dev/urandom of=munge.key bs=1024 count=1 2>/dev/null
chmod 400 munge.key
munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed"
cat >slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$host
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
NodeName=$host CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -f slurm.conf
slurmd -f slurm.conf
for ((i = 0; i < 60; i++)); do
    [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
    sleep 0.5
done
[ "$(sinfo -h -o %T)" = idle ] || fail "the machine is not idle: $(sinfo 2>&1)"
echo "$(slurmd -V): $(sinfo -h -o '%n, %c cores')"

# ---- an array of jobs shares a grid, and one is killed -------------------------------------------------------------------
grid="run demo --data procedural:10 --method finetune,lwf --threads 1 --jobs 1 --set batch=32 --set images_per_class=40
--set epochs=10 --set refine_epochs=0 --set test_per_class=4 --set class_order=seed --set task_sizes=5,5 --orders 0,1,2"
"$recollect" $grid --out one >/dev/null 2>&1
cat >grid.sh <<SH
#!/bin/sh
#SBATCH --cpus-per-task=1 --time=00:10:00 --output=job-%a.txt
exec $recollect $(echo $grid) --out grid --share --lease 2
SH
job=$(sbatch --parsable --array=1-3 grid.sh)
for ((i = 0; i < 200; i++)); do
    [ -n "$(find grid -name '*.lease' 2>/dev/null)" ] && break
    sleep 0.1
done
scancel --signal=KILL --full "${job}_1"
done_with() { # JOB: waits for it
    for ((i = 0; i < 600; i++)); do
        [ -z "$(squeue -h -j "$1" 2>/dev/null)" ] && return
        sleep 0.2
    done
    fail "job $1 does not end: $(squeue)"
}
done_with "$job"
for model in one/order-*/*/task-*.safetensors; do
    cmp "$model" "grid/${model#one/}" || fail "the array of jobs left another $model: $(tail -n 2 job-*.txt)"
done
diff <(cut -d, -f1-6 one/summary.csv) <(cut -d, -f1-6 grid/summary.csv) || fail "another summary"
echo "an array of 3 jobs, one of them killed: the models and the summary of one process"

# ---- every job its part --------------------------------------------------------------------------------------------------
sed 's/--out grid --share.*/--out parts --share --shard slurm/; s/job-%a/part-%a/' grid.sh >parts.sh
job=$(sbatch --parsable --array=1-3 parts.sh)
done_with "$job"
diff <(cut -d, -f1-6 one/summary.csv) <(cut -d, -f1-6 parts/summary.csv) || fail "parts have another summary"
echo "an array of 3 jobs, each with its part: the summary of one process"

# ---- one job, two processes, one model -----------------------------------------------------------------------------------
if srun --mpi=list 2>&1 | grep -q pmix; then
    cat >together.sh <<SH
#!/bin/sh
#SBATCH --ntasks=2 --cpus-per-task=1 --time=00:10:00 --output=together.txt
exec srun --mpi=pmix --kill-on-bad-exit=1 $recollect run demo --data procedural:6 --set size=16 --set task_sizes=4,2 \
    --set images_per_class=12 --set test_per_class=20 --set epochs=2 --set refine_epochs=1 --set batch=16 --method cwd \
    --set inversion_steps=8 --set net_width=4 --set generator_width=8 --threads 1 --out together
SH
    done_with "$(sbatch --parsable together.sh)"
    grep -q "2 processes work together" together.txt || fail "two processes: $(tail -n 5 together.txt)"
    grep "^CwD " together.txt || fail "no result: $(tail -n 5 together.txt)"
else
    echo "this Slurm knows no pmix: one model in several processes was not tried"
fi
