"""Gymnasium environments around pure transition functions. Importing this package registers them."""

import gymnasium

from envs.schedule import ENVIRONMENT_ID, ScheduleEnv

if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(id=ENVIRONMENT_ID, entry_point="envs.schedule:ScheduleEnv")

__all__ = ["ENVIRONMENT_ID", "ScheduleEnv"]
