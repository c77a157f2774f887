"""Ways to make weights binary, one file each, behind one small interface (:class:`signwise.methods.method.Method`)."""

from __future__ import annotations

from signwise.methods.binary_connect import BinaryConnect
from signwise.methods.bop import Bop
from signwise.methods.bwn import BWN
from signwise.methods.dsq import DSQ
from signwise.methods.group_transform import GroupTransform
from signwise.methods.ir_net import IRNet
from signwise.methods.lab import LAB
from signwise.methods.mean_sign import MeanSign
from signwise.methods.method import Deployed, Method
from signwise.methods.mpt import MPT
from signwise.methods.parq import PARQ, BinaryRelax
from signwise.methods.prox_quant import ProxQuant
from signwise.methods.reste import ReSTE
from signwise.methods.scaled_sign import ScaledSign
from signwise.methods.self_binarizing import SelfBinarizing
from signwise.methods.sq_bwn import SQBWN
from signwise.methods.straight_through import StraightThrough

__all__ = [
    "BWN",
    "DSQ",
    "LAB",
    "MPT",
    "PARQ",
    "SQBWN",
    "BinaryConnect",
    "BinaryRelax",
    "Bop",
    "Deployed",
    "GroupTransform",
    "IRNet",
    "MeanSign",
    "Method",
    "ProxQuant",
    "ReSTE",
    "ScaledSign",
    "SelfBinarizing",
    "StraightThrough",
]
