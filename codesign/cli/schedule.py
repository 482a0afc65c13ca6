"""`codesign schedule`: how a whole network runs on one accelerator, by one of several schedulers.

The schedulers come in families, one module each (`schedule_soma`, `schedule_fused`, `schedule_cosma`), that say which
names they answer to and which options they read. An option that the chosen scheduler would not read is refused.
"""

import importlib
from dataclasses import replace
from typing import Protocol, cast

from codesign.cli.options import first_given
from codesign.cli.schedule_options import ScheduleOptions
from codesign.core.errors import UserError, unknown_name


class SchedulerFamily(Protocol):
    """What a module `codesign.cli.schedule_*` offers."""

    SCHEDULERS: dict[str, frozenset[str]]
    """Scheduler name -> names of the `ScheduleOptions` fields it reads besides scheduler and output_format."""

    def run(self, options: ScheduleOptions) -> None:
        """Schedule and print."""


FAMILIES = ("schedule_soma", "schedule_fused", "schedule_cosma", "schedule_segments")
DEFAULT_SCHEDULER = "soma"
"""Where the options imply none."""


def schedule_command(options: ScheduleOptions) -> None:
    """Schedule a whole network on one accelerator: fusion, order, DRAM traffic, scratchpad addresses.

    For example:

    codesign schedule --network resnet50 --arch soma-edge

    codesign schedule --network squeezenet --arch soma-edge --scheduler cosma --capacity 512KiB

    codesign schedule --network resnet50 --arch soma-edge --scheduler soma cosma --batch 1
    """
    families: dict[str, SchedulerFamily] = {}
    for module_name in FAMILIES:
        family = cast(SchedulerFamily, importlib.import_module(f"codesign.cli.{module_name}"))
        families |= dict.fromkeys(family.SCHEDULERS, family)
    if not options.scheduler:
        from codesign.cli.schedule_cosma import implied

        options = replace(options, scheduler=implied(options) or DEFAULT_SCHEDULER)
    if len(options.scheduler.replace(",", " ").split()) > 1:
        from codesign.cli import schedule_compare

        if options.timing is not None:
            raise UserError("--timing is used with one scheduler", hint=f"got {options.scheduler!r}")
        schedule_compare.run(options)
        return
    if options.scheduler not in families:
        raise unknown_name("scheduler", options.scheduler, families)
    family = families[options.scheduler]
    unread = first_given(options, family.SCHEDULERS[options.scheduler] | {"scheduler", "output_format"})
    if unread is not None:
        raise UserError(f"{unread} is not used by scheduler {options.scheduler!r}", hint="leave it out")
    family.run(options)
