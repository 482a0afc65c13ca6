"""The exact search where every tensor's levels are given (sections D1 to D7 of docs/explanation/exact-mapper.md)."""
