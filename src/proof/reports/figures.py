"""The figures of a report as picture files, for papers and documents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proof.reports.curves import draw_curves, draw_lines, name_ends
from proof.reports.groups import Setting, labels_of
from proof.reports.style import legend, line, new_figure, plain, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("png", "svg")
_ACROSS = 3  # panels side by side


def draw_figures(settings: Sequence[Setting], folder: Path) -> list[Path]:
    """Write every figure of every setting, and the curves of all of them in one."""
    labels = labels_of(settings)
    paths = []
    for stem, figure in _all(settings, labels):
        for suffix in _FORMATS:
            paths.append(folder / f"{stem}.{suffix}")
            save(figure, paths[-1])
    return paths


def _all(settings: Sequence[Setting], labels: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    if len(settings) > 1:
        yield "curves", draw_curves(settings, labels)
    for stem, setting in zip(_stems(settings), settings, strict=True):
        yield f"{stem}-curves", draw_curves([setting], labels)
        if setting.has("accuracy_matrix"):
            yield f"{stem}-matrices", _matrices(setting)
            yield f"{stem}-forgetting", _forgetting(setting, labels)
        if setting.zero_shot:
            yield f"{stem}-zero-shot", _zero_shot(setting, labels)
        if setting.has("total_parameters"):
            yield f"{stem}-parameters", _parameters(setting, labels)
        yield f"{stem}-seconds", _seconds(setting, labels)


def _stems(settings: Sequence[Setting]) -> list[str]:
    """A file's name for each setting: its title in plain letters, numbered where two are alike."""
    stems: list[str] = []
    for setting in settings:
        stem = re.sub(r"[^a-z0-9]+", "-", setting.title.lower()).strip("-")[:60] or "stream"
        count = 1
        while (name := f"{stem}-{count}" if count > 1 else stem) in stems:
            count += 1
        stems.append(name)
    return stems


def _forgetting(setting: Setting, labels: Sequence[str]) -> Figure:
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    curves = {entry.label: entry.forgetting() for entry in setting.entries}
    name_ends(axes, draw_lines(axes, setting, curves, labels))
    axes.set_ylabel("forgetting (points)")
    axes.set_title(plain(setting.title), loc="left", fontsize=11)
    return figure


def _zero_shot(setting: Setting, labels: Sequence[str]) -> Figure:
    """The paper's panels: accuracy on seen and unseen classes, their harmonic mean, and the
    matching score where there were pairs."""
    figure = new_figure(4 * len(setting.zero_shot), 4)
    for place, (key, title) in enumerate(setting.zero_shot.items(), 1):
        axes = figure.add_subplot(1, len(setting.zero_shot), place)
        curves = {entry.label: entry.curve("zero_shot", key) for entry in setting.entries}
        there = {label: curve for label, curve in curves.items() if curve}
        draw_lines(axes, setting, there, labels)
        axes.set_title(plain(title), loc="left", fontsize=11)
    legend(figure, labels, [entry.label for entry in setting.entries])
    figure.suptitle(plain(setting.title), x=0.01, ha="left", fontsize=11)
    return figure


def _matrices(setting: Setting) -> Figure:
    """A heat map for each method: the accuracy on each task after each task."""
    count = len(setting.entries)
    columns = min(count, _ACROSS)
    rows = math.ceil(count / columns)
    figure = new_figure(3.6 * columns + 0.8, 3.4 * rows + 0.4)
    matrices = [entry.matrix() for entry in setting.entries]
    values = [value for matrix in matrices for row in matrix for value in row]
    all_axes = []
    for place, (entry, matrix) in enumerate(zip(setting.entries, matrices, strict=True), 1):
        axes = figure.add_subplot(rows, columns, place)
        tasks = len(matrix)
        square = [[*row, *[math.nan] * (tasks - len(row))] for row in matrix]
        picture = axes.imshow(square, cmap="Blues", vmin=min(values), vmax=max(values))
        axes.set_title(plain(entry.label), loc="left", fontsize=11)
        axes.set(xlabel="classes of task", ylabel="after task")
        step = max(1, tasks // 10)
        axes.set_xticks(range(0, tasks, step), map(str, range(1, tasks + 1, step)))
        axes.set_yticks(range(0, tasks, step), map(str, range(1, tasks + 1, step)))
        axes.spines[:].set_visible(False)
        all_axes.append(axes)
    figure.colorbar(picture, ax=all_axes, label="accuracy (%)", shrink=0.8)
    figure.suptitle(plain(setting.title), x=0.01, ha="left", fontsize=11)
    return figure


def _parameters(setting: Setting, labels: Sequence[str]) -> Figure:
    """What is kept beside the frozen encoder; the paper's shade is on what only learning needs."""
    entries = sorted(setting.entries, key=lambda entry: entry.number("total_parameters") or 0)
    figure = new_figure(7, 0.8 + 0.42 * len(entries))
    axes = figure.add_subplot()
    for row, entry in enumerate(entries):
        total, kept = (
            (entry.number(key) or 0) / 1e6 for key in ("total_parameters", "inference_parameters")
        )
        colour = line(labels.index(entry.label))["color"]
        axes.barh(row, kept, color=colour)
        axes.barh(
            row, total - kept, left=kept, color=colour, alpha=0.25, hatch="///", edgecolor=colour
        )
        of = f" of {total:.3g}" if total > kept else ""
        axes.annotate(f"  {kept:.3g}{of} M", (total, row), va="center")
    axes.set_yticks(range(len(entries)), [plain(entry.label) for entry in entries])
    scale = ""
    if setting.kept_from:
        axes.set_xscale("log")
        axes.set_xlim(left=setting.kept_from / 1e6)
        scale = ", logarithmic"
    axes.set_xlabel(f"million numbers{scale} (shaded: only while learning)")
    axes.set_title(plain(setting.title), loc="left", fontsize=11)
    axes.margins(x=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _seconds(setting: Setting, labels: Sequence[str]) -> Figure:
    """Accuracy against the time of a run."""
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    for entry in setting.entries:
        seconds = (entry.value("seconds") or (0.01, 0))[0]
        look = line(labels.index(entry.label)) | {"linestyle": ""}
        axes.plot(max(seconds, 0.01), entry.average, **look, markersize=8)
    legend(figure, labels, [entry.label for entry in setting.entries])
    axes.set(xscale="log", xlabel="seconds a run", ylabel="average accuracy (%)")
    axes.set_title(plain(setting.title), loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
