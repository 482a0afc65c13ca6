"""A tree chosen by simulation: searches without and with loads in view, and the better of both on the mesh (rule M55)."""

from dataclasses import replace

from codesign.scheduling.segments.contention import ContentionSimulator, Simulated
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluator
from codesign.scheduling.segments.packet_lists import MemoryClock
from codesign.scheduling.segments.search import Searched, SearchSettings, TreeSearch


def search_in_view(
    evaluator: Evaluator, batch: int, settings: SearchSettings, memory: MemoryClock | None
) -> tuple[Searched, Simulated]:
    """Search a network by the evaluator's rules and by our own, each with half of the budget; the better one when simulated.

    Args:
        evaluator: Network, system, and rules with loads in view.
        batch: Samples of the whole.
        settings: Of both searches together; simulations come on top.
        memory: DRAMs of the simulation; None for a steady rate.

    Returns:
        The better one under the evaluator's rules, and as it was simulated.

    Raises:
        NothingFitsError: No tree fits.
    """
    steps = None if settings.steps is None else max(1, settings.steps // 2)
    half = replace(settings, seconds=settings.seconds / 2, steps=steps)
    simulator = ContentionSimulator(evaluator, memory)
    plain = Evaluator(evaluator.system, evaluator.network, OWN_RULES)
    found: list[tuple[float, Searched, Simulated]] = []
    for rules in (evaluator, plain):
        searched = TreeSearch(rules, batch, half).run()
        evaluation = evaluator.evaluate(searched.evaluation.root)
        run = simulator.simulate(evaluation)
        value = run.energy_pj**settings.energy_power * float(run.time) ** settings.time_power
        found.append((value, replace(searched, evaluation=evaluation), run))
    _, best, simulated = min(found, key=lambda one: one[0])
    steps_of_both, segments, cpu = (
        sum(getattr(f, name) for _, f, _ in found) for name in ("steps", "segments", "seconds")
    )
    return replace(best, steps=steps_of_both, segments=segments, seconds=cpu), simulated
