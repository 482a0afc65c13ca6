"""The whole search: fusion attributes, then DRAM attributes; and the paper's two stages under its Buffer Allocator."""

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import unknown_name
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem, Schedule, evaluate, parse
from codesign.scheduling.soma.kernels import score_scheme as ks
from codesign.scheduling.soma.model.notation import Encoding, FusionScheme, Status
from codesign.scheduling.soma.search import baselines as bl
from codesign.scheduling.soma.search.bound_start import bound_start
from codesign.scheduling.soma.search.dram_exact import solve_dram
from codesign.scheduling.soma.search.dram_search import DramChain, DramResult, greedy
from codesign.scheduling.soma.search.fusion_search import FusionChain, FusionResult, Workspace
from codesign.scheduling.soma.search.latency_bound import stage2_bound

# Shares of the budget: greedy fusion first; chains from different starts, refinement of the best, DRAM attributes.
EXPLORE_SHARE, REFINE_SHARE, DRAM_SHARE = 0.50, 0.25, 0.15
MERGE_SHARE = 0.10
HOT_TEMPERATURE, WARM_TEMPERATURE, REFINE_TEMPERATURE = 0.1, 0.03, 0.02
FINALISTS = 3
DEFAULT_CHAINS = 4
STARTS = ("bound", "greedy")
MOST_ROUNDS = 120_000
# Share of the time between two looks at the clock; proposals before the first.
LOOK_SHARE, FIRST_LOOK = 0.02, 16


@dataclass(frozen=True)
class SearchOptions:
    """How a search goes about it; with no limit in the budget, a number of proposals that grows with the network.

    Args:
        budget: Wall time, and proposals of the fusion search (the DRAM search gets as many again, scaled by its speed).
        seed: Seed of every random choice.
        chains: Independent fusion chains.
        workers: Threads they run on.
        start: ``bound``: the bound's fusion is a start where it is better than greedy fusion; ``greedy``: it is not tried.
    """

    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    chains: int = DEFAULT_CHAINS
    workers: int = 1
    start: str = STARTS[0]

    def __post_init__(self) -> None:
        check_least(1, chains=self.chains, workers=self.workers)
        check_least(0, seed=self.seed)
        if self.start not in STARTS:
            raise unknown_name("start", self.start, STARTS)


@dataclass(frozen=True)
class Found:
    """The outcome of a search.

    Args:
        schedule: The best schedule.
        stage1: What the fusion stage found: the schedule's scheme, and the effort of all chains.
        double_buffer: That scheme under the double-buffer rule; None: it needs prefetching to fit.
        dram_evaluations: Proposals over DRAM attributes.
        dram_bound_cycles: Lower bound for these tiles under any DRAM attributes.
        seconds: Wall time of the search, compilation excluded.
        cpu_seconds: CPU time of it.
        passes: Buffer Allocator passes (limit of stage 1 in bytes, objective reached).
        solver_status: How constraint programming ended (`dram_exact.ExactResult`); None when it was not asked for.
    """

    schedule: Schedule
    stage1: FusionResult
    double_buffer: Schedule | None
    dram_evaluations: int
    dram_bound_cycles: int
    seconds: float
    cpu_seconds: float
    passes: tuple[tuple[int, float], ...] = field(default=())
    solver_status: str | None = None

    @property
    def gap(self) -> float:
        """Relative distance of the latency from the bound of these tiles."""
        return 1.0 - self.dram_bound_cycles / self.schedule.latency_cycles

    @property
    def proof(self) -> str:
        """`optimal` when no DRAM attributes of these tiles can be faster, else `gap`."""
        return "optimal" if self.schedule.latency_cycles <= self.dram_bound_cycles else "gap"


def default_rounds(problem: Problem) -> int:
    """Proposals of the fusion search when no budget is given.

    Four times the published number, 100 per layer and root of the batch, but no more than `MOST_ROUNDS`: large batches take
    longer per scheme.
    """
    return min(int(400 * len(problem.graph.layers) * math.sqrt(problem.batch)), MOST_ROUNDS)


def warm_up() -> None:
    """Compile (or load from disk) everything a search runs, so that measured time is search time."""
    from codesign.scheduling.soma.model.hardware import EDGE
    from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
    from codesign.scheduling.soma.model.rules import REFERENCE

    first = Layer("l0", LayerType.CONV, 16, 8, 8, 16, in_h=8, in_w=8, ext_prevs=(0,))
    layers = (first, *(replace(first, name=f"l{i}", ifm_prevs=(i - 1,), ext_prevs=()) for i in (1, 2)))
    problem = Problem(LayerGraph("warm-up", layers, ((16, 8, 8),)), 1, EDGE, REFERENCE)
    start = bl.coarse_start(problem)
    if isinstance(start, Invalid):
        raise RuntimeError(start.reason)
    space = Workspace(problem, 1 << 10, 1 << 10)
    for timing in (ks.DOUBLE_BUFFER, ks.PREFETCH):
        chain = FusionChain(problem, start, Objective(), seed=0, timing=timing, workspace=space)
        chain.advance(0.0, 0.1, 4)
    found = finish(problem, start)
    if isinstance(found, Schedule):
        DramChain(found, seed=0).advance(0.0, 0.1, 4)
        stage2_bound(found.parsed)


def finish(problem: Problem, fusion: FusionScheme) -> Schedule | Invalid:
    """The greedy-prefetch schedule of a fusion scheme."""
    parsed = parse(problem, fusion)
    return parsed if isinstance(parsed, Invalid) else greedy(parsed)


def _share(options: SearchOptions, problem: Problem, part: float) -> tuple[float | None, int | None]:
    seconds, rounds = options.budget.time_limit_s, options.budget.evaluations
    if seconds is None and rounds is None:
        rounds = default_rounds(problem)
    return None if seconds is None else seconds * part, None if rounds is None else max(int(rounds * part), 1)


def _worth(objective: Objective, found: FusionResult | Schedule) -> float:
    return objective.score(found.energy_pj, found.latency_cycles)


def run_budget(
    advance: Callable[[float, float, int], None], seconds: float | None, rounds: int | None, chunk: int = 256
) -> None:
    """Call ``advance(begin, stop, rounds)`` until the time or the proposals are spent.

    Progress (0..1) is the larger of the two shares, so that cooling ends with whichever budget ends first. Without `seconds` the
    calls depend on `rounds` alone and a run is reproducible.
    """
    if seconds is not None:
        chunk = min(chunk, FIRST_LOOK)
    started = clock.wall_seconds()
    done, progress = 0, 0.0
    while progress < 1.0 and (rounds is None or done < rounds):
        step = chunk if rounds is None else min(chunk, rounds - done)
        share = 0.0 if rounds is None else (done + step) / rounds
        if seconds is not None:
            elapsed = clock.wall_seconds() - started
            share = max(share, (elapsed + (elapsed / done if done else 0.0) * step) / seconds)
        target = min(max(share, progress), 1.0)
        advance(progress, target, step)
        done += step
        progress = target
        if seconds is not None:
            elapsed = clock.wall_seconds() - started
            if elapsed >= seconds:
                break
            chunk = int(min(max(LOOK_SHARE * seconds * done / elapsed, 16), 1 << 16))


def _run_fusion(
    problem: Problem,
    start: FusionScheme,
    objective: Objective,
    seed: int,
    share: tuple[float | None, int | None],
    temperature: float,
    workspace: Workspace,
) -> FusionResult | None:
    deadline = None if share[0] is None else clock.wall_seconds() + share[0]
    chain = FusionChain(
        problem, start, objective, seed=seed, start_temperature=temperature, workspace=workspace, deadline=deadline
    )
    if not math.isfinite(chain.cost):
        return None
    run_budget(chain.advance, *share)
    return chain.result()


def _run_dram(begin: Schedule, seed: int, share: tuple[float | None, int | None]) -> DramResult:
    if len(begin.parsed.dram_ids) < 2:
        return DramResult(begin, 0, {})
    chain = DramChain(begin, seed=seed)
    run_budget(chain.advance, *share, chunk=1000)
    return chain.result()


def search(problem: Problem, objective: Objective, options: SearchOptions) -> Found | Invalid:
    """SoMa with prefetching inside the fusion search.

    Fusion schemes are scored with the greedy prefetch rule under the whole buffer, so the two stages do not compete for it
    and no allocator is needed. Several chains start from both ends (no fusion, everything fused) and from the bound's fusion where that
    is better than greedy fusion; the best ones are refined at a low temperature; the DRAM attributes of the finalists are then annealed from the greedy ones.

    Returns:
        The best schedule found, or why the network cannot run on this buffer.
    """
    warm_up()
    began, cpu = clock.wall_seconds(), clock.cpu_seconds()
    start = bl.coarse_start(problem)
    if isinstance(start, Invalid):
        return start
    deadline = None if options.budget.time_limit_s is None else began + MERGE_SHARE * options.budget.time_limit_s
    space = Workspace(problem)
    late = bl.reordered(start, problem.graph.latest_order)
    half = None if deadline is None else (began + deadline) / 2
    merged = [bl.merged_start(problem, s, objective, space, limit) for s, limit in ((start, half), (late, deadline))]
    if options.start == "bound":
        fused = bound_start(problem, start, objective, space, deadline)
        merged.append(bl.merged_start(problem, fused, objective, space, deadline))
    merged.sort(key=lambda scheme: bl.scheme_value(problem, scheme, objective, space))
    merged = merged[:2]
    starts = [(scheme, WARM_TEMPERATURE) for scheme in merged]
    starts += [(scheme, HOT_TEMPERATURE) for scheme in (*bl.fused_starts(problem), start)]
    explored = _explore(problem, objective, options, starts)
    if not explored:
        reason = "no scheme fits the buffer, not even without fusion and with every tile loaded when it is needed"
        return Invalid(Status.BUFFER_OVERFLOW, reason)
    seconds, rounds = _share(options, problem, REFINE_SHARE)
    refined = _run_fusion(
        problem,
        explored[0].fusion,
        objective,
        options.seed + 1000,
        (seconds, rounds),
        REFINE_TEMPERATURE,
        Workspace(problem),
    )
    results = [*([refined] if refined else []), *explored]
    best, dram_evaluations = _finalists(problem, objective, options, results, began)
    return _found(problem, best, results, dram_evaluations, began, cpu)


def prove(found: Found, seconds: float, options: SearchOptions) -> Found:
    """The result after constraint programming on the DRAM attributes of its tiles: faster, or with a higher bound, or as it was.

    Args:
        found: What a search found.
        seconds: Wall time of the solver.
        options: Its seed and workers are the solver's.
    """
    began, cpu = clock.wall_seconds(), clock.cpu_seconds()
    exact = solve_dram(found.schedule, seconds, workers=options.workers, seed=options.seed)
    return replace(
        found,
        schedule=exact.schedule,
        dram_bound_cycles=max(found.dram_bound_cycles, exact.bound_cycles),
        solver_status=exact.status,
        seconds=found.seconds + clock.wall_seconds() - began,
        cpu_seconds=found.cpu_seconds + clock.cpu_seconds() - cpu,
    )


def _explore(
    problem: Problem, objective: Objective, options: SearchOptions, starts: list[tuple[FusionScheme, float]]
) -> list[FusionResult]:
    workers = min(options.workers, options.chains)
    seconds, rounds = _share(options, problem, EXPLORE_SHARE / options.chains)
    if seconds is not None:
        seconds *= workers
    spaces = [Workspace(problem) for _ in range(workers)]

    def run(index: int) -> FusionResult | None:
        begin, temperature = starts[index % len(starts)]
        space = spaces[index % workers] if workers == 1 else Workspace(problem)
        return _run_fusion(
            problem, begin, objective, options.seed * 7919 + index, (seconds, rounds), temperature, space
        )

    if workers == 1:
        outcomes = [run(i) for i in range(options.chains)]
    else:
        with ThreadPoolExecutor(workers) as pool:
            outcomes = list(pool.map(run, range(options.chains)))
    found = [outcome for outcome in outcomes if outcome is not None]
    return sorted(found, key=lambda r: _worth(objective, r))


def _finalists(
    problem: Problem, objective: Objective, options: SearchOptions, results: list[FusionResult], began: float
) -> tuple[Schedule, int]:
    """Anneal the DRAM attributes of the best few schemes; the first gets half the time."""
    ranked = sorted(results, key=lambda r: _worth(objective, r))
    distinct = list({r.fusion: r for r in ranked}.values())[:FINALISTS]
    limit = options.budget.time_limit_s
    left = None if limit is None else max(limit - (clock.wall_seconds() - began), 0.05 * limit)
    best: Schedule | None = None
    evaluations = 0
    for index, result in enumerate(distinct):
        part = 1.0 if len(distinct) == 1 else 0.5 if index == 0 else 0.5 / (len(distinct) - 1)
        begin = finish(problem, result.fusion)
        if isinstance(begin, Invalid):
            continue
        _, rounds = _share(options, problem, DRAM_SHARE * part)
        share = None if left is None else left * part, None if rounds is None else rounds * 20
        done = _run_dram(begin, options.seed + 17 * index, share)
        evaluations += done.evaluations
        if best is None or _worth(objective, done.schedule) < _worth(objective, best):
            best = done.schedule
    if best is None:
        raise RuntimeError("the fusion search returned no scheme that the evaluator accepts")
    return best, evaluations


def _found(
    problem: Problem, best: Schedule, results: list[FusionResult], dram_evaluations: int, began: float, cpu: float
) -> Found:
    seconds, cpu_seconds = clock.wall_seconds() - began, clock.cpu_seconds() - cpu
    fusion = best.parsed.fusion
    chosen = next((r for r in results if r.fusion == fusion), results[0])
    moves: dict[str, tuple[int, ...]] = {}
    for result in results:
        for name, row in result.moves.items():
            moves[name] = tuple(a + b for a, b in zip(moves.get(name, (0,) * len(row)), row, strict=True))
    plain = evaluate(problem, Encoding(fusion))
    stage1 = replace(
        chosen,
        fusion=fusion,
        evaluations=sum(r.evaluations for r in results),
        legal=sum(r.legal for r in results),
        moves=moves,
    )
    buffered = plain if isinstance(plain, Schedule) else None
    return Found(best, stage1, buffered, dram_evaluations, stage2_bound(best.parsed), seconds, cpu_seconds)


def search_paper(problem: Problem, objective: Objective, options: SearchOptions) -> Found | Invalid:
    """The paper's search: double-buffered fusion stage, DRAM stage, and the Buffer Allocator around them.

    The first pass gives stage 1 the whole buffer; every later pass 10 % of that pass's peak less; it stops after two passes
    without improvement (paper, Section V-B).
    """
    warm_up()
    began, cpu = clock.wall_seconds(), clock.cpu_seconds()
    first = bl.published_start(problem)
    if isinstance(first, Invalid):
        return first
    space = Workspace(problem)
    best: tuple[float, Schedule, FusionResult] | None = None
    limit, peak, misses, index = problem.limit_bytes, 0, 0, 0
    passes: list[tuple[int, float]] = []
    dram_evaluations = 0
    while misses < 2 and limit > 0 and index < 10:
        within = replace(problem, buffer_bytes=limit)
        start = bl.published_start(within)
        if isinstance(start, Invalid):
            break
        seed = options.seed * 31 + index
        chain = FusionChain(within, start, objective, seed=seed, timing=ks.DOUBLE_BUFFER, workspace=space)
        if not math.isfinite(chain.cost):
            break
        run_budget(chain.advance, *_share(options, problem, 0.1))
        result = chain.result()
        begin = evaluate(problem, Encoding(result.fusion))
        if isinstance(begin, Invalid):
            raise RuntimeError(begin.reason)
        seconds, rounds = _share(options, problem, 0.06)
        done = _run_dram(begin, options.seed + index, (seconds, None if rounds is None else rounds * 20))
        dram_evaluations += done.evaluations
        value = _worth(objective, done.schedule)
        passes.append((limit, value))
        misses = 0 if best is None or value < best[0] else misses + 1
        if best is None or value < best[0]:
            best = (value, done.schedule, result)
        if index == 0:
            peak = begin.peak_buffer_bytes
        index += 1
        limit = int(peak * (1.0 - 0.1 * index))
    if best is None:
        return Invalid(Status.BUFFER_OVERFLOW, "the double-buffered start scheme does not fit the buffer")
    found = _found(problem, best[1], [best[2]], dram_evaluations, began, cpu)
    return replace(found, passes=tuple(passes))


def _baseline_chain(problem: Problem, objective: Objective, seed: int, name: str) -> FusionChain | None:
    """A chain from the first start scheme that runs: core tiles (Cocco), the published start, whole samples."""
    makers = [bl.published_start, bl.coarse_start]
    if name == "cocco":
        makers.insert(0, bl.cocco_start)
    moves = bl.COCCO_MOVES if name == "cocco" else bl.UNFUSED_MOVES
    # Double buffering holds parts of neighbouring layers too: where that overflows, layers are cut for a smaller buffer.
    for maker, share in itertools.product(makers, (1, 2, 4)):
        start = maker(replace(problem, buffer_bytes=problem.limit_bytes // share))
        if isinstance(start, Invalid):
            continue
        chain = FusionChain(problem, start, objective, seed=seed, timing=ks.DOUBLE_BUFFER, moves=moves)
        if math.isfinite(chain.cost):
            return chain
    return None


def search_baseline(problem: Problem, objective: Objective, options: SearchOptions, name: str) -> Found | Invalid:
    """`cocco` (order and DRAM cuts, tiling by rule) or `unfused` (tiling numbers only), both double-buffered."""
    warm_up()
    began, cpu = clock.wall_seconds(), clock.cpu_seconds()
    start = bl.coarse_start(problem)
    if isinstance(start, Invalid):
        return start
    chain = _baseline_chain(problem, objective, options.seed, name)
    if chain is None:
        return Invalid(Status.BUFFER_OVERFLOW, "the unfused scheme, double-buffered, does not fit the buffer")
    run_budget(chain.advance, *_share(options, problem, 1.0))
    result = chain.result()
    best = evaluate(problem, Encoding(result.fusion))
    if isinstance(best, Invalid):
        raise RuntimeError(best.reason)
    return _found(problem, best, [result], 0, began, cpu)
