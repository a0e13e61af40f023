"""The silo's program for Flower, in front of the silo daemon."""

import pytest
from flower_messages import context, sent
from flwr.app import RecordDict

from feddep.deployment.operations import client_app
from feddep.deployment.operations.client_app import answer
from feddep.errors import RuntimeFailureError
from feddep.runtime.envelope import Envelope

pytestmark = pytest.mark.usefixtures("inside_a_flower_run")


def test_an_envelope_is_handed_over(monkeypatch):
    handed = []

    def ask(address: str, envelope: Envelope) -> Envelope:
        handed.append((address, envelope.header))
        return Envelope({"name": "bank-a"})

    monkeypatch.setattr(client_app, "ask", ask)
    said = sent(answer, Envelope({"kind": "hello"}), context(socket="/tmp/x/silo"))
    assert said.header == {"name": "bank-a"}
    assert handed == [("/tmp/x/silo", {"kind": "hello"})]


def test_a_daemon_that_is_away_is_flower_s_to_report(tmp_path):
    with pytest.raises(RuntimeFailureError):
        sent(answer, Envelope({"kind": "hello"}), context(socket=str(tmp_path / "nobody")))


def test_what_is_no_envelope_goes_no_further():
    said = sent(answer, RecordDict(), context(socket="/nowhere"))
    assert "expected a feddep envelope" in said.header["refused"]
