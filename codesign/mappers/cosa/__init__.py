"""CoSA: scheduling by mixed-integer programming (Q. Huang et al., ISCA 2021)."""
