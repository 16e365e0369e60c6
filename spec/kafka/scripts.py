"""The random scripts of differ.py, and what may be asked of both sides."""
import re

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
UNIFORM = 89    # bytes of a batch with one record: a key of one byte, a value of 20, no headers
HEAD = ["errors keep", "mtime clock"]
DAY = 86400000


def quote(b):
    return "=" + "".join(chr(c) if chr(c).isalnum() and c < 128 else "%%%02X" % c for c in b)


class Writer:
    """One random script. A script draws its settings first, so that each kind of trouble gets whole scripts of its own."""

    def __init__(self, rng, codecs, file_times):
        self.rng, self.lines = rng, list(HEAD)
        self.kind = rng.choices(["plain", "compressed", "staged", "partitions", "large"], [60, 25 if codecs else 0, 8, 8, 4])[0]
        self.compressed, self.large = self.kind == "compressed", self.kind == "large"
        # The sizes of zstd batches are Kafka's only about; what is between the others must be seen without them, too.
        self.codecs = rng.choice([CODECS, CODECS[:-1], CODECS[:-1]]) if self.compressed else []
        # Records that gather in the stage make other batches than Kafka's: sizes, and what is decided by them, are not Kafka's then.
        self.staged = self.kind in ("staged", "partitions")
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
        self.largest = 4000 if self.large else rng.choice([20, 20, 100, 400])
        self.config = {}
        # Batches of one size, and limits that are multiples of it: the only way to meet "equal" where a rule says "more than".
        self.uniform = self.kind == "plain" and rng.random() < 0.15
        if self.uniform:
            self.keys, self.null_keys, self.tombstones = [b"a", b"b"], 0, 0
        # What follows is drawn from the kind alone: a map for so many keys only, indexes with room for so few entries.
        self.small_map = not self.staged and rng.random() < 0.2
        self.small_index = self.kind in ("plain", "compressed") and rng.random() < 0.15
        # Of several partitions the script looks at one; a refusal or a deletion elsewhere would show there only.
        self.partitions = rng.randint(2, 6) if self.kind == "partitions" else 0
        if self.staged:
            self.null_keys = 0          # a batch that cleaning empties keeps its time: other batches, other times
        if self.partitions:
            self.clocks = [c for c in self.clocks if c != "far"] or ["now"]

    def few_keys(self):
        return [b"a", b"b", b"", b"\x00\xff"][:self.rng.randint(1, 4)]

    def many_keys(self):
        return [b"key%d" % i + b"y" * (i % 4) for i in range(self.rng.randint(20, 300))]      # of all lengths that the hash tells apart

    def set(self, **changes):
        changes = {k.replace("_", "."): v for k, v in changes.items()}
        self.config.update(changes)
        self.lines.append("config " + " ".join(f"{k}={v}" for k, v in sorted(changes.items())))

    def policy(self):
        return "delete" if self.only_delete else self.rng.choice(["compact", "delete", "compact,delete"])

    def segment_bytes(self):
        if self.uniform:
            return UNIFORM * self.rng.choice([1, 2, 3, 12])
        if self.large:
            return self.rng.choice([1 << 16, 1 << 18, 1 << 20])
        return 1 << 30 if self.compressed or self.staged else self.rng.choice([1024, 1024, 1536, 2048, 4096, 8192, 16384])

    def retention_bytes(self):
        if self.uniform:
            return UNIFORM * self.rng.choice([1, 2, 3, 5, 12])
        if self.large:
            return self.rng.choice([-1, -1, 100_000, 500_000])
        return -1 if self.compressed or self.staged else self.rng.choice([-1, -1, 0, 1, 1500, 3000, 3000, 10000])

    def retention_ms(self):
        return self.rng.choice([-1, 0, 60_000, 600_000, 600_000, 3_600_000, 7 * DAY]) if self.ages else -1

    def lag(self):
        return self.rng.choice([0, 0, 60_000, 600_000]) if self.ages else 0

    def horizon(self):
        if self.staged:
            return 10**12               # as above; and what goes without anything dirty would show in a count over all partitions
        return self.rng.choice([0, 1, 60_000, 600_000, DAY])

    def index_bytes(self):
        """Set once, before the first segment: a change reaches the active segment in Sediment, only the next one in Kafka."""
        return self.rng.choice([12, 24, 36, 48, 100, 240]) if self.small_index else 10 << 20

    def dirty_ratio(self):
        return self.rng.choice([0, 0.1, 0.3, 0.5, 0.5, 0.8, 1])

    def compacts(self):
        return "compact" in self.config["cleanup.policy"]

    def start(self):
        rng = self.rng
        if self.small_map:
            self.lines.append(f"options log.cleaner.dedupe.buffer.size={rng.choice([64, 100, 120, 240, 500, 1200])}")
        if self.partitions:
            self.lines.append(f"partition {rng.randrange(self.partitions)} {self.partitions}")
        self.lines.append(f"clock {self.now}")
        self.set(cleanup_policy=self.policy(), segment_bytes=self.segment_bytes(), index_interval_bytes=rng.choice([0, 1, 200, 4096]),
                 retention_bytes=self.retention_bytes(), retention_ms=self.retention_ms(), delete_retention_ms=self.horizon(),
                 min_compaction_lag_ms=self.lag(), min_cleanable_dirty_ratio=self.dirty_ratio())
        if self.small_index:
            self.set(segment_index_bytes=self.index_bytes())
        if self.partitions:
            self.set(message_timestamp_after_max_ms=10**15)
        if self.staged:
            self.set(segment_ms=10**15)
        elif rng.random() < 0.15:
            self.set(segment_ms=rng.choice([1, 60_000, 600_000]))
        if rng.random() < 0.2 and not self.staged:
            self.set(max_compaction_lag_ms=rng.choice([600_001, 3_600_000]), min_cleanable_dirty_ratio=rng.choice([0.5, 1, 1]))     # 1: only the lag
        if rng.random() < 0.3 and not self.partitions:
            self.set(message_timestamp_after_max_ms=10**15)
        if rng.random() < 0.05 and not self.partitions:
            self.set(message_timestamp_before_max_ms=600_000)
        if rng.random() < 0.1:
            self.set(message_timestamp_type="LogAppendTime")
        if rng.random() < (0.3 if self.uniform else 0.1) and self.kind == "plain":
            self.set(max_message_bytes=UNIFORM if self.uniform else rng.choice([300, 900]))

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
        count = 1 if self.uniform else rng.choice([20, 30, 40]) if self.large else rng.choice([1, 1, 1, 2, 3, 5, 8, rng.randint(1, 40)])
        for _ in range(count):
            null = rng.random() < (self.null_keys / 10 if self.compacts() else self.null_keys)
            headers = [self.header() for _ in range(0 if self.uniform else rng.choice([0, 0, 0, 1, 2]))]
            self.lines.append(" ".join(["rec", self.timestamp(), "-" if null else quote(rng.choice(self.keys)), self.value()] + headers))
        self.offset += count
        self.lines.append(self.append_line())

    def append_line(self):
        return "append staged=yes" if self.staged else f"append codec={self.rng.choice(self.codecs)}" if self.compressed else "append"

    def advance(self):
        ms = self.rng.choice([1, 1000, 30_000, 60_000, 60_001, 300_000, 600_000, 600_001, 3_600_000, DAY])
        self.now += ms
        self.lines.append(f"advance {ms}")

    def clean(self):
        if not self.compacts():
            return
        if self.rng.random() < 0.6:
            self.lines.append("roll")
        self.layout()
        self.lines += ["clean due=yes" if not self.staged and self.rng.random() < 0.4 else "clean", "scan"]

    def layout(self):
        """Where the segments begin can differ as a named rule has it; that must be seen before it shows in what goes."""
        if self.small_index:
            self.lines.append("scan")

    def retain(self):
        self.layout()
        self.lines += ["retain", "scan"]

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
            lambda: {"min_cleanable_dirty_ratio": self.dirty_ratio()},
            lambda: {"message_timestamp_type": self.rng.choice(["CreateTime", "CreateTime", "LogAppendTime"])},
        ])())

    def keyless_tail(self):
        """Records without a key that become due for cleaning: the batch at the end of the cleaned range is then kept empty."""
        if self.only_delete or self.staged:
            return
        self.set(cleanup_policy="delete")
        for key in self.rng.choice([["-"], ["-", "-"], [quote(self.rng.choice(self.keys)), "-"]]):
            self.lines.append(f"rec {self.timestamp()} {key} =x")
            self.offset += 1
        self.lines += [self.append_line(), "roll"]
        self.set(cleanup_policy=self.rng.choice(["compact", "compact,delete"]))
        self.clean()

    def kill(self):
        """A segment that began without a timestamp is as old, for rolling, as the process that opened it: Kafka's has not ended here."""
        if "missing" not in self.clocks or not {"segment.ms", "max.compaction.lag.ms"} & set(self.config):
            self.lines.append("kill")

    def delete_records(self):
        self.lines.append(f"delete_records {self.rng.randint(0, self.offset + 1)}")
        self.lines.append("scan")

    def tasks(self):
        """maintain() rolls, cleans and deletes what is due; the referee's tasks do not. So nothing may be due before it."""
        if self.now - self.began > 6 * DAY or "segment.ms" in self.config or "max.compaction.lag.ms" in self.config or (
                self.compacts() and self.config["delete.retention.ms"] == 0):
            return
        self.layout()
        self.lines += ["retain"] + (["clean", "scan", "retain"] if self.compacts() else []) + ["tasks", "scan"]

    def script(self):
        rng = self.rng
        self.start()
        moves = [(self.append, 45), (self.advance, 14), (lambda: self.lines.append("roll"), 5), (self.clean, 12),
                 (self.retain, 8), (lambda: self.lines.append("reopen"), 4), (self.kill, 3),
                 (lambda: self.lines.append("scan"), 2), (self.lookups, 5), (self.change, 5), (self.delete_records, 2), (self.tasks, 2),
                 (self.keyless_tail, 1)]
        for _ in range(40 if self.large else rng.choice([15, 30, 60, 100])):
            rng.choices([m for m, _ in moves], [w for _, w in moves])[0]()
        self.clean()
        self.retain()
        self.lookups()
        return self.lines


def state(script):
    """The settings and the clock after these lines, whether the log was closed and opened again, and whether it has zstd batches."""
    config, clock = {}, 0
    for line in script:
        word = line.split()
        if word[0] in ("clock", "advance"):
            clock = int(word[1]) + (clock if word[0] == "advance" else 0)
        elif word[0] == "config":
            config.update(w.split("=", 1) for w in word[1:])
    return config, clock, "reopen" in script, "append codec=zstd" in script


def processes(script):
    """The script cut where the process is killed; each part begins with what the next process has to be told."""
    parts, first = [], 0
    for i, line in enumerate(script):
        if line == "kill" or i + 1 == len(script):
            told = [l for l in script[:first] if l.split()[0] in ("options", "partition")] + [f"clock {state(script[:first])[1]}"] if first else []
            parts.append(told + script[first:i + 1])
            first = i + 1
    return parts


def sensible(script):
    """Whether both sides can be asked this: only compacted topics are cleaned, and nothing is due when `tasks` comes (Writer.tasks)."""
    config = {}
    for i, line in enumerate(script):
        if line.startswith("config"):
            config.update(w.split("=", 1) for w in line.split()[1:])
        compacts = "compact" in config.get("cleanup.policy", "delete")
        if line.startswith("clean") and not compacts:
            return False
        if line == "kill" and any(l.startswith("rec") for l in script[:i]) and not any(
                l.startswith("append") for l in script[max(j for j in range(i) if script[j].startswith("rec")):i]):
            return False
        if line == "tasks":
            before = [l.split()[0] for l in script[max(0, i - 4):i]]
            if compacts and (before != ["retain", "clean", "scan", "retain"] or config.get("delete.retention.ms") == "0") or before[-1:] != ["retain"]:
                return False
    return True


# Without what it claims to reach, a script must say something else. Each takes it out of a line.
REACH = {
    "full indexes": lambda l: re.sub(r" ?segment\.index\.bytes=\d+", "", l),
    "a map too small for the keys": lambda l: "" if l.startswith("options") else l,
    "dirty ratio or lag as a reason not to clean": lambda l: l.replace("clean due=yes", "clean"),
    "max.compaction.lag.ms": lambda l: re.sub(r" ?max\.compaction\.lag\.ms=\d+", "", l),
    "several partitions": lambda l: "" if l.startswith("partition") else l,
}


def without(script, what):
    return [l for l in map(REACH[what], script) if l and l != "config"]


def for_model(script):
    """Without what the model does not know: full indexes, maps that are too small, the choice of a partition, processes."""
    for what in "full indexes", "a map too small for the keys", "several partitions":
        script = without(script, what)
    return ["reopen" if line == "kill" else line for line in script]
