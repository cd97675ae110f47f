"""The package and its papers."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import pytest

import proof
from conftest import REPOSITORY


def test_public_names_are_few_and_all_there() -> None:
    assert len(proof.__all__) <= 13
    for name in proof.__all__:
        assert getattr(proof, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        proof.nothing  # noqa: B018


def test_import_does_not_wait_for_torch() -> None:
    code = "import sys, proof, proof.cli; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_package_is_typed() -> None:
    assert (files("proof") / "py.typed").is_file()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    command = re.search(r"```sh\n([^\n]*pytest[^\n]*)\n```", readme)
    assert command, "the README has one command that sets up and runs the tests"
    assert command[1] in (REPOSITORY / ".ci" / "run").read_text()


def test_relative_links_of_the_documents_lead_somewhere() -> None:
    documents = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("**/*.md")]
    for document in documents:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
