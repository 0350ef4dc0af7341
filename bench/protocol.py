"""Times kernels beside each other: works -> samples in milliseconds, with the state of the machine.

Each round goes through all kernels in a new random order. Right before the turn of a kernel, the same load (a matrix
product) runs until its own time, and hence the clock, has settled at the value before the first turn. Then, as in
triton.testing.do_bench, the kernel runs for a fixed time to reach its own clock and is sampled for a fixed time. A
clock is an object with
times(work, count, cold) -> [milliseconds]; load(), a work that is the same for all; and state() -> {mhz, watts,
celsius} near the end of the last `times`, empty if unknown.
"""
import dataclasses
import random
import secrets
import statistics

ROUNDS = 3  # results with fewer rounds are not published
ALIKE = 0.03  # times of the load count as equal if they differ by no more than this
BURSTS = 20  # most bursts of the load while its time has not settled


@dataclasses.dataclass
class Plan:
    rounds: int = ROUNDS
    soak_ms: float = 1000  # time of the load before the first turn: at first the clock is high, whatever runs
    settle_ms: float = 25  # one burst of the load
    readings: int = 4  # so many bursts in a row within ALIKE show that the clock has settled
    warmup_ms: float = 25
    repeat_ms: float = 100
    warm_too: bool = False  # also measure with L2 as the last launch left it
    seed: object = 0  # seed of the orders

    def modes(self):
        return ("cold", "warm") if self.warm_too else ("cold",)

    def within(self, seconds, kernels):
        """Returns this plan with repetitions short enough for that many kernels in that time, but at least 15 ms."""
        slot = (1000 * seconds - self.soak_ms) / max(1, kernels * self.rounds * len(self.modes()))
        spent = self.readings * self.settle_ms + 1.5 * self.warmup_ms
        return dataclasses.replace(self, repeat_ms=max(15, min(self.repeat_ms, slot - spent)))


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=ROUNDS,
                        help=f"turns of every kernel ({ROUNDS}; the report takes no fewer)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the orders (any)")


def orders(names, rounds, seed):
    """Draws a random order for each round; draws again while the same name comes first in all of them."""
    source = random.Random(str(seed))
    while True:
        found = [source.sample(names, len(names)) for _ in range(rounds)]
        if len(names) < 2 or rounds < 2 or len({order[0] for order in found}) > 1:
            return found


def burst(clock, milliseconds):
    """Runs the load for that time. Returns the median of its times."""
    once = statistics.median(clock.times(clock.load, 3, False))
    return statistics.median(clock.times(clock.load, count(milliseconds, once), False))


def settle(clock, plan, like=None):
    """Runs the load until its time has settled, at the value `like` if given, or for BURSTS bursts. Returns the state
    under load, with load_ms, the mean of its last times. The load computes all the time, so its time is the inverse of
    the clock, averaged over a burst; the clock that the driver reports is momentary and fluctuates by a fifth at the
    power limit."""
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

    `before` is called with the name of the kernel before each turn.
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
    """Summarises what `measure` found in one mode: median and quartiles of all samples; and for each round the median,
    which shows drift, the place in the order, and the states."""
    every = sorted(ms for one in rounds for ms in one["samples"])
    low, middle, high = statistics.quantiles(every, n=4, method="inclusive")
    each = [{**one, "ms": round(statistics.median(one["samples"]), 5)} for one in rounds]
    for one in each:
        del one["samples"]
    return {"ms": round(middle, 5), "q1": round(low, 5), "q3": round(high, 5), "samples": len(every), "rounds": each,
            "tflops": float(f"{flops / middle / 1e9:.4g}")}


def objections(found):
    """Returns why a comparison of these kernels cannot be trusted; empty if it can. found: {kernel: summary}."""
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
