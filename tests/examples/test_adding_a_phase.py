"""The phase of docs/adding_a_method.md is metered, inspected, consented to and priced."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from feddep.algorithms import find_method
from feddep.deployment.protocol.agreement import Agreement, expected_of
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog, sent
from feddep.deployment.protocol.federate import federate
from feddep.deployment.protocol.memory import Carried
from feddep.deployment.protocol.planned import planned_price
from feddep.deployment.protocol.silo_service import SiloService
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import ConsentError, InputError
from feddep.federation.inspection import InspectionError, inspect_reply, inspect_request
from feddep.federation.messages import Reply, Request
from feddep.graph.graph import Part
from feddep.privacy.accountant import NOTHING, Guarantee
from feddep.privacy.events import FullNeighbours
from feddep.runs import pipeline
from feddep.runs.accounting import mechanism_events
from feddep.runs.folder import RunFolder
from feddep.runtime.envelope import Envelope
from feddep.scenario.build import learning_spec_for
from feddep.scenario.spec import RunSpec
from small_runs import messages_of, pool_of, spec_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/adding_a_method.md").read_text()
_, FILE = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
NAME = "class_shares:METHOD"
CONSENT = f"""\
methods = ["{NAME}"]
messages = ["classifier", "class_counts"]
rounds = 50
smallest_cluster = 5
highest_epsilon = "unbounded"
"""


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "class_shares.py").write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("class_shares")
    del sys.modules["class_shares"]


def test_it_imports_from_one_place_only():
    assert re.findall(r"from (feddep\S*) import", TEXT) == ["feddep.method", "feddep.method"]


def test_the_classifier_starts_from_the_class_shares(module, small_shards):
    pool = pool_of(find_method(NAME), small_shards)
    said = messages_of(pool, small_shards)
    graph = small_shards.graph
    training = np.bincount(graph.labels[graph.members(Part.TRAIN)], minlength=graph.classes)
    counts = sum(reply.arrays["class_counts"] for request, reply in said if request.step == "count")
    assert counts.tolist() == training.tolist()
    first = next(request for request, _ in said if request.step == "train")
    bias = first.arrays[f"classifier/convolutions.{pool.spec.model.layers - 1}.bias"]
    assert np.array_equal(bias, np.log(module._shares(training)))
    skews = [reply.metrics["skew"] for request, reply in said if request.step == "compare"]
    assert len(skews) == 3
    assert all(0 <= skew <= 1 for skew in skews)


def test_it_is_metered(small_shards):
    spec = spec_of(find_method(NAME), small_shards)
    traffic = pipeline.run(spec, small_shards, workers=1).traffic["phases"]
    classes = small_shards.graph.classes
    assert traffic["class_shares"] == {"up_bytes": 3 * 8 * classes, "down_bytes": 3 * 4 * classes}


@pytest.fixture
def expected(small_shards):
    pool = pool_of(find_method(NAME), small_shards)
    return expected_of(pool.method, pool.spec, small_shards.graph.nodes)


COUNT = Request(0, "class_shares", "count", 0)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({}, "class_counts is missing"),
        ({"class_counts": np.ones(3, np.int32)}, "int32 where int64 belongs"),
        ({"class_counts": np.ones(4, np.int64)}, r"shape \(4,\) where \(3,\) belongs"),
        ({"class_counts": np.ones(3, np.int64), "labels": np.ones(3)}, "'labels' is not declared"),
    ],
)
def test_replies_are_inspected(expected, arrays, match):
    inspect_reply(Reply(0, {"class_counts": np.ones(3, np.int64)}), COUNT, expected)
    with pytest.raises(InspectionError, match=match):
        inspect_reply(Reply(0, arrays), COUNT, expected)


def test_requests_are_inspected(expected):
    shares = np.full(3, 1 / 3, np.float32)
    inspect_request(Request(0, "class_shares", "compare", 0, {"class_shares": shares}), expected)
    for step, arrays, match in [
        ("compare", {}, "class_shares is missing"),
        ("compare", {"class_shares": shares[:2]}, "where .3,. belongs"),
        ("count", {"class_shares": shares}, "is not declared"),
        ("recount", {}, "declares no such step"),
    ]:
        with pytest.raises(InspectionError, match=match):
            inspect_request(Request(0, "class_shares", step, 0, arrays), expected)


@pytest.fixture
def consent(tmp_path):
    def written(text):
        (tmp_path / "consent.toml").write_text(text)
        return Consent.read(tmp_path / "consent.toml")

    return written


def test_a_silo_s_owner_must_consent_to_it(consent, small_graph):
    method = find_method(NAME)
    spec = RunSpec(method=NAME)
    learning = learning_spec_for(spec, small_graph, method)
    consent(CONSENT).check_run(spec, method, learning, NOTHING)
    narrower = consent(CONSENT.replace(', "class_counts"', ""))
    with pytest.raises(ConsentError, match="class_counts would leave the silo"):
        narrower.check_run(spec, method, learning, NOTHING)
    silent = consent(CONSENT + 'numbers = ["loss"]\n')
    with pytest.raises(ConsentError, match=r"the numbers .*skew.* would leave"):
        silent.check_run(spec, method, learning, NOTHING)


def test_it_is_priced(module, small_graph):
    """It reads no edge, and says so: randomised response covers it, and noised gradients do not."""
    method = find_method(NAME)

    def price(**settings):
        spec = RunSpec(method=NAME).with_settings(
            {name.replace("__", "."): value for name, value in settings.items()}
        )
        return planned_price(
            spec, method, learning_spec_for(spec, small_graph, method), small_graph
        )

    assert price() == NOTHING
    flipped = price(privacy__mechanism="randomised-response", privacy__epsilon=2.0)
    assert flipped == Guarantee(2.0, 0.0, "holds")
    events = mechanism_events(
        method, learning_spec_for(RunSpec(), small_graph, method), small_graph
    )
    assert not any(isinstance(event, FullNeighbours) for event in events)


def test_a_phase_that_does_not_say_what_it_reads_counts_as_reading_every_list(module, small_graph):
    class Secretive(module.ClassShares):
        events = module.Phase.events

    method = replace(find_method(NAME), phases=(Secretive(), *find_method("fedavg").phases))
    learning = learning_spec_for(RunSpec(), small_graph, method)
    assert FullNeighbours("class_shares") in mechanism_events(method, learning, small_graph)


class Wire:
    """Silos in this process, reached by envelopes."""

    def __init__(self, services):
        self.services, self.memories = services, [{} for _ in services]

    def addresses(self):
        return range(len(self.services))

    def deliver(self, envelopes, seconds):
        return {
            at: self.services[at].answer(
                envelope, lambda run, at=at: Carried(self.memories[at].setdefault(run, {}))
            )
            for at, envelope in envelopes.items()
        }


def test_over_the_wire_it_gives_what_it_gives_in_process(consent, small_shards, tmp_path):
    spec = spec_of(find_method(NAME), small_shards)
    logs = [tmp_path / f"silo-{number}.jsonl" for number in range(3)]
    wire = Wire(
        [
            SiloService(
                f"silo-{number}",
                lambda graph=graph: graph,
                number,
                consent(CONSENT),
                DisclosureLog(logs[number]),
            )
            for number, graph in enumerate(small_shards)
        ]
    )
    folder = RunFolder.claim(tmp_path / "run", spec, resume=False)
    record = federate(wire, spec, folder, wait_policy=WaitPolicy(grace=60, wait=60))
    here = pipeline.run(spec, small_shards, workers=1)
    assert record["traffic"] == here.traffic
    weights = load_file(tmp_path / "run/model.safetensors")
    assert all(np.array_equal(weights[name], array) for name, array in here.model.weights.items())
    for log in logs:
        found = sent(log, _run_of(log))
        assert found["class_counts"] == found["numbers/class_shares"] == 1


def _run_of(log):
    return re.search(r'"run":\s*"([^"]+)"', log.read_text())[1]


def test_a_silo_refuses_a_step_that_nobody_declared(small_shards):
    service = SiloService("silo", lambda: small_shards[0], 0)
    memory = {}
    spec = spec_of(find_method(NAME), small_shards)
    graph = small_shards.graph
    agreement = Agreement("run", spec, graph.feature_count, graph.classes, graph.nodes)

    def say(**header):
        return service.answer(
            Envelope({"run": "run", "client": 0, **header}), lambda run: Carried(memory)
        )

    assert "sound" in say(kind="agree", **agreement.to_plain()).header
    asked = {"kind": "request", "place": "p", "previous": None, "round": 0, "silent": False}
    answer = say(**asked, phase="class_shares", step="recount")
    assert "declares no such step" in answer.header["refused"]


def test_so_does_a_client_in_process(small_shards):
    pool = pool_of(find_method(NAME), small_shards)
    with pytest.raises(InputError, match="unknown step of phase class_shares"):
        pool.handle([Request(0, "class_shares", "recount", 0)])


def test_what_cannot_be_priced_is_not_run(module, small_shards, monkeypatch):
    monkeypatch.setattr(module.ClassShares, "events", lambda *_: ["nothing"])
    with pytest.raises(InputError, match=r"phase class_shares: expected events .*\(got str\)"):
        pipeline.run(spec_of(find_method(NAME), small_shards), small_shards, start=None, workers=1)


def test_a_method_that_never_scores_a_classifier_says_so(module, small_shards, monkeypatch):
    alone = replace(module.METHOD, phases=(module.ClassShares(),))
    monkeypatch.setattr(module, "METHOD", alone)
    with pytest.raises(InputError, match="no phase of class_shares:METHOD says how good"):
        pipeline.run(spec_of(find_method(NAME), small_shards), small_shards, workers=1)


def test_a_silo_with_another_version_of_the_file_refuses(small_shards):
    graph = small_shards.graph
    spec = spec_of(find_method(NAME), small_shards)
    plain = Agreement("run", spec, graph.feature_count, graph.classes, graph.nodes).to_plain()
    assert Agreement.from_plain(plain).spec == spec
    for other in ("0123456789abcdef", "", None):
        with pytest.raises(InputError, match="is not the same here as at the server"):
            Agreement.from_plain(plain | {"method_file": other})
