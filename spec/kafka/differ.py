#!/usr/bin/env python3
"""Random scripts through real Kafka (the referee) and through Sediment's Lua contract (run.lua): every difference that no rule
explains is shrunk to a short script and printed. Exit 0: agreement, 1: a difference, 2: something did not run.

    differ.py --model --n 500                  the model of the contract against Kafka
    differ.py --model --kafka --n 500          the same without Sediment's intended differences: no rule may be needed
    make kafka N=500                           the product against Kafka; by hand, LUA_PATH and LUA_CPATH must lead to it
    differ.py --script FILE                    one script; prints both outputs

Needs the referee beside this file (or KAFKA_REFEREE) and whatever the referee needs. TMPDIR in memory makes it three
times as fast."""
import argparse, collections, concurrent.futures, itertools, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

HERE = pathlib.Path(__file__).resolve().parent
REFEREE = os.environ.get("KAFKA_REFEREE", str(HERE / "referee"))
TOPIC = "t"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
UNIFORM = 89    # bytes of a batch with one record: a key of one byte, a value of 20, no headers
HEAD = ["errors keep", "mtime clock"]
DAY = 86400000
HANG_SECONDS = 30
SHRUNK = 5      # so many differences are shrunk, the others only counted

# ------------------------------------------------------------------------------------------------------------------ random scripts


def quote(b):
    return "=" + "".join(chr(c) if chr(c).isalnum() and c < 128 else "%%%02X" % c for c in b)


class Writer:
    """One random script. A script draws its settings first, so that each kind of trouble gets whole scripts of its own."""

    def __init__(self, rng, codecs, file_times):
        self.rng, self.lines = rng, list(HEAD)
        self.compressed = codecs and rng.random() < 0.85
        # Segments without timestamps, and those that cleaning emptied, are as old as their file.
        self.only_delete = not file_times and rng.random() < 0.4
        self.ages = file_times or self.only_delete
        self.now = 1_700_000_000_000 + rng.randrange(10**9)
        self.began, self.offset, self.times = self.now, 0, []
        self.keys = rng.choice([self.few_keys, self.few_keys, self.many_keys])()
        self.null_keys = rng.choice([0, 0, 0, 0.2, 0.6])
        self.tombstones = rng.choice([0, 0.1, 0.3, 0.6])
        self.clocks = rng.choice([["now"], ["now", "old"], ["now", "old", "near"], ["now", "old", "near", "far"], ["old", "missing"],
                                  ["missing", "missing", "missing", "now"]])
        if not file_times:
            self.clocks = [c for c in self.clocks if c != "missing"]
        self.largest = rng.choice([20, 20, 100, 400])
        self.config = {}
        # Batches of one size, and limits that are multiples of it: the only way to meet "equal" where a rule says "more than".
        self.uniform = not self.compressed and rng.random() < 0.15
        if self.uniform:
            self.keys, self.null_keys, self.tombstones = [b"a", b"b"], 0, 0

    def few_keys(self):
        return [b"a", b"b", b"", b"\x00\xff"][:self.rng.randint(1, 4)]

    def many_keys(self):
        return [b"key%d" % i for i in range(self.rng.randint(20, 300))]

    def set(self, **changes):
        changes = {k.replace("_", "."): v for k, v in changes.items()}
        self.config.update(changes)
        self.lines.append("config " + " ".join(f"{k}={v}" for k, v in sorted(changes.items())))

    def policy(self):
        return "delete" if self.only_delete else self.rng.choice(["compact", "delete", "compact,delete"])

    def segment_bytes(self):
        if self.uniform:
            return UNIFORM * self.rng.choice([1, 2, 3, 12])
        return 1 << 30 if self.compressed else self.rng.choice([1024, 1024, 1536, 2048, 4096, 8192, 16384])

    def retention_bytes(self):
        if self.uniform:
            return UNIFORM * self.rng.choice([1, 2, 3, 5, 12])
        return -1 if self.compressed else self.rng.choice([-1, -1, 0, 1, 1500, 3000, 3000, 10000])

    def retention_ms(self):
        return self.rng.choice([-1, 0, 60_000, 600_000, 600_000, 3_600_000, 7 * DAY]) if self.ages else -1

    def lag(self):
        return self.rng.choice([0, 0, 60_000, 600_000]) if self.ages else 0

    def horizon(self):
        return self.rng.choice([0, 1, 60_000, 600_000, DAY])

    def compacts(self):
        return "compact" in self.config["cleanup.policy"]

    def start(self):
        rng = self.rng
        self.lines.append(f"clock {self.now}")
        self.set(cleanup_policy=self.policy(), segment_bytes=self.segment_bytes(), index_interval_bytes=rng.choice([0, 1, 200, 4096]),
                 retention_bytes=self.retention_bytes(), retention_ms=self.retention_ms(), delete_retention_ms=self.horizon(),
                 min_compaction_lag_ms=self.lag())
        if rng.random() < 0.15:
            self.set(segment_ms=rng.choice([1, 60_000, 600_000]))
        if rng.random() < 0.1:
            self.set(max_compaction_lag_ms=rng.choice([600_001, 3_600_000]))
        if rng.random() < 0.3:
            self.set(message_timestamp_after_max_ms=10**15)
        if rng.random() < 0.05:
            self.set(message_timestamp_before_max_ms=600_000)
        if rng.random() < 0.1:
            self.set(message_timestamp_type="LogAppendTime")
        if rng.random() < 0.1 and not self.compressed:
            self.set(max_message_bytes=rng.choice([300, 900]))

    def timestamp(self):
        rng, kind = self.rng, self.rng.choice(self.clocks)
        if kind == "now":
            self.times.append(self.now)
            return "now"
        t = {"old": self.now - rng.choice([1, 1000, rng.randrange(10**6), rng.randrange(10**9)]), "near": self.now + rng.randrange(3_600_000),
             "far": self.now + 3_600_000 + rng.randrange(-1, 10**8), "missing": -1}[kind]
        self.times.append(max(t, 0))
        return str(t)

    def value(self):
        rng = self.rng
        if self.uniform:
            return "=" + "u" * 20
        if rng.random() < self.tombstones:
            return "-"
        if rng.random() < 0.1:
            return "="
        size = self.largest * 12 if rng.random() < 0.01 else rng.randrange(1, self.largest)
        return quote(bytes(rng.choice(b"abcdefgh") for _ in range(size)))

    def header(self):
        rng = self.rng
        return rng.choice(["", "h", "trace-id", "h"]) + ":" + rng.choice(["-", "=", "=1", "=%00%FF", "=" + "x" * 70])

    def append(self):
        rng = self.rng
        count = 1 if self.uniform else rng.choice([1, 1, 1, 2, 3, 5, 8, rng.randint(1, 40)])
        for _ in range(count):
            null = rng.random() < (self.null_keys / 10 if self.compacts() else self.null_keys)
            headers = [self.header() for _ in range(0 if self.uniform else rng.choice([0, 0, 0, 1, 2]))]
            self.lines.append(" ".join(["rec", self.timestamp(), "-" if null else quote(rng.choice(self.keys)), self.value()] + headers))
        self.offset += count
        self.lines.append("append" + (f" codec={rng.choice(CODECS)}" if self.compressed else ""))

    def advance(self):
        ms = self.rng.choice([1, 1000, 30_000, 60_000, 60_001, 300_000, 600_000, 600_001, 3_600_000, DAY])
        self.now += ms
        self.lines.append(f"advance {ms}")

    def clean(self):
        if not self.compacts():
            return
        if self.rng.random() < 0.6:
            self.lines.append("roll")
        self.lines += ["clean dedupe=262144", "scan"]

    def lookups(self):
        self.lines.append("scan")
        picks = [self.rng.choice(self.times) + self.rng.choice([-1, 0, 0, 1]) for _ in range(3)] if self.times else []
        for t in picks + [self.rng.choice([0, self.now, self.now + 10**7])]:
            self.lines.append(f"offset_for {max(t, 0)}")

    def change(self):
        self.set(**self.rng.choice([
            lambda: {"cleanup_policy": self.policy()}, lambda: {"cleanup_policy": self.policy()}, lambda: {"segment_bytes": self.segment_bytes()},
            lambda: {"retention_bytes": self.retention_bytes()}, lambda: {"retention_ms": self.retention_ms()},
            lambda: {"delete_retention_ms": self.horizon()}, lambda: {"min_compaction_lag_ms": self.lag()},
            lambda: {"message_timestamp_type": self.rng.choice(["CreateTime", "CreateTime", "LogAppendTime"])},
        ])())

    def keyless_tail(self):
        """Records without a key that become due for cleaning: the batch at the end of the cleaned range is then kept empty."""
        if self.only_delete:
            return
        self.set(cleanup_policy="delete")
        for key in self.rng.choice([["-"], ["-", "-"], [quote(self.rng.choice(self.keys)), "-"]]):
            self.lines.append(f"rec {self.timestamp()} {key} =x")
            self.offset += 1
        self.lines += ["append" + (f" codec={self.rng.choice(CODECS)}" if self.compressed else ""), "roll"]
        self.set(cleanup_policy=self.rng.choice(["compact", "compact,delete"]))
        self.clean()

    def delete_records(self):
        self.lines.append(f"delete_records {self.rng.randint(0, self.offset + 1)}")
        self.lines.append("scan")

    def tasks(self):
        """maintain() rolls, cleans and deletes what is due; the referee's tasks do not. So nothing may be due before it."""
        if self.now - self.began > 6 * DAY or "segment.ms" in self.config or "max.compaction.lag.ms" in self.config or (
                self.compacts() and self.config["delete.retention.ms"] == 0):
            return
        self.lines += ["retain"] + (["clean dedupe=262144", "scan", "retain"] if self.compacts() else []) + ["tasks", "scan"]

    def script(self):
        rng = self.rng
        self.start()
        moves = [(self.append, 45), (self.advance, 14), (lambda: self.lines.append("roll"), 5), (self.clean, 12),
                 (lambda: self.lines.extend(["retain", "scan"]), 8), (lambda: self.lines.append("reopen"), 4),
                 (lambda: self.lines.append("scan"), 2), (self.lookups, 5), (self.change, 5), (self.delete_records, 2), (self.tasks, 2),
                 (self.keyless_tail, 1)]
        for _ in range(rng.choice([15, 30, 60, 100])):
            rng.choices([m for m, _ in moves], [w for _, w in moves])[0]()
        self.clean()
        self.lines.append("retain")
        self.lookups()
        return self.lines


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
    def __init__(self, options, scratch):
        self.lua, self.scratch, self.count = options.lua, scratch, itertools.count()
        self.environment = dict(os.environ)
        if options.model:
            self.environment["LUA_PATH"] = str(HERE / "model" / "?.lua")
        if options.kafka:
            self.environment["SEDIMENT_MODEL_KAFKA"] = "1"

    def ask(self, script):
        home = self.scratch / f"s{next(self.count)}"
        try:
            r = subprocess.run([self.lua, str(HERE / "run.lua"), str(home), TOPIC], input="\n".join(script) + "\n", capture_output=True,
                               text=True, env=self.environment, timeout=HANG_SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            return [f"# hangs for more than {HANG_SECONDS} s"]
        finally:
            shutil.rmtree(home, ignore_errors=True)
        lines = r.stdout.splitlines()
        if r.returncode != 0:
            lines.append(f"# died {r.returncode} {r.stderr.strip()[:500]}")
        return lines


# -------------------------------------------------------------------------------------------------------------------- what they said

Scan = collections.namedtuple("Scan", "records segments start end horizons")      # horizons: offset -> delete horizon, from Kafka only
Lookup = collections.namedtuple("Lookup", "time offset")
Retain = collections.namedtuple("Retain", "deleted")
Clean = collections.namedtuple("Clean", "cleaned tombstones_removed")
Refusal = collections.namedtuple("Refusal", "code")
Noise = collections.namedtuple("Noise", "text")

CODES = {"InvalidRecordException": "invalid_record", "InvalidTimestampException": "invalid_timestamp", "RecordTooLargeException": "too_large",
         "RecordBatchTooLargeException": "too_large", "OffsetOutOfRangeException": "offset_out_of_range", "PolicyViolationException": "policy"}


def offset_of(record):
    return int(record.split("\t")[0])


def observations(lines):
    """The output as a list of answers, one for each step that answers."""
    out, records, segments, horizons, batch = [], [], [], {}, 0
    for line in lines:
        word = line.split()
        if not line.startswith("# "):
            records.append(line)
        elif word[1] == "batch":
            horizon = re.search(r"horizon=(\d+)", line)
            horizons.update((offset_of(r), int(horizon.group(1))) for r in records[batch:] if horizon)
            batch = len(records)
        elif word[1] == "segment":
            segments.append((int(word[2].split("=")[1]), int(word[3].split("=")[1])))
        elif word[1] == "log":
            out.append(Scan(records, segments, word[2], word[3], horizons))
            records, segments, horizons, batch = [], [], {}, 0
        elif word[1] == "offset_for":
            out.append(Lookup(int(word[2]), None if word[4] == "none" else int(word[4].split("@")[0])))
        elif word[1] == "retain":
            out.append(Retain(int(word[2].split("=")[1])))
        elif word[1] == "clean":
            removed = re.search(r"tombstones_removed=(\d+)", line)
            out.append(Clean(word[2] != "nothing", int(removed.group(1)) if removed else 0))
        elif word[1] == "error":
            out.append(Refusal(CODES.get(word[2], " ".join(word[2:]) if word[2] == "raised" else word[2])))
        else:
            out.append(Noise(line))
    if records:
        out.append(Noise("records without an end of the scan: " + records[-1]))
    return out


Step = collections.namedtuple("Step", "kafka ours after_kafka after_ours last_scan config clock")

# ------------------------------------------------------------------------------------------- Sediment's intended differences from Kafka
# Each looks at one step that differs and returns True only for exactly the difference it names. After a difference that
# changes what is stored, the rest of the script says nothing any more and is not compared: STOP. After any other: GO_ON.
GO_ON, STOP = "go on", "stop"


def time_lookup_goes_on(s):
    """Kafka looks into one segment only; Sediment into the later ones too."""
    if isinstance(s.kafka, Lookup) and s.kafka.offset is None and s.ours.offset is not None and s.last_scan:
        first = next((r for r in s.last_scan.records if int(r.split("\t")[1]) >= s.kafka.time), None)
        return first is not None and offset_of(first) == s.ours.offset


def purges_expired_tombstones(s):
    """With nothing dirty Kafka cleans nothing; Sediment removes the tombstones past their horizon, and nothing else."""
    if isinstance(s.kafka, Clean) and not s.kafka.cleaned and s.ours.tombstones_removed > 0 and isinstance(s.after_kafka, Scan):
        kafka, ours = s.after_kafka, s.after_ours
        due = [r for r in kafka.records if r.split("\t")[4] == "-" and kafka.horizons.get(offset_of(r), s.clock + 1) <= s.clock]
        return (ours.records == [r for r in kafka.records if r not in due] and len(due) <= s.ours.tombstones_removed
                and (kafka.start, kafka.end) == (ours.start, ours.end))


def size_never_takes_the_active_segment(s):
    """retention.bytes=0 makes Kafka delete the active segment as well."""
    return (isinstance(s.kafka, Retain) and s.config.get("retention.bytes") == "0" and "delete" in s.config.get("cleanup.policy", "delete")
            and s.ours.deleted == s.kafka.deleted - 1)


def another_reason_to_refuse(s):
    """When a batch is bad in several ways, which one is told is not fixed."""
    refusals = {"invalid_record", "invalid_timestamp", "too_large"}
    return isinstance(s.kafka, Refusal) and s.kafka.code in refusals and s.ours.code in refusals


RULES = [(time_lookup_goes_on, GO_ON), (purges_expired_tombstones, STOP), (size_never_takes_the_active_segment, STOP),
         (another_reason_to_refuse, GO_ON)]

# ------------------------------------------------------------------------------------------------------------------------ comparison


def same(kafka, ours, segments):
    if type(kafka) is not type(ours):
        return False
    if isinstance(kafka, Scan):
        return kafka.records == ours.records and (kafka.start, kafka.end) == (ours.start, ours.end) and (not segments or segments(kafka.segments) == segments(ours.segments))
    if isinstance(kafka, Clean):
        return kafka.cleaned == ours.cleaned
    return kafka == ours


def states_at(script, answers):
    """The settings and the clock at each answer: steps that always answer, and refusals, in the order of the script."""
    config, clock, out, k = {}, 0, [], 0
    for line in script:
        word = line.split()
        if word[0] in ("clock", "advance"):
            clock = int(word[1]) + (clock if word[0] == "advance" else 0)
        elif word[0] == "config":
            config = dict(config, **dict(w.split("=", 1) for w in word[1:]))
        answers_here = word[0] in ("scan", "offset_for", "retain", "clean") or (
            word[0] in ("append", "delete_records") and k < len(answers) and isinstance(answers[k], Refusal))
        if answers_here:
            out.append((config, clock))
            k += 1
    return out


def difference(script, kafka_lines, our_lines, options):
    """The first unexplained difference as (kind, text), or None; and the names of the rules that were needed."""
    kafka, ours = observations(kafka_lines), observations(our_lines)
    states, used, last_scan = states_at(script, kafka), [], None
    segments = None
    if options.segments:
        compressed = any(" codec=" in line and "codec=none" not in line for line in script)
        segments = (lambda s: [b for b, _ in s]) if compressed else (lambda s: s)
    for i, (k, o) in enumerate(itertools.zip_longest(kafka, ours)):
        if isinstance(k, Scan):
            last_scan = k
        if k is not None and o is not None and same(k, o, segments):
            continue
        rule = None
        if type(k) is type(o) and not options.kafka:
            step = Step(k, o, kafka[i + 1] if i + 1 < len(kafka) else None, ours[i + 1] if i + 1 < len(ours) else None, last_scan,
                        *(states[i] if i < len(states) else ({}, 0)))
            rule = next(((f, then) for f, then in RULES if f(step)), None)
        if rule is None:
            kind = tuple(x.code if isinstance(x, Refusal) else type(x).__name__ for x in (k, o))
            return (kind, f"answer {i + 1}:\n" + describe(k, o, segments)), used
        used.append(rule[0].__name__)
        if rule[1] == STOP:
            break
    return None, used


def describe(k, o, segments):
    if isinstance(k, Scan) and isinstance(o, Scan):
        lines = ["  kafka only: " + r for r in k.records if r not in set(o.records)][:5]
        lines += ["  ours only:  " + r for r in o.records if r not in set(k.records)][:5]
        if (k.start, k.end) != (o.start, o.end):
            lines.append(f"  log: kafka {k.start} {k.end}, ours {o.start} {o.end}")
        if segments and segments(k.segments) != segments(o.segments):
            lines.append(f"  segments (base, bytes): kafka {k.segments}, ours {o.segments}")
        return "\n".join(lines) or "  same records in another order"
    def brief(x):
        return f"a scan of {len(x.records)} records, log {x.start} {x.end}" if isinstance(x, Scan) else str(x)
    return f"  kafka: {brief(k)}\n  ours:  {brief(o)}"


def sensible(script):
    """Whether both sides can be asked this: only compacted topics are cleaned, and nothing is due when `tasks` comes (Writer.tasks)."""
    config = {}
    for i, line in enumerate(script):
        if line.startswith("config"):
            config.update(w.split("=", 1) for w in line.split()[1:])
        compacts = "compact" in config.get("cleanup.policy", "delete")
        if line.startswith("clean") and not compacts:
            return False
        if line == "tasks":
            before = [l.split()[0] for l in script[max(0, i - 4):i]]
            if compacts and (before != ["retain", "clean", "scan", "retain"] or config.get("delete.retention.ms") == "0") or before[-1:] != ["retain"]:
                return False
    return True


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
    p.add_argument("--lua", default="lua5.4", help="lua5.4 or luajit")
    p.add_argument("--n", type=int, default=100, help="how many scripts")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--codecs", action="store_true", help="compressed batches too (sizes are then not compared)")
    p.add_argument("--model", action="store_true", help="over the model beside this file")
    p.add_argument("--kafka", action="store_true", help="allow no intended difference (the model then has none)")
    p.add_argument("--segments", action="store_true", help="compare bases and sizes of the segments too")
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
    referee, lua = Referee(scratch), Lua(options, scratch)
    try:
        if options.script:
            script = [l.strip() for l in open(options.script) if l.strip() and not l.startswith("#")]
            kafka, ours = referee.ask(script), lua.ask(script)
            print("\n".join(["--- kafka"] + kafka + ["--- ours"] + ours))
            found, used = difference(script, kafka, ours, options)
            print("--- verdict:", found[1] if found else "no difference", "".join(f" [{u}]" for u in used))
            return 1 if found else 0
        return sweep(options, referee, lua)
    finally:
        referee.close()
        shutil.rmtree(scratch, ignore_errors=True)


def sweep(options, referee, lua):
    if lua.ask([]):
        raise RuntimeError("an empty script fails: " + lua.ask([])[-1])
    done, failures, rules, seen, started = 0, 0, collections.Counter(), collections.Counter(), time.time()

    def verdict(script):
        return difference(script, referee.ask(script), lua.ask(script), options)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for i in range(options.n):
            script = Writer(random.Random(f"{options.seed}:{i}"), options.codecs, options.file_times).script()
            waiting = pool.submit(lua.ask, script)
            kafka = referee.ask(script)
            found, used = difference(script, kafka, waiting.result(), options)
            done += 1
            rules.update(used)
            seen.update(type(o).__name__ + (":" + o.code if isinstance(o, Refusal) else "") for o in observations(kafka))
            if found is None:
                continue
            failures += 1
            if failures > SHRUNK:
                print(f"=== script {i} of seed {options.seed} differs, {found[1]}\n", flush=True)
                continue
            small = shrink(script, lambda s: (verdict(s)[0] or [None])[0] == found[0], options.shrink_seconds)
            print(f"=== script {i} of seed {options.seed} differs ({len(script)} lines, {len(small)} after shrinking)")
            print("\n".join(small), "\n---", verdict(small)[0][1], "\n", flush=True)
            if options.fail_fast:
                break
    print(f"{done} scripts, {failures} with a difference, {time.time() - started:.0f} s; lua {options.lua}, seed {options.seed}"
          + (", codecs" if options.codecs else "") + (", model" if options.model else ""))
    print("answers compared:", ", ".join(f"{k} {v}" for k, v in sorted(seen.items())))
    print("rules used:", ", ".join(f"{k} {v}" for k, v in sorted(rules.items())) or "none")
    print(f"{done - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        print("differ:", e, file=sys.stderr)
        sys.exit(2)
