"""Which parameter of the library stands for which option, where the names alone do not say it."""

_HARDWARE_AND_NETWORK = (
    "load_architecture",
    "load_network",
    "load_layer",
    "BetweenLayers",
    "TimingOptions",
    "MapOptions",
)

DOORS: dict[str, tuple[str, ...]] = {
    "map": ("map_layer", "map_network", "map_files", *_HARDWARE_AND_NETWORK),
    "evaluate": ("evaluate", *_HARDWARE_AND_NETWORK),
    "schedule": ("schedule", "ScheduleOptions", "load_network", "TimingOptions"),
    "serve": ("serve", "ServeOptions"),
    "tensorize": ("tensorize", "TensorizeOptions"),
    "build": ("build", "BuildOptions"),
    "explore": (
        *("WorkloadSpec", "PlaceSpec", "StudySpec", "SearchSpec", "JudgeSpec", "FidelitySpec", "WorkersSpec"),
        *("BetweenLayers", "ChoicesSpec"),
    ),
    "compare": ("compare", "open_study"),
    "sensitivity": ("open_study",),
    "report": ("open_study",),
    "study show": ("open_study",),
    "study export": ("open_study",),
    "verify": ("check_certificate",),
}
"""Command -> what `import codesign` offers for it; their parameters are looked through for the name of an option."""

_BETWEEN: dict[str, str | tuple[str, ...]] = {"--activation-buffer": "BetweenLayers.activation_bytes"}
_STUDY: dict[str, str | tuple[str, ...]] = {"place": "open_study.place", "--study": "open_study.name"}

RENAMED: dict[str, dict[str, str | tuple[str, ...]]] = {
    "map": {
        **_BETWEEN,
        "files": ("load_architecture.more", "map_files.files"),
        "--arch": ("map_layer.architecture", "map_network.architecture"),
        "--option": "MapOptions.mapper_options",
        "--certificate": "map_files.certify",
    },
    "evaluate": {
        "--arch": "evaluate.architecture",
        **_BETWEEN,
        "files": "load_architecture.more",
        "--layer": "evaluate.workload",
        "--network": ("evaluate.workload", "load_network.name_or_path"),
        "--mappings": "evaluate.mapping",
    },
    "schedule": {"--arch": "schedule.architecture"},
    "convert": {"--arch": "load_architecture.name_or_path"},
    "serve": {"--arch": "serve.architecture", "--system": "serve.architecture"},
    "tensorize": {"notation": "tensorize.computation"},
    "explore": {
        **_BETWEEN,
        "file": "explore.spec",
        "--network": "WorkloadSpec.networks",
        "--workload": "WorkloadSpec.serving",
        "--constraint": "SearchSpec.constraints",
        "--map-objective": "JudgeSpec.objective",
        "--fidelity": "FidelitySpec.fidelities",
        "--low-fidelity-mapper": "FidelitySpec.low_mapper",
        "--low-fidelity-evaluations": "FidelitySpec.low_evaluations",
        "--low-fidelity-cost": "FidelitySpec.low_cost",
        "--workers": "WorkersSpec.count",
    },
    "compare": {"runs": "compare.studies", "--level": "compare.levels", "--study": "open_study.name"},
    "sensitivity": _STUDY,
    "report": _STUDY,
    "study show": _STUDY,
    "study export": {"--study": "open_study.name"},
    "verify": {"file": "check_certificate.certificate"},
}
"""Options that are spelt otherwise in Python."""

_SOMA = "codesign.scheduling.soma.scheduler:SomaScheduler"
_COSMA = "codesign.scheduling.cosma.scheduler:CosmaScheduler"
_PROGRAM = "codesign.tensorization"
_ANALYSE = "codesign.report.sensitivity:analyse"
_PROVEN = "codesign.report.optimal_interval:stability"
_TRAINING = "envs.training:TrainingConfig"
_FILES = "codesign.library.arguments:Sources"

_OBSERVE = "codesign.workloads.onnx.observed:observe"
_ZEROS = {
    "--zeros": "codesign.workloads.network_zeros:with_zeros(zeros)",
    "--zero-support": "codesign.arch.zero_support:knowing_zeros(support)",
}

ELSEWHERE: dict[str, dict[str, str]] = {
    "map": _ZEROS,
    "density": {
        "--network": f"{_OBSERVE}(path)",
        "--data": f"{_OBSERVE}(samples)",
        "--masks": f"{_OBSERVE}(masks)",
        "--dims": "codesign.workloads.load:load_network(dims)",
        "--out": "codesign.workloads.zero_file:write_zeros(path)",
    },
    "evaluate": {**_ZEROS, "--per-design": "codesign.evaluation.trade_offs:trade_offs"},
    "schedule": {
        "--buffers": "codesign.scheduling.allocation.solve:allocate(buffers)",
        "--parameters": f"{_COSMA}(parameters)",
        "--unfused-graph": f"{_COSMA}(fused)",
        "--route": f"{_COSMA}(route)",
        "--mode": f"{_SOMA}(mode)",
        "--tile-cost": f"{_SOMA}(tile_mapper)",
        "--evaluate": "codesign.scheduling.soma.evaluator:evaluate(encoding)",
        "--prove": f"{_SOMA}(prove_s)",
        "--dram-device": "codesign.scheduling.segments.device_memory:DeviceMemory(device)",
        "--halos": "codesign.scheduling.fused.scheduler:FusedScheduler(halos)",
        "--start": f"{_SOMA}(start)",
        "--chains": f"{_SOMA}(chains)",
        "--workers": f"{_SOMA}(workers)",
        "--html": "codesign.scheduling.soma.execution_page:page",
    },
    "tensorize": {
        "--prove": f"{_PROGRAM}.execute:proves_equal",
        "--trees": f"{_PROGRAM}.trees:syntax_tree",
        "--emit": f"{_PROGRAM}.program:generate_program",
        "--stage": f"{_PROGRAM}.stages:split_stages",
        "--choice": f"{_PROGRAM}.choice:choices",
        "--tiles": f"{_PROGRAM}.schedule:schedule_from_tiles(tiles)",
        "--order": f"{_PROGRAM}.schedule:schedule_from_tiles(order)",
        "--capacity": f"{_PROGRAM}.scratchpad:Scratchpad(capacity_bytes)",
        "--banks": f"{_PROGRAM}.scratchpad:Scratchpad(banks)",
        "--arch": f"{_PROGRAM}.scratchpad:memories_of(architecture)",
        "--mapping": f"{_PROGRAM}.schedule:schedule_from_mapping(mapping)",
        "--reuse": f"{_PROGRAM}.program:generate_program(reuse)",
        "--run": f"{_PROGRAM}.simulator:simulate",
        "--seed": f"{_PROGRAM}.execute:random_inputs(seed)",
        "--core": f"{_PROGRAM}.intrinsic_core:Core",
        "--design": "codesign.library.changes:changes",
        "--search": f"{_PROGRAM}.search_registry:create_search",
        "--evaluations": f"{_PROGRAM}.search_registry:create_search",
    },
    "explore": {
        "--save-config": "codesign.study.specification:write_study_spec(path)",
        "--certificate": "codesign.library.studies:Exploration.front_certificate",
        "--technology": "spaces.design:DesignSpace.with_technology(technology)",
    },
    "compare": {
        "--csv": "codesign.report.compare_files:summary_csv",
        "--latex": "codesign.report.compare_files:latex_table",
    },
    "sensitivity": {
        "--constant": f"{_ANALYSE}(constants)",
        "--factor": f"{_ANALYSE}(factors)",
        "--remap": f"{_ANALYSE}(remap)",
        "--prove": _PROVEN,
        "--design": f"{_PROVEN}(trial)",
        "--epsilon": f"{_PROVEN}(epsilon)",
        "--space": f"{_ANALYSE}(space)",
    },
    "report": {
        "--export-design": "codesign.report.export:export_design(number)",
        "--to": "codesign.report.export:export_design(folder)",
        "--no-added-levels": "codesign.report.export:export_design(allow_added)",
        "--space": "codesign.report.export:export_design(space)",
    },
    "convert": {
        "--to": "codesign.formats.convert:to_files(dialect)",
        "files": f"{_FILES}.resolve(files)",
        "--layer": f"{_FILES}(layer)",
        "--clock-hz": f"{_FILES}(clock_hz)",
        "--technology": f"{_FILES}(technology)",
        "--no-added-levels": "codesign.formats.convert:to_files(allow_added)",
    },
    "calibrate": {
        "measurements": "codesign.timing.calibrate:FitProblem(measured)",
        "--timing-table": "codesign.timing.table:load_timing(name)",
        "--fit": "codesign.timing.calibrate:FitProblem(names)",
    },
    "study list": {"places": "codesign.study.storage:Database.studies"},
    "study export": {"names": "codesign.study.exchange_files:export_study(path)"},
    "study import": {
        "file": "codesign.study.exchange_files:import_study(path)",
        "--out": "codesign.study.exchange_files:import_study(out)",
        "--storage": "codesign.study.exchange_files:import_study(storage)",
        "--study": "codesign.study.exchange_files:import_study(name)",
        "--like": "codesign.study.exchange_files:import_study(like)",
    },
    "train": {
        "--env": "envs.training:ScheduleTrainer(environment)",
        **{
            f"--{name}": f"{_TRAINING}({name.replace('-', '_')})"
            for name in (
                *("timesteps", "algorithm", "cases", "case-seed", "horizon", "width", "learning-rate", "gamma"),
                *("environments", "checkpoint-every", "seed"),
            )
        },
        "--resume": "envs.training:train(resume)",
        "--out": "envs.training:train(out)",
    },
}
"""Options of rarer tasks, whose counterpart is below the front door: an object, or a parameter of one."""

TERMINAL: dict[str, str] = {"--format": "how a result is printed: results have to_json(), to_frame() and plot()"}
"""Options of every command that a program has no use for, and why."""

TERMINAL_HERE: dict[str, dict[str, str]] = {
    "map": {"--out": "where a printed result is written too: `mapping` and to_json() are values"},
    "evaluate": {"--out": "as of map"},
    "schedule": {"--out": "as of map"},
    "tensorize": {"--out": "as of map"},
    "compare": {"--out": "where the page goes: plot() and rows() are values"},
    "sensitivity": {"--out": "where the page goes"},
    "report": {"--out": "where the page goes: Exploration.write_report takes it"},
    "convert": {"--out": "where the texts go, which are values"},
    "calibrate": {"--out": "where the fitted table goes, which is a value"},
    "compile": dict.fromkeys(
        ("commands", "--jobs", "--portable"), "makes code ahead of commands; programs compile what they call"
    ),
}
"""The same of one command."""

PYTHON_ONLY: dict[str, str] = {
    "MapOptions.constraints": "the command reads them from files",
    "load_network.fuse": "each command knows which form its search needs",
    "ScheduleOptions.scheduler_options": "the command has an option for each",
    "explore.listener": "the command's is its progress bar",
    "serve.began": "the command's shows the searches",
}
"""Parameters that are no option, and why."""

OTHER_DEFAULTS: dict[str, str] = {
    "schedule --scheduler": "empty: the graph's form implies one, else soma",
    "serve --mapper": "empty: exact, unless step times are those of trees",
}
"""Defaults that differ, and why."""
