"""Static allocation: an address for every buffer of known lifetime and size, within one capacity."""
