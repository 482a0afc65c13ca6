"""Files of other tools, one package a tool."""
