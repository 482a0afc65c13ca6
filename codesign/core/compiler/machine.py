"""LLVM: text to machine code, and machine code to functions that Python calls."""

import _thread
import ctypes
import os
import threading
import traceback
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from codesign.core.compiler.entry import AXES, DATA, DESCRIPTION, FLAGS, SHAPE, STRIDES, TYPE_NUMBER
from codesign.core.errors import CodesignError

MISMATCH = object()
"""What a compiled function returns when an argument is not of the type it was made for."""

PORTABLE = "x86-64-v3"
"""The processor that code is made for when it is to run on others: vector units of 256 bits and fused operations."""

_NEW_ARRAY = 93
"""Place of `PyArray_New` in NumPy's table of functions (`numpy/__multiarray_api.h`)."""

_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_Resolve = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)


def _resolve(signature: bytes) -> int:
    """The address of a kernel apart, compiled or loaded now; a running kernel cannot go on without it.

    Nothing may be raised through machine code: an interrupt waits until the kernel returns, anything else ends the process.
    """
    from codesign.core.compiler.manifest import resolve

    interrupted = False
    while True:
        try:
            kernel, kinds = resolve(signature.decode())
            address = int(kernel.address(kinds))
            if interrupted:
                threading.Timer(0.1, _thread.interrupt_main).start()
            return address
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            traceback.print_exc()
            os.abort()


_resolver = _Resolve(_resolve)


def _processor() -> tuple[str, str]:
    """Name and features of the processor that runs this."""
    llvm = _llvm()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def native() -> str:
    """What names code made for this processor by this LLVM."""
    return ",".join([*map(str, _llvm().llvm_version_info), *_processor()])


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _target_machine(cpu: str, features: str) -> Any:
    target = _llvm().Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=2, codemodel="jitdefault", jit=True)


def compile_text(text: str, portable: bool = False) -> bytes:
    """An object file from the text of a module.

    Args:
        text: The module.
        portable: Make code for any processor of the last ten years instead of this one.

    Raises:
        CodesignError: LLVM does not take the text: a fault of the translator.
    """
    llvm = _llvm()
    machine = _target_machine(PORTABLE, "") if portable else _target_machine(*_processor())
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodesignError(f"the translator made code that LLVM refuses: {error}") from error
    # Loops over tensors and dimensions are short: neither unrolled nor vectorised loops bring speed, and half of
    # the time of compiling goes to them; nor does the third level over the second.
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.slp_vectorization = options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@cache
def _engine() -> Any:
    llvm = _llvm()
    _check_layout()
    module = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(module, _target_machine(*_processor()))
    llvm.add_symbol("codesign_array_type", id(np.ndarray))
    llvm.add_symbol("codesign_mismatch", id(MISMATCH))
    llvm.add_symbol("codesign_resolve", ctypes.cast(_resolver, ctypes.c_void_p).value)
    llvm.add_symbol("codesign_new_array", _numpy_function(_NEW_ARRAY))
    return engine


def _numpy_function(index: int) -> int:
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(read(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[index] or 0)


def _check_layout() -> None:
    """Find a known array's parts where compiled code will look for them."""
    array = np.zeros((3, 5), np.float64)
    base = id(array)
    words = {place: ctypes.c_int64.from_address(base + place).value for place in (DATA, SHAPE, STRIDES, DESCRIPTION)}
    lengths = [ctypes.c_int64.from_address(words[SHAPE] + 8 * k).value for k in range(2)]
    strides = [ctypes.c_int64.from_address(words[STRIDES] + 8 * k).value for k in range(2)]
    good = (
        words[DATA] == array.ctypes.data
        and ctypes.c_int32.from_address(base + AXES).value == 2
        and (lengths, strides) == ([3, 5], [40, 8])
        and ctypes.c_int32.from_address(words[DESCRIPTION] + TYPE_NUMBER).value == array.dtype.num
        and ctypes.c_int32.from_address(base + FLAGS).value & 1 == 1
    )
    if not good:
        raise CodesignError(f"NumPy {np.__version__} lays out arrays in another way than compiled kernels read them")


_loaded: list[Any] = []


def address_of(symbol: str) -> int:
    """The address of a function of loaded code."""
    return int(_engine().get_function_address(symbol))


def load(code: bytes, symbol: str) -> Any:
    """The function `symbol` of an object file as a Python function of positional arguments."""
    llvm, engine = _llvm(), _engine()
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    if not address:
        raise CodesignError(f"compiled code lacks its function {symbol!r}")
    definition = _MethodDef(symbol.encode(), address, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p]
    _loaded.append(definition)  # the function points into it
    return make(ctypes.byref(definition), None, None)


@cache
def runs_portable() -> bool:
    """Whether this processor runs code made for `PORTABLE`."""
    import platform

    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    features = _llvm().get_host_cpu_features()
    return all(features.get(name, False) for name in ("avx2", "bmi", "bmi2", "fma", "f16c", "lzcnt", "movbe"))
