"""Models of others' machines, traces and methods that studies alone compare with; no command of `codesign` reads them."""
