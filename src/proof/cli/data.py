"""`proof data`: the known data sets, where they come from, and whether they lie here whole."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proof.errors import ProofError

if TYPE_CHECKING:
    from proof.datasets.base import Listing
    from proof.datasets.known import Known

app = typer.Typer(
    help="""List, describe and check the known data sets.

    Examples:

      proof data list

      proof data show cub200

      proof data check cub200 ~/data/cub
    """,
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_SHOWN = 20  # lines of a list of mistakes
_Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `proof data list` shows.")]


@app.command("list")
def list_() -> None:
    """List the known data sets.

    Example:

      proof data list
    """
    from rich.console import Console
    from rich.table import Table

    from proof.datasets.known import data_home, known, known_names
    from proof.datasets.layouts import find_layout

    table = Table()
    for column in ("name", "title"):
        table.add_column(column, no_wrap=True)
    table.add_column("classes", justify="right")
    table.add_column("protocols")
    table.add_column("pictures", justify="right")
    table.add_column("here")
    for name in known_names():
        what = known(name)
        classes, used = len(what.classes) or what.use, what.use or len(what.classes)
        found = find_layout(what, data_home() / name)
        table.add_row(
            name,
            what.title,
            f"{used} of {classes}" if used < classes else str(used),
            ", ".join(what.protocols),
            f"{what.train + what.test:,}" if what.train + what.test else "?",
            "yes" if found else "downloads" if what.downloads else "no",
        )
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(f"here: in '{data_home()}' (set PROOF_DATA for another folder)")


@app.command()
def show(
    name: _Name,
    classes: Annotated[bool, typer.Option("--classes", help="All classes, in order.")] = False,
) -> None:
    """Show all that is known of a data set: licence, files, layout, prompts.

    Examples:

      proof data show cub200

      proof data show cub200 --classes
    """
    from rich.console import Console

    from proof.datasets.known import data_home, known

    what = known(name)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if classes:
        for number, (official, readable) in enumerate(what.classes.items(), 1):
            unused = "" if number <= (what.use or len(what.classes)) else "  (not used)"
            console.print(f"{number:4}  {official}  {readable}{unused}")
        if not what.classes:
            console.print(f"{name}: the classes are the folders of the data set")
        return
    root = data_home() / name
    fetched = "it is downloaded when it is first used" if what.downloads else "download it by hand"
    console.print(what.title, style="bold")
    for title, text in (
        ("", what.about),
        ("homepage", what.homepage),
        ("licence", what.licence),
        ("cite", what.citation),
        ("protocols", ", ".join(what.protocols)),
        ("classes", f"{_classes_line(what)}. {what.subset}".strip()),
        ("pictures", _pictures_line(what)),
        ("split", what.split),
        ("files", "\n".join(_file_lines(what))),
        ("place", f"'{root}', or DIR written as {name}:DIR; {fetched}"),
        ("layout", f"train/CLASS/ and test/CLASS/, or:\n{what.layout}"),
        ("prompts", "\n".join(what.templates)),
    ):
        if text.strip():
            console.print(_paragraph(title, text, min(console.width, 100)))


@app.command()
def check(
    name: _Name,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Where it lies, if not where `show` says."),
    ] = None,
    decode: Annotated[bool, typer.Option("--decode", help="Decode every picture.")] = False,
) -> None:
    """Check whether a data set lies in a folder whole. Status 0 if it does, else 1 and a list.

    Examples:

      proof data check cub200 ~/data/cub

      proof data check cub200 ~/data/cub --decode
    """
    from proof.datasets.known import data_home, known
    from proof.datasets.sources import known_listing

    what = known(name)
    root = (folder or data_home() / name).expanduser()
    if not root.is_dir():
        raise ProofError(f"no folder '{root}': expected the folder that holds {name}")
    wrong = _wrong_archives(what, root)
    try:
        listing, strange = known_listing(what, root)
    except ProofError as error:
        wrong.append(str(error))
    else:
        print(f"layout: {listing.layout}, in '{listing.where}'")
        wrong += [f"unexpected class '{label}'" for label in strange]
        wrong += _wrong_classes(what, listing, strange)
        wrong += _wrong_pictures(listing, decode)
    if not wrong:
        print(f"{name}: all is well")
        return
    for line in wrong[:_SHOWN]:
        print(f"wrong: {line}")
    if len(wrong) > _SHOWN:
        print(f"wrong: and {len(wrong) - _SHOWN} more")
    raise typer.Exit(1)


def _wrong_archives(what: Known, root: Path) -> list[str]:
    """Archives that lie in the folder and have another size or checksum."""
    wrong = []
    for file in what.files:
        path = root / file.name
        if not path.is_file():
            continue
        size = path.stat().st_size
        if file.bytes and size != file.bytes:
            wrong.append(f"{file.name} has {size:,} bytes, expected {file.bytes:,}")
        elif file.md5:
            if _has_md5(path, size, file.md5):
                print(f"archive: {file.name} has the checksum that is known")
            else:
                wrong.append(f"{file.name} has another checksum than {file.md5}")
    return wrong


def _has_md5(path: Path, size: int, md5: str) -> bool:
    from proof.cli.progress import Bar
    from proof.datasets.known import check_md5

    done = 0
    with Bar() as bar:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar(f"checksum of {path.name}, MB", done // 10**6, size // 10**6)

        return check_md5(path, md5, advance)


def _wrong_classes(what: Known, listing: Listing, strange: list[str]) -> list[str]:
    """Classes that are not there, and numbers that are not those that are known."""
    found = Counter(listing.labels)
    used = what.used or sorted(found)
    missing = [label for label in used if not found[label]]
    wrong = [f"missing class '{label}' ({what.classes.get(label, label)})" for label in missing]
    if not what.classes and what.use and len(found) != what.use:
        wrong.append(f"{len(found)} classes, expected {what.use}")
    pictures = sum(found[label] for label in used)
    print(f"classes: {len(used) - len(missing)} of {len(used)} that are used")
    print(f"pictures: {pictures:,} in these classes, {len(listing.labels):,} in all")
    if listing.parts is not None:
        mine = set(used)
        parts = Counter(
            part for label, part in zip(listing.labels, listing.parts, strict=True) if label in mine
        )
        print("split: " + ", ".join(f"{count:,} {part}" for part, count in sorted(parts.items())))
    if listing.ignored:
        print(f"ignored: {listing.ignored:,} files that are no pictures, or in no list")
    expected = what.train + what.test
    if expected:
        print(f"the paper has {what.train:,} training and {what.test:,} test pictures")
    if expected and pictures != expected and not missing and not strange:
        if what.subset:  # its classes may be others than ours
            print(f"note: {expected:,} in the paper; `proof data show {what.name}` says why")
        else:
            wrong.append(f"{pictures:,} pictures, expected {expected:,}")
    return wrong


def _wrong_pictures(listing: Listing, decode: bool) -> list[str]:
    """Pictures that are listed and not there, or cannot be decoded."""
    paths = [picture for picture in listing.pictures if isinstance(picture, str)]
    if not decode:
        return [f"no file '{path}'" for path in paths if not Path(path).is_file()]
    from concurrent.futures import ThreadPoolExecutor

    from proof.cli.progress import Bar
    from proof.pictures.readers import cores

    wrong = []
    with Bar() as bar, ThreadPoolExecutor(cores()) as pool:
        for done, (path, reason) in enumerate(
            zip(paths, pool.map(_why_broken, paths), strict=True), 1
        ):
            bar("decoding", done, len(paths))
            if reason:
                wrong.append(f"'{path}': {reason}")
    return wrong


def _why_broken(path: str) -> str:
    from proof.pictures import BrokenPicture, Preprocessing
    from proof.pictures import decode as decode_picture
    from proof.pictures.reader import read_file

    try:
        data, _ = read_file(path)
        decode_picture(data, Preprocessing((224, 224), "squash", (0, 0, 0), (1, 1, 1)))
    except BrokenPicture as error:
        return str(error)
    return ""


def _classes_line(what: Known) -> str:
    total = len(what.classes) or what.use
    used = what.use or total
    which = f"the first {used} of {total} are used" if used < total else f"all {total}"
    return f"{which} (`proof data show {what.name} --classes`)"


def _pictures_line(what: Known) -> str:
    if not what.train + what.test:
        return "their number is not published"
    return f"{what.train:,} for training and {what.test:,} for testing in the paper"


def _file_lines(what: Known) -> list[str]:
    lines = []
    for file in what.files:
        facts = [f"{file.bytes:,} bytes"] if file.bytes else []
        facts += [f"md5 {file.md5}"] if file.md5 else []
        lines.append(f"{file.name}  {file.url}" + (f"  ({', '.join(facts)})" if facts else ""))
    return lines


def _paragraph(title: str, text: str, width: int) -> str:
    """A title in a column of its own, and its text; lines that are laid out stay as they are."""
    indent = " " * 11
    lines = text.rstrip().splitlines()
    if len(lines) == 1:
        lines = textwrap.wrap(lines[0], width - len(indent), break_long_words=False)
    first, *rest = lines
    return "\n".join([f"{title:<11}{first}", *(f"{indent}{line}" for line in rest)])
