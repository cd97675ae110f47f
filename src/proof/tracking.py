"""Records for experiment trackers: the curve as steps, the final metrics, the options as config.

Each tracker is imported only where it is asked for, and keeps to its own settings: where it writes,
and whether it goes over a network, is said to it as to any program that uses it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

from proof.errors import ProofError
from proof.extras import import_extra
from proof.runs import Record

_PROJECT = "proof"
_FINAL = ("average", "last", "forgetting", "backward_transfer", "seconds")
Metrics = dict[str, float]
Config = dict[str, str | int | float | bool]


def start_tracking(name: str) -> Callable[[Record], None]:
    """A function that sends the record of a finished run to the tracker `name`."""
    if name not in TRACKERS:
        raise ProofError(f"--track {name}: expected one of {', '.join(TRACKERS)}")
    module, send = TRACKERS[name]
    package = import_extra(module, name, f"--track {name}")
    one_at_a_time = threading.Lock()  # trackers know one run under way

    def track(record: Record) -> None:
        run = run_name(record)
        try:
            with one_at_a_time:
                send(package, run, config(record), steps(record), final(record))
        except Exception as error:  # of any kind: a tracker that fails must not stop the runs
            print(f"{run} did not reach {name}: {error}", file=sys.stderr)

    return track


def run_name(record: Record) -> str:
    """What a tracker calls the run."""
    parts = (record["data"], record["protocol"], record["method"])
    return " ".join((*parts, f"seed {record['seed']}"))


def config(record: Record) -> Config:
    """What the run was told, flat."""
    names = ("method", "data", "encoder", "protocol", "order_seed", "seed", "device", "key")
    facts = {name: record[name] for name in names if record.get(name) is not None}
    facts["exemplars"] = record["exemplar_budget"]
    return facts | {f"options.{name}": value for name, value in record["options"].items()}


def steps(record: Record) -> list[Metrics]:
    """What was measured after each task."""
    lists = {
        "accuracy": record["curve"],
        "top5_accuracy": record["top5_curve"],
        "task_seconds": record["task_seconds"],
        **{f"zero_shot/{name}": values for name, values in record["zero_shot"].items()},
    }
    return [
        {name: values[task] for name, values in lists.items() if values[task] is not None}
        for task in range(len(record["curve"]))
    ]


def final(record: Record) -> Metrics:
    """What was measured in the end."""
    return {name: record[name] for name in _FINAL}


def _tensorboard(
    package: Any, name: str, told: Config, measured: list[Metrics], end: Metrics
) -> None:
    folder = re.sub(r"[^\w.=]+", "-", f"{name} {told['key']}")
    with package.SummaryWriter(f"tensorboard/{folder}") as writer:
        for task, metrics in enumerate(measured, 1):
            for metric, value in metrics.items():
                writer.add_scalar(metric, value, task)
        final = {f"final/{metric}": value for metric, value in end.items()}
        writer.add_hparams(told, final, run_name=".")


def _wandb(package: Any, name: str, told: Config, measured: list[Metrics], end: Metrics) -> None:
    with package.init(project=_PROJECT, name=name, config=told, reinit="finish_previous") as run:
        for task, metrics in enumerate(measured, 1):
            run.log(metrics, step=task)
        run.summary.update(end)


def _mlflow(package: Any, name: str, told: Config, measured: list[Metrics], end: Metrics) -> None:
    package.set_experiment(_PROJECT)
    with package.start_run(run_name=name):
        package.log_params(told)
        for task, metrics in enumerate(measured, 1):
            package.log_metrics(metrics, step=task)
        package.log_metrics(end)


def _trackio(package: Any, name: str, told: Config, measured: list[Metrics], end: Metrics) -> None:
    package.init(project=_PROJECT, name=f"{name} {told['key']}", config=told)
    for task, metrics in enumerate(measured, 1):
        package.log(metrics, step=task)
    package.log(end, step=len(measured))
    package.finish()


# The module that each needs, and what sends to it.
TRACKERS: dict[str, tuple[str, Callable[[Any, str, Config, list[Metrics], Metrics], None]]] = {
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
    "wandb": ("wandb", _wandb),
    "mlflow": ("mlflow", _mlflow),
    "trackio": ("trackio", _trackio),
}
