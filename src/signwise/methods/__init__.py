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
from signwise.methods.ternary import Ternary

METHODS: dict[str, Method] = {
    "group_transform": GroupTransform(),
    "group_transform_mean": GroupTransform(scale="mean"),
    "binary_connect": BinaryConnect(power=2),  # the authors' rule for SGD
    "bwn": BWN(),
    "lab": LAB(),
    "ir_net": IRNet(),
    "prox_quant": ProxQuant(),
    "sq_bwn": SQBWN(),
    "self_binarizing": SelfBinarizing(),
    "mpt": MPT(),
    "dsq": DSQ(),
    "scaled_sign": ScaledSign(),
    "straight_through": StraightThrough(),
    "mean_sign": MeanSign(),
    "parq": PARQ(),
    "binary_relax": BinaryRelax(),
    "reste": ReSTE(),
    "bop": Bop(),
}
"""The methods by the names that recipes and the command line use, with the settings that suit SGD."""

__all__ = [
    "BWN",
    "DSQ",
    "LAB",
    "METHODS",
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
    "Ternary",
]
