"""What all tests have in common, those of the library and those of the study."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import feddep
from missing import summary

if TYPE_CHECKING:
    from feddep.graph.graph import Graph

# One thread: test machines have few cores and other work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, however slow the machine.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers slow tests come first, or one of them would be left with the last."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, **_: Any) -> None:
    """Says how many tests were skipped, and what they would have needed."""
    for line in summary(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session", autouse=True)
def untuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No tuned presets in this process: a test must not depend on what was chosen last."""
    from feddep.scenario import presets

    paper, *_ = presets.FILE.read_text().partition("[tuned.")
    file = tmp_path_factory.mktemp("presets") / "presets.toml"
    file.write_text(paper)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "FILE", file)
        yield


@pytest.fixture(scope="session")
def small_graph() -> "Graph":
    """120 nodes, 240 edges, 60 sparse features, 3 classes; without a split."""
    return feddep.load(
        "synthetic",
        nodes=120,
        classes=3,
        communities_per_class=2,
        feature_count=60,
        topic_words=20,
        dialect_words=8,
        topic_share=0.6,
    )
