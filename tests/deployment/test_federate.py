"""The server's side of a run's beginning and end: who takes part, and what is written down."""

import json
from dataclasses import dataclass, replace

import pytest
from direct_channel import DirectChannel, services
from envelopes import CONSENT, SMALL

from feddep.deployment.protocol import remote_runtime as remote_runtime
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.federate import RUN_NAME, federate, in_order, run_name
from feddep.deployment.protocol.noted_heads import ServersNotes
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError
from feddep.reports.run_page import write_run_page
from feddep.runs.folder import RunFolder
from feddep.runtime.envelope import Envelope
from feddep.scenario.spec import RunSpec

SPEC = RunSpec().with_settings({**SMALL, "method": "fedavg", "training.rounds": 1})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(remote_runtime.time, "sleep", lambda seconds: None)


@pytest.fixture
def channel(small_shards) -> DirectChannel:
    return DirectChannel(services(small_shards))


def run(channel: DirectChannel, path, spec: RunSpec = SPEC, **options):
    wait_policy = WaitPolicy(wait=0.05, resend=0.05)
    with RunFolder.claim(path, spec, resume=False) as folder:
        return federate(channel, spec, folder, wait_policy=wait_policy, **options)


@dataclass
class Saying:
    """Changes what one silo says in answers to envelopes of one kind."""

    kind: str
    words: object
    address: int = 99

    def __call__(self, address: int, envelope: Envelope, answer: Envelope) -> Envelope:
        if address != self.address or envelope.header["kind"] != self.kind:
            return answer
        return Envelope(self.words(answer.header))


class TestOrder:
    def test_by_name(self):
        assert in_order({5: {"name": "b"}, 7: {"name": "a"}, 6: {"name": "c"}}) == [7, 5, 6]

    def test_by_number(self):
        met = {5: {"name": "a", "client": 2}, 6: {"name": "b", "client": 0}}
        assert in_order(met | {7: {"name": "c", "client": 1}}) == [6, 7, 5]

    def test_more_than_nine(self):
        met = {n: {"name": f"silo-{n}", "client": 11 - n} for n in range(12)}
        assert in_order(met) == list(range(11, -1, -1))

    def test_two_with_the_same_name(self):
        with pytest.raises(InputError, match=r"a name of its own \(got a, a\)"):
            in_order({1: {"name": "a"}, 2: {"name": "a"}})

    @pytest.mark.parametrize("numbers", [(0, 0), (0, 2), (1, 2), (0, None), (0, "1"), (0, [1])])
    def test_numbers_that_do_not_fit(self, numbers):
        met = {n: {"name": f"silo-{n}", "client": own} for n, own in enumerate(numbers)}
        with pytest.raises(InputError, match="numbered 0 to 1, each once"):
            in_order(met)

    @pytest.mark.parametrize("name", [None, "", 3, ["a"], "../a", "a" * 33, "a\x1b[2J"])
    def test_a_name_that_is_none(self, name):
        with pytest.raises(InputError, match="introduction is invalid"):
            in_order({1: {"name": name}})

    def test_no_name_at_all(self):
        with pytest.raises(InputError, match="introduction is invalid"):
            in_order({1: {}})


class TestBeginning:
    def test_a_silo_that_cannot_read_its_data_says_so(self, channel, tmp_path):
        channel.tamper = Saying("hello", lambda _: {"refused": "no graph folder"})
        with pytest.raises(InputError, match="a silo cannot take part: no graph folder"):
            run(channel, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_different_columns(self, channel, tmp_path):
        channel.tamper = Saying("hello", lambda own: {**own, "features": 7})
        with pytest.raises(InputError, match="same feature columns: silo-0 has 60, silo-1 has 7"):
            run(channel, tmp_path / "run")

    @pytest.mark.parametrize("features", [None, "many", [], float("inf"), float("nan")])
    def test_a_hello_of_nonsense(self, channel, tmp_path, features):
        channel.tamper = Saying("hello", lambda own: {**own, "features": features})
        with pytest.raises(InputError, match="introduction is invalid"):
            run(channel, tmp_path / "run")

    @pytest.mark.parametrize("nodes", [-1, 2**60, None, "x" * 10**6])
    def test_a_size_that_is_none(self, channel, tmp_path, nodes):
        channel.tamper = Saying("hello", lambda own: {**own, "nodes": nodes})
        with pytest.raises(InputError, match="introduction is invalid") as caught:
            run(channel, tmp_path / "run")
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize(
        ("version", "shown"), [("0.0.1", "0.0.1"), (None, r"\(no text but NoneType\)")]
    )
    def test_another_version(self, channel, tmp_path, version, shown):
        channel.tamper = Saying("hello", lambda own: {**own, "version": version})
        with pytest.raises(InputError, match=f"but silo-1 has {shown}; install the same version"):
            run(channel, tmp_path / "run")

    def test_fewer_silos_than_the_spec_has(self, channel, tmp_path):
        channel.services.pop()
        with pytest.raises(InterruptedRunError, match="2 of 3 silos connected"):
            run(channel, tmp_path / "run")

    def test_more_silos_than_the_spec_has(self, channel, tmp_path):
        with pytest.raises(InputError, match=r"3 silos are connected \(silo-0, silo-1, silo-2\)"):
            run(channel, tmp_path / "run", SPEC.with_settings({"partition.clients": 2}))

    def test_a_method_that_needs_edges_between_silos(self, channel, tmp_path):
        with pytest.raises(InputError, match="pass them with --crossings"):
            run(channel, tmp_path / "run", SPEC.with_settings({"method": "fedgnn"}))
        assert not (tmp_path / "run").exists()
        assert channel.asked == []

    @pytest.mark.parametrize(
        "sound",
        [None, "all is well", {}, {"epsilon": "x", "delta": 0, "verdict": "holds"}]
        + [{"epsilon": e, "delta": 0, "verdict": "holds"} for e in (-1, float("nan"), [], 10**400)]
        + [{"epsilon": e, "delta": 0, "verdict": "holds"} for e in (float("inf"), "1", True)]
        + [{"epsilon": 1, "delta": d, "verdict": "holds"} for d in (-1, 2, float("nan"), None)]
        + [{"epsilon": 1, "delta": 0, "verdict": v} for v in ("", None, ["holds"], "x" * 10**6)],
    )
    def test_a_promise_of_nonsense_is_refused_at_once(self, channel, tmp_path, sound):
        channel.tamper = Saying("agree", lambda _: {"sound": sound})
        with pytest.raises(InputError, match="states an invalid privacy guarantee") as caught:
            run(channel, tmp_path / "run")
        assert len(str(caught.value)) < 400
        assert {envelope.header["kind"] for _, envelope in channel.asked} == {"hello", "agree"}


class TestRecord:
    def test_it_tells_of_silos_and_not_of_a_data_set(self, channel, small_graph, tmp_path):
        record = run(channel, tmp_path / "run")
        assert (record["dataset"], record["partition"], record["split"]) == (
            "silos",
            "given",
            "given",
        )
        assert record["clients"] == 3
        assert record["data"] == {
            "nodes": small_graph.nodes,
            "features": small_graph.feature_count,
            "classes": small_graph.classes,
        }
        assert json.loads((tmp_path / "run" / "record.json").read_text()) == record
        page = write_run_page(tmp_path / "run").read_text()
        assert "the weakest one counts" in page

    @pytest.mark.parametrize(("other", "worst"), [(3.0, 3.0), (1.0, 2.0), (None, None)])
    def test_the_worst_promise_counts(self, channel, tmp_path, other, worst):
        def promise(epsilon: float | None) -> dict:
            return {"epsilon": epsilon, "delta": 0.0, "verdict": "holds" if epsilon else "none"}

        def tamper(address, envelope, answer):
            if envelope.header["kind"] != "agree":
                return answer
            return Envelope({"sound": promise(other if address == 99 else 2.0) | {"more": "x"}})

        channel.tamper = tamper
        privacy = run(channel, tmp_path / "run")["privacy"]
        assert privacy["sound"] == promise(worst)
        assert privacy["verdict"] == promise(worst)["verdict"]
        assert privacy["silos"] == [promise(2.0), promise(other), promise(2.0)]


@pytest.mark.parametrize(
    ("method", "begins"),
    [
        ("fedavg", "fedavg-"),
        ("feddep-wo-proto", "feddep-wo-proto-"),
        ("mine.methods:MY_METHOD", "MY-METHOD-"),
        ("mine:_own", "own-"),
        ("mine:" + "x" * 99, "x" * 40 + "-"),
    ],
)
def test_a_run_has_one_name(tmp_path, method, begins):
    name = run_name(tmp_path, RunSpec(method=method))
    assert name.startswith(begins)
    assert len(name) == len(begins) + 12
    assert run_name(tmp_path, RunSpec(method=method)) == name
    (tmp_path / RUN_NAME).unlink()
    assert run_name(tmp_path, RunSpec(method=method)) != name


class TestHeadsOfTheSilosLogs:
    """The server keeps them, so that a silo that lost its log is told."""

    @pytest.fixture
    def logged(self, small_shards, tmp_path) -> DirectChannel:
        own = [
            replace(
                service,
                consent=CONSENT.model_copy(update={"budget_epsilon": 9.0}),
                disclosures=DisclosureLog(tmp_path / f"log-{number}" / "disclosures.jsonl"),
                secret=number,
            )
            for number, service in enumerate(services(small_shards))
        ]
        for service in own:
            service.disclosures.path.parent.mkdir()
        return DirectChannel(own)

    def test_they_are_noted_and_looked_for(self, logged, small_shards, tmp_path):
        spec = SPEC.with_settings(
            {"privacy.mechanism": "randomised-response", "privacy.epsilon": 1.0}
        )
        notes = ServersNotes(tmp_path / "heads")
        run(logged, tmp_path / "first", spec, notes=notes)
        assert sorted(file.name for file in (tmp_path / "heads").iterdir()) == [
            f"silo-{number}" for number in range(3)
        ]
        run(logged, tmp_path / "second", spec, notes=notes)
        for file in (tmp_path / "log-1").iterdir():
            file.unlink()
        with pytest.raises(InputError, match=r"client 1 refuses[\s\S]*noted by the server"):
            run(logged, tmp_path / "third", spec, notes=notes)

    @pytest.mark.parametrize("said", [None, 3, "", "1:2", "x" * 10_000])
    def test_what_a_silo_says_is_not_trusted(self, tmp_path, said):
        notes = ServersNotes(tmp_path)
        notes.note("a", f"1:{'0' * 64}")
        notes.note("a", said)
        assert notes.head_of("a") == f"1:{'0' * 64}"
        assert notes.head_of("b") is None
