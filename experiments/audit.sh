#!/bin/sh
# The audits of the project, into runs/audit/. Five minutes on one core.
#
# A share of 0.2 is guessed about: with all canaries the attack on updates is too weak to notice
# that a claim of ε = 1 is false where the mechanism does nothing; with 0.2 it does (p = 1e-10).
# A planted leak must be found. Randomised response must keep its claim in five pooled runs while
# the positive control comes near it. The paper's sampling claims nothing; what is measured there
# comes from seeds that the attacks were not developed on (those were 0 to 3).
set -e
cd "$(dirname "$0")/.."
feddep=.venv/bin/feddep
$feddep audit --method fedavg --dataset cora --plant-leak --out runs/audit/leak
for method in fedavg feddep; do
  for epsilon in 1 4; do
    $feddep audit --method $method --dataset cora --runs 5 --share 0.2 \
      --privacy randomised-response --epsilon $epsilon --out runs/audit/$method-rr-$epsilon
  done
  for data in synthetic cora; do
    $feddep audit --method $method --dataset $data --runs 3 --seed 100 --share 0.2 \
      --privacy nfdp --out runs/audit/$method-nfdp-$data
  done
done
