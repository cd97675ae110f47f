from __future__ import annotations

from pathlib import Path

import pytest

from proof.files import replacing


def test_a_crash_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "new folder" / "file.txt"
    with replacing(target) as partial:
        partial.write_text("old")

    def crash() -> None:
        with replacing(target) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash()
    assert target.read_text() == "old"
    assert [entry.name for entry in target.parent.iterdir()] == ["file.txt"]
