"""Networks from ONNX files."""
