"""The one error of layouts."""


class LayoutError(ValueError):
    """A layout cannot be made, or an operation on it has no answer. The message says which layout, and why not.

        >>> from symbolic import S, TileLayout
        >>> TileLayout(S[(6, 4):(1, 6)]).group((8, 3))
        Traceback (most recent call last):
        symbolic.layout.errors.LayoutError: S[(6, 4):(1, 6)] is not grouped by (8, 3): extent 4 does not split at 3

    Group at a boundary that the extents have:

        >>> TileLayout(S[(6, 4):(1, 6)]).group((3, 8))[0]
        TileLayout(S[(3, 2, 4):(2, 1, 6)])
    """
