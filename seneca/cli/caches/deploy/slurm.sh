#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0

set -eu
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
port=$((20000 + SLURM_JOB_ID % 20000))
first=$(echo "$nodes" | head -n 1)
SENECA_REMOTE=redis://$(echo "$nodes" | sed "s/\$/:$port/" | paste -sd ,)
SENECA_REMOTE_PASSWORD=$(head -c 24 /dev/urandom | base64 | tr -d '+/=\n')
export SENECA_REMOTE SENECA_REMOTE_PASSWORD

srun --overlap --ntasks-per-node=1 @serve &
servers=$!
trap 'kill "$servers" 2>/dev/null || true' EXIT

srun --overlap --ntasks-per-node=1 torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 8 \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:29500" train.py
