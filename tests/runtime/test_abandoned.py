"""What killed processes leave in memory is deleted by the next, and a stopped worker is noticed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from feddep.folder_lock import FolderLock
from feddep.runtime import sharing
from feddep.runtime.inprocess import is_stopped


def test_folders_whose_process_is_gone_are_deleted(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sharing, "_MEMORY", tmp_path)
    used, abandoned, new, other = (
        tmp_path / name
        for name in ("feddep-shared-a", "feddep-shared-b", "feddep-shared-c", "feddep-else")
    )
    for folder in (used, abandoned, new, other):
        folder.mkdir()
        if folder != new:
            os.utime(folder, (time.time() - 3600,) * 2)
    lock = FolderLock(used)
    made = sharing.shared_folder(0)
    assert set(tmp_path.iterdir()) == {used, new, other, made}
    lock.release()


def test_a_stopped_process_is_told_from_one_that_works():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command) as process:
        try:
            assert not is_stopped(process.pid)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            assert is_stopped(process.pid)
        finally:
            process.kill()
    assert not is_stopped(2**22 + 1)
