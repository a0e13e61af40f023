"""Tables inside the README and the documents, written from stored records.

A document marks a place with ``<!-- NAME KIND:begin -->`` and ``<!-- NAME KIND:end -->``; NAME is a
sweep in ``experiments/``, KIND one of

- ``means``: scores over the seeds (:mod:`feddep.reports.summary`); so is a place without a KIND,
- ``pairs``: differences from FedAvg, paired by seed (:mod:`feddep.reports.pairs`),
- ``paper``: beside what the paper prints (:mod:`feddep.reports.against_paper`).

``make docs`` fills the places; a test fails when they no longer match.
"""

import re

from feddep.reports.against_paper import Paper, paper_table
from feddep.reports.pairs import pairs_table
from feddep.reports.summary import summary_table

_PLACE = re.compile(
    r"(?P<begin><!-- (?P<what>(?P<name>\w+)(?: (?P<kind>\w+))?):begin -->\n)"
    r".*?(?P<end><!-- (?P=what):end -->)",
    flags=re.DOTALL,
)
KINDS = {
    "means": lambda rows, _: summary_table(rows),
    "pairs": lambda rows, _: pairs_table(rows),
    "paper": lambda rows, experiments: paper_table(rows, Paper.read(experiments / "paper.toml")),
}
