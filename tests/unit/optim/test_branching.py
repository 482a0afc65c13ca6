"""Which parameters boxes are tried to be split along."""

import numpy as np

from codesign.optim.branching import MOST_TRIED, RELIABLE, Branching


def test_everything_is_tried_until_it_is_known_and_then_what_raised_most() -> None:
    sizes = np.array([4, 4, 4, 4, 4, 1])
    branching = Branching(sizes)
    low, high = np.zeros((2, 6), dtype=np.int64), np.array([[3, 3, 3, 3, 3, 0], [3, 0, 0, 1, 0, 0]])
    box, column = branching.promising(low, high)
    assert box.tolist() == [0] * 5 + [1] * 2 and sorted(column[:5]) == [0, 1, 2, 3, 4] and sorted(column[5:]) == [0, 3]
    for parameter in range(5):
        many = np.full(RELIABLE, parameter)
        branching.learn(many, np.full(RELIABLE, 3), np.full(RELIABLE, float(parameter)))
    box, column = branching.promising(low, high)
    assert column[box == 0].tolist() == [4, 3, 2][:MOST_TRIED]
    assert sorted(column[box == 1]) == [0, 3]  # a range of length 1 along the fourth was not split yet
