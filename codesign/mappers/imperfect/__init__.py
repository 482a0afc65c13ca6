"""Mappings whose loops may have a shorter last iteration: the space, the searches, the bound."""
