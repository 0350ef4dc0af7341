"""How kernels are timed beside each other: works -> samples in milliseconds, with the state of the machine.

Each round goes through all kernels in an order of its own, drawn at random. Right before the turn of a kernel the same
load (a matrix product) runs until its own time stands still, and with it the clock, where it stood before the first turn;
then, as triton.testing.do_bench does, the kernel runs for a fixed time to reach its own clock and is sampled for a fixed
time. What a clock is: an object with
times(work, count, cold) -> [milliseconds], load(), a work that is the same for all, and state() -> {mhz, watts,
celsius} near the end of the last `times`, empty where nobody knows.
"""
import dataclasses
import random
import secrets
import statistics

ROUNDS = 3  # fewer are not published
ALIKE = 0.03  # times of the load apart by no more than this
BURSTS = 20  # of the load at most, while its time does not stand still


@dataclasses.dataclass
class Plan:
    rounds: int = ROUNDS
    soak_ms: float = 1000  # of the load before the first turn: at first a clock is high, whatever runs
    settle_ms: float = 25  # one burst of the load
    readings: int = 4  # bursts in a row that are ALIKE show a clock that stands still
    warmup_ms: float = 25
    repeat_ms: float = 100
    warm_too: bool = False  # also with what the last launch left in L2
    seed: object = 0  # of the orders

    def modes(self):
        return ("cold", "warm") if self.warm_too else ("cold",)

    def within(self, seconds, kernels):
        """This plan with repetitions short enough for that many kernels in that time, though never absurdly short."""
        slot = (1000 * seconds - self.soak_ms) / max(1, kernels * self.rounds * len(self.modes()))
        spent = self.readings * self.settle_ms + 1.5 * self.warmup_ms
        return dataclasses.replace(self, repeat_ms=max(15, min(self.repeat_ms, slot - spent)))


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=ROUNDS,
                        help=f"turns of every kernel ({ROUNDS}; the report takes no fewer)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the orders (any)")


def orders(names, rounds, seed):
    """An order for each round, drawn at random; drawn again while the same name leads them all."""
    source = random.Random(str(seed))
    while True:
        found = [source.sample(names, len(names)) for _ in range(rounds)]
        if len(names) < 2 or rounds < 2 or len({order[0] for order in found}) > 1:
            return found


def burst(clock, milliseconds):
    """Runs the load for so long. Returns the median of its times."""
    once = statistics.median(clock.times(clock.load, 3, False))
    return statistics.median(clock.times(clock.load, count(milliseconds, once), False))


def settle(clock, plan, like=None):
    """Runs the load until its time stands still, and is `like` an earlier one, or long enough. Returns the state under it, with load_ms, the mean of its
    last times. The load computes all the time, so its time is the clock's inverse, averaged over a burst; a clock that the
    driver reports is that of a moment and wavers by a fifth at the power limit."""
    times = []
    for _ in range(BURSTS):
        times.append(burst(clock, plan.settle_ms))
        last = times[-plan.readings:]
        alike = last + [like] * bool(like)
        if len(last) == plan.readings and max(alike) <= (1 + ALIKE) * min(alike):
            break
    return {**clock.state(), "load_ms": round(statistics.mean(last), 4)}


def measure(works, clock, plan, before=lambda name: None):
    """works: {name: callable that launches}. Returns {name: {mode: [one a round]}}, where one is
    {samples: [ms], place: in the order of the round, start: the state before, end: the state at the end}.

    `before` hears whose turn it is.
    """
    found, first = {name: {mode: [] for mode in plan.modes()} for name in works}, None
    if plan.soak_ms:
        burst(clock, plan.soak_ms)
    for order in orders(list(works), plan.rounds, plan.seed) if works else ():
        for place, name in enumerate(order, 1):
            before(name)
            for mode in plan.modes():
                start, cold = settle(clock, plan, first), mode == "cold"
                first = first or start["load_ms"]
                once = statistics.median(clock.times(works[name], 3, cold))
                clock.times(works[name], count(plan.warmup_ms, once), cold)
                samples = clock.times(works[name], count(plan.repeat_ms, once), cold)
                found[name][mode].append({"samples": samples, "place": place, "start": start, "end": clock.state()})
    return found


def count(milliseconds, once):
    return max(3, min(1000, round(milliseconds / max(once, 1e-3))))


def summary(rounds, flops):
    """Of what `measure` found in one mode: the median and quartiles of all samples; and of each round the median, which
    shows drift, its place, and the states."""
    every = sorted(ms for one in rounds for ms in one["samples"])
    low, middle, high = statistics.quantiles(every, n=4, method="inclusive")
    each = [{**one, "ms": round(statistics.median(one["samples"]), 5)} for one in rounds]
    for one in each:
        del one["samples"]
    return {"ms": round(middle, 5), "q1": round(low, 5), "q3": round(high, 5), "samples": len(every), "rounds": each,
            "tflops": float(f"{flops / middle / 1e9:.4g}")}


def objections(found):
    """Why nobody should believe a comparison of these kernels; nothing when all is well. found: {kernel: summary}."""
    reasons, few, unknown, loads = [], {}, [], {}
    for kernel, one in found.items():
        rounds = [each if isinstance(each, dict) else {} for each in one.get("rounds", [])]
        starts = [each.get("start", {}).get("load_ms") for each in rounds]
        if len(rounds) < ROUNDS:
            few[kernel] = len(rounds)
        elif not all(starts):
            unknown.append(kernel)
        else:
            loads[kernel] = statistics.median(starts)
            if len(found) > 1 and all(each.get("place") == 1 for each in rounds):
                reasons.append(f"{kernel} came first in every round")
    if few:
        reasons.append(f"fewer rounds than {ROUNDS}: " + ", ".join(f"{kernel} {n}" for kernel, n in few.items()))
    if unknown:
        reasons.append(f"no load was timed before {', '.join(unknown)}")
    if loads:
        fast, slow = min(loads, key=loads.get), max(loads, key=loads.get)
        if loads[slow] > (1 + ALIKE) * loads[fast]:
            reasons.append(f"before {fast} the load took {loads[fast]:.3g} ms and before {slow} {loads[slow]:.3g} ms, more "
                           f"than {ALIKE:.0%} apart")
    return reasons
