#!/usr/bin/env bash
# An audit in shards on Slurm, without a scheduler of dpaudit's own:
#
#     examples/cluster/slurm.sh CONFIG OUT SHARDS SEED
#
# Each shard is one task of an array job, and needs nothing but the folder OUT, which all share.
# CPUS (default 4) and MEMORY (default 8G) are those of a shard. A merge that finds further tasks,
# such as those of positive controls, ends with exit code 3; the next round runs them. A shard that
# was killed goes on where it was. The exit code is that of the audit's gates.
set -uo pipefail

config=$1 out=$2 shards=$3 seed=$4
rounds=8 # a grid, the measures, and at most four mutants of each game

mkdir -p "$out"
for ((round = 1; round <= rounds; round++)); do
    sbatch --wait --array="1-$shards" --cpus-per-task="${CPUS:-4}" --mem="${MEMORY:-8G}" --requeue \
        --output="$out/shard-%a.log" --wrap \
        "dpaudit run '$config' -o '$out' --seed '$seed' --workers \$SLURM_CPUS_PER_TASK \
         --shard \$SLURM_ARRAY_TASK_ID/$shards" || exit 3
    dpaudit merge "$out"
    code=$?
    [ "$code" -eq 3 ] || exit "$code"
done
exit 3
