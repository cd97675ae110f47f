"""A model that is written, undone, locked and killed is whole, and so is what went before it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import REPOSITORY
from model_processes import fork, state, version, write
from proof import ProofError
from proof.models import drop_history, locked, read_manifest, read_model, steps, undo, write_model

posix = pytest.mark.skipif(os.name != "posix", reason="forks, links and permissions of POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kitchen.proof"


def history(path: Path) -> Path:
    return path.parent / ".kitchen.proof.history"


# Undoing.


def test_every_write_can_be_undone_and_again(path: Path) -> None:
    for number in (1, 2, 3, 4):
        write(path, number)
    assert state(path) == (4, (3, 2, 1))
    assert undo(path).manifest == {"number": 3}
    assert state(path) == (3, (2, 1))
    write(path, 7)
    assert state(path) == (7, (3, 2, 1))
    for number in (3, 2, 1):
        assert undo(path).manifest["number"] == version(path) == number
    with pytest.raises(ProofError, match=r"nothing to undo: .* no earlier version of '.*kitchen"):
        undo(path)
    assert list(path.parent.iterdir()) == [path]


def test_ten_versions_are_kept(path: Path) -> None:
    for number in range(1, 15):
        write(path, number)
    assert state(path) == (14, tuple(range(13, 3, -1)))
    assert len(list(history(path).iterdir())) == 10


def test_to_keep_a_version_copies_nothing(path: Path) -> None:
    write(path, 1)
    before = path.stat()
    write(path, 2)
    assert os.path.samestat(before, steps(path)[0].stat())


@posix
@pytest.mark.parametrize("links", [True, False])
def test_a_private_model_stays_private(
    links: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where no links can be made, earlier versions are copies."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    write(path, 1)
    (path.parent / "plain").touch()
    assert path.stat().st_mode == (path.parent / "plain").stat().st_mode
    write(path, 2)
    path.chmod(0o600)
    write(path, 3)
    assert state(path) == (3, (2, 1))
    for file in (path, steps(path)[0]):
        assert file.stat().st_mode & 0o777 == 0o600
    undo(path)
    undo(path)
    assert version(path) == 1
    assert path.stat().st_mode & 0o777 == 0o600, "it was not private when it was written"


def test_a_file_that_moved_without_its_history_has_none(path: Path) -> None:
    write(path, 1)
    write(path, 2)
    moved = path.rename(path.with_name("bistro.proof"))
    assert steps(moved) == []
    with pytest.raises(ProofError, match=r"no earlier version of '.*' in '.*\.bistro\.proof\.hist"):
        undo(moved)


def test_a_file_that_took_its_place_does_not_inherit(path: Path) -> None:
    write(path, 1)
    write(path, 2)
    write(path.with_name("other.proof"), 8)
    path.with_name("other.proof").replace(path)
    assert state(path) == (8, ())
    write(path, 9)
    assert state(path) == (9, (8,))
    assert len(list(history(path).iterdir())) == 1


def test_a_damaged_version_is_not_brought_back(path: Path) -> None:
    for number in (1, 2, 3):
        write(path, number)
    latest = steps(path)[0]
    latest.write_bytes(latest.read_bytes()[:-1] + b"x")
    assert len(steps(path)) == 2
    with pytest.raises(ProofError, match=f"'{latest}': it is damaged"):
        undo(path)
    latest.write_bytes(b"x")
    with pytest.raises(ProofError, match=f"'{latest}': it is not a model"):
        undo(path)
    assert version(path) == 3
    write(path, 4)
    assert version(path) == 4


def test_a_model_with_a_damaged_tensor_can_be_undone(path: Path) -> None:
    write(path, 1)
    write(path, 2)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ProofError, match="damaged"):
        read_model(path)
    undo(path)
    assert version(path) == 1


def test_what_is_forgotten_leaves_no_trace(path: Path) -> None:
    for forget in (lambda: drop_history(path), lambda: write(path, 9, keep=False)):
        for number in (1, 2, 3):
            write(path, number)
        (history(path) / ".0123456789abcdef.0123456789ab.partial.proof").write_text("killed")
        (history(path) / "0123456789abcdef.proof").write_text("killed")
        before = version(path)
        forget()
        assert version(path) in (before, 9)
        assert list(path.parent.iterdir()) == [path]
    drop_history(path)
    drop_history(path.with_name("nothing.proof"))
    assert list(path.parent.iterdir()) == [path]


def test_files_of_others_in_the_history_stay(path: Path) -> None:
    write(path, 1)
    write(path, 2)
    (history(path) / "mine.proof").write_text("mine")
    drop_history(path)
    assert [file.name for file in history(path).iterdir()] == ["mine.proof"]


@posix
def test_links_are_not_followed_out_of_the_folder(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    precious = elsewhere / "0123456789abcdef.proof"
    precious.write_text("precious")
    history(path).symlink_to(elsewhere)
    for change in (lambda: write(path, 1), lambda: drop_history(path)):
        with pytest.raises(ProofError, match=r"history' is a link"):
            change()
    history(path).unlink()
    write(path, 1)
    write(path, 2)
    earlier = steps(path)[0]
    earlier.rename(elsewhere / "old.proof")
    earlier.symlink_to(elsewhere / "old.proof")
    assert steps(path) == []
    lock = path.parent / ".kitchen.proof.lock"
    lock.symlink_to(precious)
    with pytest.raises(ProofError, match=r"cannot lock '.*kitchen\.proof'"):
        write(path, 3)
    assert precious.read_text() == "precious"


@posix
def test_a_link_to_a_model_stays_a_link(path: Path) -> None:
    link = path.parent / "links" / "current.proof"
    link.parent.mkdir()
    link.symlink_to(path)
    for number in (1, 2):
        write(link, number)
    assert state(path) == state(link) == (2, (1,))
    undo(link)
    assert version(path) == 1
    assert link.is_symlink()
    assert list(link.parent.iterdir()) == [link]


def test_undoing_what_is_not_there_makes_no_folders(path: Path) -> None:
    missing = path.parent / "typo" / "kitchen.proof"
    with pytest.raises(ProofError, match="No such file"):
        undo(missing)
    assert list(path.parent.iterdir()) == []


def test_a_disk_that_is_full_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 1)
    write(path, 2)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for broken in ("os.fsync", "os.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(broken, full)
            with pytest.raises(ProofError, match=r"cannot write '.*': No space left on device"):
                write(path, 3)
        assert state(path) == (2, (1,))
        assert len(list(history(path).iterdir())) == 1


# Another process.


def test_a_model_that_another_changed_is_not_overwritten(path: Path) -> None:
    first = write_model(path, {"number": 1}, {})
    second = write_model(path, {"number": 2}, {}, expecting=first)
    assert first != second
    with pytest.raises(ProofError, match="was changed by another process since it was loaded"):
        write_model(path, {"number": 3}, {}, expecting=first)
    assert read_model(path).revision == second
    undo(path)
    write_model(path, {"number": 4}, {}, expecting=first)  # it is again what was loaded
    path.unlink()
    with pytest.raises(ProofError, match="was removed since it was loaded"):
        write_model(path, {"number": 5}, {}, expecting=first)
    assert not path.exists()


@pytest.fixture(scope="module")
def processes() -> subprocess.CompletedProcess[str]:
    """The program, which prints the name of each part that ended well."""
    script = REPOSITORY / "tests" / "model_processes.py"
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)


@posix
def test_killed_at_random_moments(processes: subprocess.CompletedProcess[str]) -> None:
    assert "kill_at_random" in processes.stdout, processes.stderr


@posix
def test_stopped_before_every_change_to_the_file_system(
    processes: subprocess.CompletedProcess[str],
) -> None:
    assert "stop_everywhere" in processes.stdout, processes.stderr


@posix
def test_two_that_teach_at_once_both_get_through(
    processes: subprocess.CompletedProcess[str],
) -> None:
    assert "teach_at_once" in processes.stdout, processes.stderr


HOLDER = """
import sys, time
from proof.models import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that has locked a model."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_who_waits_is_told_so_once(path: Path) -> None:
    told: list[str] = []
    with holder(path, 1.6) as other:
        with locked(path, waiting=told.append):
            assert other.poll() is not None or other.wait(5) == 0
        with locked(path, waiting=told.append):
            pass
    assert told == ["waiting for another process that is teaching kitchen.proof"]
    assert list(path.parent.iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    with holder(path, 600) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with locked(path, waiting=pytest.fail):
            pass
    assert list(path.parent.iterdir()) == []


def test_a_thread_may_lock_again_and_another_waits(path: Path) -> None:
    order = []

    def other() -> None:
        with locked(path):
            order.append("other")

    thread = threading.Thread(target=other)
    with locked(path), locked(path.parent / "." / "kitchen.proof"):
        with locked(path):
            thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_the_lock_is_never_held_twice_while_its_file_comes_and_goes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.models.lock._PAUSE", 0)
    inside, crowded = set(), []

    def work(name: int) -> None:
        for _ in range(200):
            with locked(path):
                inside.add(name)
                time.sleep(0)  # the others may try now
                crowded.append(len(inside) > 1)
                inside.discard(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowded == [False] * 600


def test_a_file_system_without_locks_still_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(path, 1)
    assert version(path) == 1


def as_a_user(work: Callable[[], None]) -> bool:
    """Whether `work` succeeds in a process without the rights of root."""

    def unprivileged() -> None:
        torch.set_num_threads(1)  # those of OpenMP do not survive a fork
        if os.getuid() == 0:
            os.setuid(65534)
        work()

    return os.waitpid(fork(unprivileged), 0)[1] == 0


@posix
def test_what_may_only_be_read_is_read_and_not_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"
        write(path, 1)
        write(path, 2)
        path.parent.chmod(0o555)

        def read_only_folder() -> None:
            assert state(path) == (2, (1,))
            for change in (lambda: write(path, 3), lambda: undo(path), lambda: drop_history(path)):
                with pytest.raises(ProofError, match=r"cannot write '.*': its folder is read-only"):
                    change()

        assert as_a_user(read_only_folder)

        path.parent.chmod(0o777)
        history(path).chmod(0o777)
        path.chmod(0o444)

        def read_only_file() -> None:
            for change in (lambda: write(path, 3), lambda: undo(path)):
                with pytest.raises(ProofError, match=r"cannot write '.*': it is read-only"):
                    change()
            assert read_manifest(path) == {"number": 2}

        assert as_a_user(read_only_file)

        path.chmod(0o000)

        def secret_file() -> None:
            with pytest.raises(ProofError, match=r"cannot read '.*': Permission denied"):
                read_model(path)

        assert as_a_user(secret_file)
        path.chmod(0o644)
        assert state(path) == (2, (1,))
