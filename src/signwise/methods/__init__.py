"""Binarization methods, one per file, behind one small interface (``method.Method``)."""

from __future__ import annotations

from signwise.methods.binary_connect import BinaryConnect
from signwise.methods.group_transform import GroupTransform
from signwise.methods.method import Deployed, Method
from signwise.methods.scaled_sign import ScaledSign
from signwise.methods.straight_through import StraightThrough

__all__ = ["BinaryConnect", "Deployed", "GroupTransform", "Method", "ScaledSign", "StraightThrough"]
