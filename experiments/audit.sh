#!/bin/sh
# The audits of the project: pictures go to runs/audit/, what was found to experiments/audits/, from
# where `make docs` takes it. Five minutes on one core.
#
# A share of 0.2 is guessed about: with all canaries the attack on updates is too weak to notice
# that a claim of ε = 1 is false where the mechanism does nothing; with 0.2 it does (p = 1e-10).
# A planted leak must be found. Randomised response must keep its claim in five pooled runs while
# the positive control comes near it. The paper's sampling claims nothing; what is measured there
# comes from seeds that the attacks were not developed on (those were 0 to 3).
set -e
cd "$(dirname "$0")/.."
mkdir -p experiments/audits
audit() {
  name=$1
  shift
  .venv/bin/feddep audit --out "runs/audit/$name" "$@"
  cp "runs/audit/$name/audit.json" "experiments/audits/$name.json"
}
audit 0-leak --method fedavg --dataset cora --plant-leak
for method in fedavg feddep; do
  for epsilon in 1 4; do
    audit $method-rr-$epsilon --method $method --dataset cora --runs 5 --share 0.2 \
      --privacy randomised-response --epsilon $epsilon
  done
  for data in synthetic cora; do
    audit $method-nfdp-$data --method $method --dataset $data --runs 3 --seed 100 --share 0.2 \
      --privacy nfdp
  done
done
