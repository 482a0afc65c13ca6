from codesign.hardware.lanes import Start, operand_windows, result_emissions


def test_elements_that_want_one_word_share_a_window() -> None:
    windows = operand_windows({(0, 0): 0, (0, 1): 1, (1, 0): 0, (1, 1): 1}, 16, Start.WORD, True)
    assert [w.words for w in windows] == [2]
    assert windows[0].bytes_of[1, 1] == 1


def test_without_sharing_equal_words_are_read_again() -> None:
    windows = operand_windows({(0, 0): 0, (0, 1): 1, (1, 0): 0, (1, 1): 1}, 16, Start.WORD, False)
    assert [w.words for w in windows] == [2, 2]


def test_a_line_that_starts_within_a_word_reaches_less_far() -> None:
    offsets = {(0, x): x for x in range(16)}
    assert len(operand_windows(offsets, 16, Start.WORD, True)) == 1
    assert len(operand_windows(offsets, 16, Start.WITHIN, True)) == 2
    assert len(operand_windows(offsets, 16, Start.ANY, True)) == 1


def test_rows_that_reach_one_word_form_a_group_and_its_first_row_takes_the_old_sum() -> None:
    found = result_emissions((0, 0), (0, 4), 16, Start.WORD, True)
    assert found.group == (0, 0)
    assert found.slot == (0, 1)
    assert [line.head for line in found.lines] == [True]
    assert found.head == {(0, 0), (0, 1)}


def test_without_sharing_every_row_adds_on_its_own_and_only_the_first_is_head() -> None:
    found = result_emissions((0, 0), (0, 0), 16, Start.WORD, False)
    assert [(line.group, line.window, line.head) for line in found.lines] == [
        (0, 0, True),
        (0, 1, False),
        (1, 0, False),
        (1, 1, False),
    ]
