"""Attack the package and print a table: ``python tests/fuzz/attack.py [ATTACK ...] [--seed N]``.

Each attack has a number of tries by default; ``--tries`` sets another. Without a name all attacks
run except ``suite``, the whole test suite again and again, which takes hours. Ends with 1 if
anything did not hold.
"""

import argparse
import json
import os
from functools import partial

from arrays import attack_arrays
from command_lines import attack_commands
from files import attack_files
from losses import attack_losses
from memory import CALLS, SIZES, WHOLE_CALLS, WHOLE_SIZES, in_own_process
from parallel import attack_parallel
from state import attack_kills
from suite import attack_suite


def attack_memory(tries: int, seed: int) -> dict:
    """Measure the memory of calls on data in blocks and in memory."""
    jobs = [(kind, call) for kind in SIZES for call in CALLS]
    jobs += [(kind, call) for kind in WHOLE_SIZES for call in WHOLE_CALLS]
    rows = [row for kind, call in jobs[:tries] for row in in_own_process(kind, [call])]
    return {"tries": len(rows), "rows": rows, "faults": [row for row in rows if not row["held"]]}


ATTACKS = {
    "files": (attack_files, 10_000),
    "arrays": (attack_arrays, 3_000),
    "commands": (attack_commands, 2_000),
    "kills": (attack_kills, 100),
    "memory": (attack_memory, 40),
    "dask": (attack_losses, 40),
    "threads": (partial(attack_parallel, "threads"), 800),
    "fork": (partial(attack_parallel, "fork"), 40),
    "loky": (partial(attack_parallel, "loky"), 40),
    "asyncio": (partial(attack_parallel, "asyncio"), 40),
    "suite": (attack_suite, 20),
}


def main() -> int:
    """Run the attacks that were asked for and print a line for each, then what did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks", nargs="*", help=", ".join(ATTACKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int)
    options = parser.parse_args()
    worst = 0
    for name in options.attacks or [name for name in ATTACKS if name != "suite"]:
        attack, usual = ATTACKS[name]
        before = sum(os.times()[:4])
        found = attack(options.tries or usual, options.seed)
        faults = found.pop("faults")
        worst = max(worst, len(faults))
        print(
            f"{name:8} {found['tries']:6} tries, {found['tries'] - len(faults):6} held, "
            f"{sum(os.times()[:4]) - before:.0f} s of processor time  {json.dumps(found)}",
            flush=True,
        )
        for fault in faults[:20]:
            print(f"         {json.dumps(fault)[:600]}", flush=True)
    return int(worst > 0)


if __name__ == "__main__":
    code = main()
    # Threads of Dask that lost their scheduler would keep the interpreter for twenty seconds.
    os._exit(code)
