"""DRAM communication scheduling with layer fusion (SoMa, HPCA 2025), with Cocco and unfused baselines.

The paper's six attributes (`notation`), their meaning as tiles, DRAM tensors and lifetimes (`evaluator`), the
two-stage search (`search`), and what follows from a schedule: instructions, a simulator, an execution graph.
"""
