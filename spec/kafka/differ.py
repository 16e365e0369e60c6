#!/usr/bin/env python3
"""Random scripts through real Kafka (the referee) and through Sediment, as this tree has built it (run.lua): every difference that no
rule explains is shrunk to a short script and printed. Exit 0: agreement, 1: a difference, 2: something did not run.

    differ.py --n 500 --codecs                 (make kafka N=500 does it, too)
    differ.py --model --n 300                  the model that spec/model_spec.lua compares with, in place of the product
    differ.py --script FILE                    one script; prints both outputs

Needs the referee beside this file (or KAFKA_REFEREE) and whatever the referee needs. TMPDIR in memory makes it three
times as fast."""
import argparse, collections, concurrent.futures, itertools, os, pathlib, random, shutil, signal, subprocess, sys, tempfile, threading, time

from rules import Refusal, Scan, difference, observations
from scripts import REACH, Writer, for_model, processes, sensible, without

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REFEREE = os.environ.get("KAFKA_REFEREE", str(HERE / "referee"))
TOPIC = "t"
HANG_SECONDS = 30
SHRUNK = 5      # so many differences are shrunk, the others only counted

# ----------------------------------------------------------------------------------------------------------------- the two machines


class Referee:
    """One JVM for many scripts: each runs in a folder of its own, and the line of the next `dir` says that it is over."""

    def __init__(self, scratch):
        self.scratch, self.count, self.process = scratch, itertools.count(), None

    def ask(self, script):
        if self.process is None:
            self.process = subprocess.Popen([REFEREE, "run", str(self.scratch / "idle-0")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=open(self.scratch / "referee.err", "w"), text=True)
        home = self.scratch / f"k{next(self.count)}"
        end = f"# dir {self.scratch / 'idle-0'}"
        asked = ["scan batches=1" if line == "scan" else line for line in script]
        text = f"dir {home / TOPIC}-0\n" + "\n".join(asked) + f"\ndir {self.scratch / 'idle-0'}\n"
        writer = threading.Thread(target=self.tell, args=(text,))       # both pipes can be full at once
        writer.start()
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == end:
                break
            if not line.startswith("# dir "):
                lines.append(line)
        else:
            self.process = None
            raise RuntimeError("the referee ended: " + (self.scratch / "referee.err").read_text()[-2000:])
        writer.join()
        shutil.rmtree(home, ignore_errors=True)
        return lines

    def tell(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except OSError:
            pass                                                        # the reader sees the end of the process

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


class Lua:
    """The product: a process for each script, and another after each kill."""

    def __init__(self, names, scratch, environment=None):
        self.lua, self.scratch, self.count = names.split(","), scratch, itertools.count()
        self.paths = {lua: (environment or tree)(lua) for lua in self.lua}

    def ask(self, script, which=0):
        home, lines = self.scratch / f"s{next(self.count)}", []
        try:
            for part in processes(script):
                more, went_on = self.process(self.lua[which % len(self.lua)], home, part)
                lines += more
                if not went_on:
                    break
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return lines

    def process(self, lua, home, part):
        expected = -signal.SIGKILL if part[-1:] == ["kill"] else 0
        try:
            r = subprocess.run([lua, str(HERE / "run.lua"), str(home), TOPIC], input="\n".join(part) + "\n", capture_output=True,
                               text=True, env=self.paths[lua], timeout=HANG_SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            return [f"# hangs for more than {HANG_SECONDS} s"], False
        died = [] if r.returncode == expected else [f"# died {r.returncode} {r.stderr.strip()[:500]}"]
        return r.stdout.splitlines() + died, not died


def tree(lua, root=ROOT):
    """The environment in which this Lua finds the module that the tree has built."""
    script = 'eval "$(sh "$1" "$2")" && env -0'
    r = subprocess.run(["sh", "-c", script, "env", str(root / "tools" / "env.sh"), lua], capture_output=True, check=True)
    return dict(e.split("=", 1) for e in r.stdout.decode().split("\0") if e)


def model(_):
    return dict(os.environ, LUA_PATH=str(HERE / "model" / "?.lua"))


def shrink(script, differs, seconds):
    """Delta debugging over the lines after the first `clock`; what is left still differs, in the same kind of answer."""
    start = next(i for i, l in enumerate(script) if l.startswith("clock")) + 1
    head, lines = script[:start], script[start:]
    until, size = time.time() + seconds, max(1, len(lines) // 2)
    while size >= 1 and time.time() < until:
        i, removed = 0, False
        while i < len(lines) and time.time() < until:
            fewer = lines[:i] + lines[i + size:]
            if sensible(head + fewer) and differs(head + fewer):
                lines, removed = fewer, True
            else:
                i += size
        size = size if removed and size == 1 else size // 2
    return head + lines


# ------------------------------------------------------------------------------------------------------------------------------ main


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lua", default="lua5.4", help="lua5.4, luajit, or both: lua5.4,luajit")
    p.add_argument("--n", type=int, default=100, help="how many scripts")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--codecs", action="store_true", help="compressed batches too")
    p.add_argument("--model", action="store_true", help="over the model beside this file")
    p.add_argument("--reach", action="store_true", help="count the scripts that say something else without what they are to reach")
    p.add_argument("--no-file-times", dest="file_times", action="store_false",
                   help="keep clear of ages that come from file times: for a product whose file times do not follow the store's clock")
    p.add_argument("--script", help="run this script only and print both outputs")
    p.add_argument("--fail-fast", action="store_true")
    p.add_argument("--shrink-seconds", type=float, default=20)
    return p.parse_args()


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))             # so that a time limit leaves no folders behind
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="differ-"))
    referee, lua = Referee(scratch), Lua(options.lua, scratch, model if options.model else tree)
    try:
        if options.script:
            script = [l.strip() for l in open(options.script) if l.strip() and not l.startswith("#")]
            kafka, ours = referee.ask(script), lua.ask(script)
            print("\n".join(["--- kafka"] + kafka + ["--- ours"] + ours))
            found, used = difference(script, kafka, ours)
            print("--- verdict:", found[1] if found else "no difference", "".join(f" [{u}]" for u in used))
            return 1 if found else 0
        return sweep(options, referee, lua)
    finally:
        referee.close()
        shutil.rmtree(scratch, ignore_errors=True)


class Sweep:
    def __init__(self, options, referee, lua):
        self.options, self.referee, self.lua = options, referee, lua
        self.failures, self.rules, self.seen, self.reach = 0, collections.Counter(), collections.Counter(), collections.Counter()

    def verdict(self, script, i):
        return difference(script, self.referee.ask(script), self.lua.ask(script, i))

    def one(self, i, pool):
        """Whether to go on after script number i."""
        script = Writer(random.Random(f"{self.options.seed}:{i}"), self.options.codecs, self.options.file_times).script()
        if self.options.model:
            script = for_model(script)
        waiting = pool.submit(self.lua.ask, script, i)
        kafka = self.referee.ask(script)
        found, used = difference(script, kafka, waiting.result())
        self.count(script, kafka, used)
        if found is None:
            return True
        self.failures += 1
        if self.failures > SHRUNK:
            print(f"=== script {i} of seed {self.options.seed} differs, {found[1]}\n", flush=True)
            return True
        small = shrink(script, lambda s: (self.verdict(s, i)[0] or [None])[0] == found[0], self.options.shrink_seconds)
        print(f"=== script {i} of seed {self.options.seed} differs ({len(script)} lines, {len(small)} after shrinking)")
        print("\n".join(small), "\n---", (self.verdict(small, i)[0] or found)[1], "\n", flush=True)
        return not self.options.fail_fast

    def count(self, script, kafka, used):
        answers = observations(kafka)
        self.rules.update(used)
        self.seen.update(type(o).__name__ + (":" + o.code if isinstance(o, Refusal) else "") for o in answers)
        self.reach["kills"] += script.count("kill")
        self.reach["scripts with gathered appends"] += any("staged" in l for l in script)
        self.reach["scripts with two segments of 32 KiB"] += any(sum(size >= 32768 for _, size in s.segments) > 1 for s in answers if isinstance(s, Scan))
        if self.options.reach:
            self.reach.update(what for what in REACH if without(script, what) != script and self.referee.ask(without(script, what)) != kafka)


def sweep(options, referee, lua):
    if lua.ask(["clock 0"]):
        raise RuntimeError("an empty script fails: " + lua.ask(["clock 0"])[-1])
    s, started, done = Sweep(options, referee, lua), time.time(), 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for i in range(options.n):
            done += 1
            if not s.one(i, pool):
                break
    print(f"{done} scripts, {s.failures} with a difference, {time.time() - started:.0f} s; lua {options.lua}, seed {options.seed}"
          + (", codecs" if options.codecs else "") + (", model" if options.model else ""))
    for what, counted in ("answers compared", s.seen), ("reached", s.reach), ("rules used", s.rules):
        print(f"{what}:", ", ".join(f"{k} {v}" for k, v in sorted(counted.items())) or "none")
    print(f"{done - s.failures} passed, {s.failures} failed")
    return 1 if s.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        print("differ:", e, file=sys.stderr)
        sys.exit(2)
