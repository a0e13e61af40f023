"""A silo from its configuration: secret, data, disclosure log and stored runs."""

import stat

import numpy as np
import pytest
from envelopes import SiloWithMemory

from feddep.deployment.operations.kit import init
from feddep.deployment.operations.silo_setup import (
    open_service,
    own_disclosures,
    own_graph,
    own_secret,
)
from feddep.deployment.protocol.disclosure_log import DisclosureLog, agreements, verify
from feddep.deployment.protocol.memory import Files
from feddep.errors import DataError, InputError
from feddep.graph.folder import write_graph
from feddep.graph.graph import Part
from feddep.runtime.envelope import Envelope


@pytest.fixture
def config(tmp_path, small_shards):
    folder = init(tmp_path / "kit", hosts=["localhost"], silos=["a"], proxy=False).silos["a"]
    write_graph(small_shards[0], folder / "data")
    yield folder / "silo.toml"
    open_service.cache_clear()


class TestSecret:
    def test_it_is_drawn_once(self, tmp_path):
        first = own_secret(tmp_path / "state")
        assert first == own_secret(tmp_path / "state")
        assert first != own_secret(tmp_path / "other")

    def test_it_is_the_owner_s_alone(self, tmp_path):
        own_secret(tmp_path / "state")
        assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "state" / "secret").stat().st_mode) == 0o600

    @pytest.mark.parametrize("text", [b"", b"0x12", b"-3", b"12 34", "٣".encode(), b"\xff"])
    def test_a_damaged_one_is_named_and_not_replaced(self, tmp_path, text):
        (tmp_path / "secret").write_bytes(text)
        with pytest.raises(DataError, match="secret: expected a whole number"):
            own_secret(tmp_path)
        assert (tmp_path / "secret").read_bytes() == text


class TestData:
    def test_a_split_that_is_there_is_kept(self, tmp_path, small_shards):
        write_graph(small_shards[0], tmp_path / "data")
        assert np.array_equal(own_graph(tmp_path / "data", 3).split, small_shards[0].split)

    def test_without_a_split_one_is_drawn_and_the_same_every_time(self, tmp_path, small_graph):
        write_graph(small_graph, tmp_path / "data")
        first = own_graph(tmp_path / "data", 3).split
        assert np.array_equal(first, own_graph(tmp_path / "data", 3).split)
        assert not np.array_equal(first, own_graph(tmp_path / "data", 4).split)
        shares = [(first == part).mean() for part in (Part.TRAIN, Part.VAL, Part.TEST)]
        assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.03)

    def test_what_is_no_graph_is_refused(self, tmp_path):
        with pytest.raises(InputError):
            own_graph(tmp_path / "nowhere", 0)


class TestDisclosures:
    def test_a_new_silo_writes_disclosures_jsonl(self, config):
        state = config.parent / "state"
        service, _ = open_service(config)
        service.disclosures.refuse(run="r", reason="no")
        assert verify(state / "disclosures.jsonl").lines == 1
        assert not (state / "ledger.jsonl").exists()

    def test_an_earlier_silo_s_log_is_continued_in_its_file(self, config):
        """One chain: heads that were noted stay valid, and earlier agreements still bind."""
        state = config.parent / "state"
        earlier = DisclosureLog(state / "ledger.jsonl")
        earlier.agree(run="r", agreement="abc", epsilon=1.0)
        noted = earlier.head()
        service, _ = open_service(config)
        service.disclosures.refuse(run="s", reason="no")
        assert verify(state / "ledger.jsonl", noted).lines == 2
        assert agreements(service.disclosures.path, "r") == {("abc", None)}
        assert not (state / "disclosures.jsonl").exists()

    def test_a_crash_while_it_was_written_is_recovered_from(self, tmp_path):
        earlier = DisclosureLog(tmp_path / "ledger.jsonl")
        earlier.refuse(run="r", reason="no")
        with earlier.path.open("ab") as file:
            file.write(b'{"torn')
        own_disclosures(tmp_path).refuse(run="s", reason="no")
        assert verify(earlier.path).lines == 3  # with the line that says what was torn
        assert (tmp_path / "ledger.jsonl.torn").read_bytes() == b'{"torn\n'

    def test_two_logs_are_refused(self, tmp_path):
        for name in ("ledger.jsonl", "disclosures.jsonl"):
            DisclosureLog(tmp_path / name).refuse(run="r", reason="no")
        with pytest.raises(DataError, match=r"two disclosure logs, disclosures\.jsonl and ledger"):
            own_disclosures(tmp_path)


class TestService:
    def test_it_is_what_the_file_says(self, config, small_shards):
        service, pieces = open_service(config)
        assert service.name == "a"
        assert service.secret == own_secret(config.parent / "state")
        assert service.graph() is service.graph(), "read once"
        assert SiloWithMemory(service)(Envelope({"kind": "hello"})).header["nodes"] == (
            small_shards[0].nodes
        )
        pieces("run").save("piece", b"x")
        assert pieces("run").load("piece") == b"x"
        assert (config.parent / "state" / "runs" / "run" / "piece").is_file()
        assert isinstance(pieces("run"), Files)

    def test_without_a_secret_the_seed_of_the_run_is_used(self, config):
        config.write_text(config.read_text().replace("secret = true", "secret = false"))
        service, _ = open_service(config)
        assert service.secret is None
        assert not (config.parent / "state" / "secret").exists()

    def test_a_silo_without_a_consent_is_none(self, config):
        (config.parent / "consent.toml").unlink()
        with pytest.raises(InputError, match="consent"):
            open_service(config)
