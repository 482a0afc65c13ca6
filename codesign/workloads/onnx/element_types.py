"""Widths of ONNX element types (rule Q1)."""


def stored_bits(element_type: int, default: int) -> int:
    """Width of an element of a quantised type; the default of any other (rule Q1)."""
    from onnx import TensorProto

    widths: dict[int, tuple[str, ...]] = {
        8: ("INT8", "UINT8", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0")
    }
    widths |= {4: ("INT4", "UINT4", "FLOAT4E2M1"), 2: ("INT2", "UINT2")}
    for bits, names in widths.items():
        if element_type in {getattr(TensorProto, name) for name in names if hasattr(TensorProto, name)}:
            return bits
    return default


def scale_width(element_type: int) -> int:
    """Width of a scale as it is stored."""
    from onnx import TensorProto

    return stored_bits(element_type, 16 if element_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else 32)
