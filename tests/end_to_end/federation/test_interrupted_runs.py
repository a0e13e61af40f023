"""Whoever started a run may be stopped, and it goes on when it is resumed."""

import signal
import time

import pytest
from run_comparison import assert_same, in_process, wait_for_rounds


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_a_run_whose_starter_is_stopped_goes_on_when_it_is_resumed(cluster, number, code):
    """Ended kindly, it stops the server's part too; if it is killed, that ends at the latest then.

    SIGTERM is to it what Ctrl-C is, and cannot have been switched off by whoever runs the tests.
    """
    out = f"stopped-{number.name}"
    spec = cluster.spec(rounds=5)  # so that it is not over before it hears of it
    program = cluster.federate(spec, out)
    wait_for_rounds(cluster.folder / out, 1, program)
    program.process.send_signal(number)
    assert program.process.wait(60) == code
    if number is signal.SIGTERM:
        assert "--resume" in program.log.read_text()
        time.sleep(10)  # as long as all rounds take, and longer
        assert not (cluster.folder / out / "record.json").exists()
    said = cluster.finish(cluster.federate(spec, out, "--resume"))
    assert (cluster.folder / out / "record.json").exists(), said
    assert_same(cluster.folder / out, in_process(cluster, spec))
