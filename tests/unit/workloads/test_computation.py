import pytest

from codesign.core.errors import UserError
from codesign.workloads.computation import AffineIndex, Computation, Role, Tensor

CONV = "O[n,k,p,q] += I[n,c,2*p+r,2*q+s] * W[k,c,r,s]"
CONV_BOUNDS = {"n": 1, "k": 4, "c": 3, "p": 5, "q": 6, "r": 3, "s": 2}


def test_convolution_from_notation() -> None:
    conv = Computation.parse(CONV, CONV_BOUNDS)
    assert conv.dims == ("n", "k", "p", "q", "c", "r", "s")
    assert conv.macs == 1 * 4 * 3 * 5 * 6 * 3 * 2
    assert conv.reduced_dims == ("c", "r", "s")
    assert [t.name for t in conv.inputs] == ["I", "W"]
    assert conv.output.name == "O"
    # (p-1)*2 + (r-1) + 1 rows, and the same of columns: holes and padding positions are words like others
    assert conv.tensor_words(conv.tensor("I")) == 1 * 3 * (4 * 2 + 2 + 1) * (5 * 2 + 1 + 1)
    assert conv.tensor_words(conv.tensor("W")) == 4 * 3 * 3 * 2


def test_bounds_as_keywords_equal_bounds_as_mapping() -> None:
    assert Computation.parse(CONV, CONV_BOUNDS) == Computation.parse(CONV, **CONV_BOUNDS)


def test_text_form_is_notation_again() -> None:
    conv = Computation.parse(" O[ n,k , p,q]+=I[n,c,2 * p + r,2*q+s]*W[k,c,r,s] ", CONV_BOUNDS)
    assert str(conv) == CONV
    assert Computation.parse(str(conv), CONV_BOUNDS) == conv


def test_label_is_not_part_of_identity() -> None:
    assert Computation.parse(CONV, CONV_BOUNDS, name="a") == Computation.parse(CONV, CONV_BOUNDS, name="b")
    assert hash(Computation.parse(CONV, CONV_BOUNDS, name="a")) == hash(Computation.parse(CONV, CONV_BOUNDS))


def test_scalar_output_and_single_input() -> None:
    dot = Computation.parse("S[] += X[i] * Y[i]", i=7)
    assert dot.output.axes == ()
    assert dot.tensor_words(dot.output) == 1
    assert Computation.parse("S[j] += X[i,j]", i=2, j=3).macs == 6


def test_roles_by_name_by_position_and_as_given() -> None:
    def roles(c: Computation) -> dict[str, Role]:
        return {t.name: t.role for t in c.tensors}

    conv = Computation.parse(CONV, CONV_BOUNDS)
    assert roles(conv) == {"I": Role.INPUT, "W": Role.WEIGHT, "O": Role.OUTPUT}
    swapped = Computation.parse("Z[m,n] += W[m,k] * I[k,n]", m=2, n=2, k=2)
    assert roles(swapped) == {"W": Role.WEIGHT, "I": Role.INPUT, "Z": Role.OUTPUT}
    plain = Computation.parse("D[m,n] += A[m,k,l] * B[k,n] * C[l,n]", m=2, n=2, k=2, l=2)
    assert roles(plain) == {"A": Role.INPUT, "B": Role.WEIGHT, "C": Role.WEIGHT, "D": Role.OUTPUT}
    stated = Computation.parse("Z[m] += A[m,k] * B[k]", m=2, k=2, roles={"A": Role.WEIGHT, "B": Role.INPUT})
    assert roles(stated)["A"] is Role.WEIGHT


def test_widths() -> None:
    conv = Computation.parse(CONV, CONV_BOUNDS, bits=8, partial_bits=24)
    assert (conv.output.bits, conv.output.partial_bits) == (8, 24)
    assert all(t.partial_bits == t.bits == 8 for t in conv.inputs)
    wider = conv.with_bits(16)
    assert {t.bits for t in wider.tensors} | {t.partial_bits for t in wider.tensors} == {16}


def test_with_bounds_replaces_only_those() -> None:
    conv = Computation.parse(CONV, CONV_BOUNDS)
    assert conv.with_bounds(n=4).sizes == {**conv.sizes, "n": 4}
    with pytest.raises(UserError, match="unknown dimension 'z'"):
        conv.with_bounds(z=2)
    with pytest.raises(UserError, match="bound of 'n' must be >= 1, got 0"):
        conv.with_bounds(n=0)


def test_unknown_tensor_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown tensor 'X'.*known: I, O, W"):
        Computation.parse(CONV, CONV_BOUNDS).tensor("X")


@pytest.mark.parametrize(
    ("notation", "message", "character"),
    [
        ("O[n] = I[n]", "unexpected character '='", 6),
        ("O[n] += I[n", "expected ']', got 'end of text'", 12),
        ("O[n] += I[n] +", "expected the end, got '+'", 14),
        ("O[n] += I[n] *", "expected a name, got 'end of text'", 15),
        ("O[n] += I[2n]", "a constant in an index", 11),
        ("O[n] += I[n+1]", "a constant in an index", 13),
        ("O[n] += I[0*n]", "coefficients must be >= 1", 11),
        ("O[n] += I[n+n]", "dimension 'n' stands twice", 13),
        ("O[n] += I[-n]", "unexpected character '-'", 11),
        ("O n] += I[n]", "expected '[', got 'n'", 3),
        ("", "expected a name, got 'end of text'", 1),
        ("O[n,] += I[n]", "expected a name, got ']'", 5),
        ("O[n] += 3*I[n]", "expected a name, got '3'", 9),
    ],
)
def test_syntax_errors_point_at_the_character(notation: str, message: str, character: int) -> None:
    with pytest.raises(UserError) as caught:
        Computation.parse(notation, n=4)
    text = str(caught.value)
    assert message in text
    assert f"at character {character}\n" in text
    pointer = text.splitlines()[2]
    assert pointer == " " * (2 + character - 1) + "^"


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"m": 2, "n": 3}, "no bound given for dimension 'k'"),
        ({"m": 2, "n": 3, "k": 4, "z": 1}, "bound given for 'z', which indexes no tensor"),
        ({"m": 0, "n": 3, "k": 4}, "bound of 'm' must be >= 1, got 0"),
        ({"m": -2, "n": 3, "k": 4}, "bound of 'm' must be >= 1, got -2"),
        ({"m": 2.5, "n": 3, "k": 4}, "bound of 'm' must be an integer, got 2.5"),
        ({"m": True, "n": 3, "k": 4}, "bound of 'm' must be an integer, got True"),
        ({"m": "2", "n": 3, "k": 4}, "bound of 'm' must be an integer, got '2'"),
    ],
)
def test_bad_bounds(bounds: dict[str, int], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Computation.parse("C[m,n] += A[m,k] * B[k,n]", bounds)
    assert message in str(caught.value)


def test_other_contradictions() -> None:
    with pytest.raises(UserError, match="tensor 'A' is named twice"):
        Computation.parse("C[m] += A[m] * A[m]", m=2)
    with pytest.raises(UserError, match="tensor 'C' is named twice"):
        Computation.parse("C[m] += C[m]", m=2)
    with pytest.raises(UserError, match="unknown input 'Z'"):
        Computation.parse("C[m] += A[m]", m=2, roles={"Z": Role.INPUT})
    with pytest.raises(UserError, match="needs integers 1 <= bits <= partial_bits, got 16 and 8"):
        Computation.parse("C[m] += A[m]", m=2, bits=16, partial_bits=8)
    with pytest.raises(UserError, match="got 0 and 0"):
        Computation.parse("C[m] += A[m]", m=2, bits=0)


def test_constructor_refuses_what_the_parser_cannot_write() -> None:
    axis = AffineIndex((("m", 1),))
    source, result = Tensor("A", (axis,), Role.INPUT), Tensor("C", (axis,), Role.OUTPUT)
    with pytest.raises(UserError, match="1 dimensions but 2 bounds"):
        Computation(("m",), (2, 3), (source, result))
    with pytest.raises(UserError, match="dimension 'k' indexes no tensor"):
        Computation(("m", "k"), (2, 3), (source, result))
    with pytest.raises(UserError, match="dimension 'm' is named twice"):
        Computation(("m", "m"), (2, 3), (source, result))
    with pytest.raises(UserError, match="followed by one output"):
        Computation(("m",), (2,), (result, source))
    with pytest.raises(UserError, match="followed by one output"):
        Computation(("m",), (2,), (result,))
    with pytest.raises(UserError, match="indexed by unknown dimension 'z'"):
        Computation(("m",), (2,), (source, Tensor("C", (AffineIndex((("z", 1),)),), Role.OUTPUT)))
