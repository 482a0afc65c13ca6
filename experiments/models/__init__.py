"""Models of others' machines and methods that studies alone compare with; no command of `codesign` reads them."""
