"""Parameter types and search spaces: hardware (HASCO primitives) and software (primitive sequences)."""

from spaces.constraints import Constraint
from spaces.parameters import AbstractParameter, Categorical, Condition, Integer, Ordinal, PowerOfTwo
from spaces.space import Space

__all__ = ["AbstractParameter", "Categorical", "Condition", "Constraint", "Integer", "Ordinal", "PowerOfTwo", "Space"]
