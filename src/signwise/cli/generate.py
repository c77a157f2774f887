"""``signwise generate``: continue a text with a compiled language model."""

from __future__ import annotations

import argparse
import codecs
import sys
import time
from typing import Any

_EXAMPLES = """examples:
  signwise generate model.sw --prompt "In the beginning"
  signwise generate model.sw --prompt "And God said" --count 400 --temperature 0.8 --seed 1
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "generate",
        help="continue a text with a language model",
        description="Continue a text with a language model of bytes that signwise.compile_decoder has compiled.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the packed language model")
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="how the text begins")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="bytes to write (default: 200)")
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="X", help="0 takes the likeliest byte (default)"
    )
    parser.add_argument("--top", type=int, metavar="N", help="draw from the N likeliest bytes alone")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads per step (default: 1)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the prompt, then each byte as it comes, and how fast they came on standard error."""
    from signwise.generation import Generator

    generator = Generator(arguments.file, arguments.threads)
    # A character may take several bytes: print it when it is complete.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    sys.stdout.write(arguments.prompt)
    start, made = time.perf_counter(), 0
    prompt = arguments.prompt.encode()
    settings = {"temperature": arguments.temperature, "top": arguments.top, "seed": arguments.seed}
    for token in generator.generate(prompt, arguments.count, **settings):
        sys.stdout.write(decoder.decode(bytes([token])))
        sys.stdout.flush()
        made += 1
    print()
    rate = (made + len(prompt)) / (time.perf_counter() - start)
    print(f"{made} bytes, {rate:,.0f} per second, prompt included", file=sys.stderr)
    return 0
