"""Gymnasium environments around pure transition functions. Importing this package registers them."""

import gymnasium

from envs.hardware import HARDWARE_ID, HardwareEnv
from envs.schedule import ENVIRONMENT_ID, ScheduleEnv

if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(id=ENVIRONMENT_ID, entry_point="envs.schedule:ScheduleEnv")

if HARDWARE_ID not in gymnasium.registry:
    gymnasium.register(id=HARDWARE_ID, entry_point="envs.hardware:HardwareEnv")

__all__ = ["ENVIRONMENT_ID", "HARDWARE_ID", "HardwareEnv", "ScheduleEnv"]
