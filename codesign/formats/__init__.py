"""Files in and out: the project's own documents, and those of Timeloop, ZigZag and MAESTRO, one package a tool."""
