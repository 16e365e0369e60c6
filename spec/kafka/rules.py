"""What the two sides answered, compared; the differences that are meant, each with a name (docs/kafka-differences.md lists them)."""
import collections, itertools, re

from scripts import state

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
            out.append(Refusal("full_index" if re.search("append to a full (time )?index", line) else CODES.get(word[2], " ".join(word[2:]) if word[2] == "raised" else word[2])))
        else:
            out.append(Noise(line))
    if records:
        out.append(Noise("records without an end of the scan: " + records[-1]))
    return out


ALWAYS = ("scan", "offset_for", "retain", "clean")      # steps that answer whatever happens
Step = collections.namedtuple("Step", "kafka ours after_kafka after_ours last_scan config clock reopened zstd")

# ------------------------------------------------------------------------------------------- Sediment's intended differences from Kafka
# Each looks at one step that differs and returns True only for exactly the difference it names. After a difference that
# changes what is stored, the rest of the script says nothing any more and is not compared: STOP. After any other: GO_ON.
GO_ON, STOP = "go on", "stop"


def time_lookup_goes_on(s):
    """Kafka looks into one segment only; Sediment into the later ones too."""
    if s.kafka.offset is None and s.ours.offset is not None and s.last_scan:
        first = next((r for r in s.last_scan.records if int(r.split("\t")[1]) >= s.kafka.time), None)
        return first is not None and offset_of(first) == s.ours.offset


def purges_expired_tombstones(s):
    """With nothing dirty Kafka cleans nothing; Sediment removes the tombstones past their horizon, and nothing else."""
    if not s.kafka.cleaned and s.ours.tombstones_removed > 0 and isinstance(s.after_kafka, Scan):
        kafka, ours = s.after_kafka, s.after_ours
        due = [r for r in kafka.records if r.split("\t")[4] == "-" and kafka.horizons.get(offset_of(r), s.clock + 1) <= s.clock]
        return (ours.records == [r for r in kafka.records if r not in due] and len(due) <= s.ours.tombstones_removed
                and (kafka.start, kafka.end) == (ours.start, ours.end))


def size_never_takes_the_active_segment(s):
    """retention.bytes=0 makes Kafka delete the active segment as well."""
    return (s.config.get("retention.bytes") == "0" and "delete" in s.config.get("cleanup.policy", "delete")
            and s.ours.deleted == s.kafka.deleted - 1)


def another_reason_to_refuse(s):
    """When a batch is bad in several ways, which one is told is not fixed."""
    refusals = {"invalid_record", "invalid_timestamp", "too_large"}
    return s.kafka.code in refusals and s.ours.code in refusals


def cleans_what_fills_an_index(s):
    """Kafka's cleaner gives up, then and for ever, when what it writes has more index entries than segment.index.bytes holds; Sediment cleans."""
    if s.kafka == Refusal("full_index") and isinstance(s.after_kafka, Scan) and isinstance(s.after_ours, Scan):
        before, after = s.after_kafka.records, s.after_ours.records
        last = {r.split("\t")[3]: r for r in before}
        needed = [r for r in last.values() if r.split("\t")[3] != "-" and r.split("\t")[4] != "-"]
        return set(after) <= set(before) and set(needed) <= set(after)


def remembers_the_last_index_entry(s):
    """Opening a log, Kafka forgets how far behind its last index entry is, so the indexes fill up later, and so does the segment."""
    return (s.reopened and int(s.config.get("segment.index.bytes", 10 << 20)) < 1000 and s.kafka.records == s.ours.records
            and (s.kafka.start, s.kafka.end) == (s.ours.start, s.ours.end)
            and sum(size for _, size in s.kafka.segments) * 0.95 < sum(size for _, size in s.ours.segments) < sum(size for _, size in s.kafka.segments) * 1.05)


def zstd_in_one_call(s):
    """zstd is given a whole batch, and chooses its tables by the size; Kafka streams to it. What the other codecs make has Kafka's size."""
    return (s.zstd and s.kafka.records == s.ours.records and (s.kafka.start, s.kafka.end) == (s.ours.start, s.ours.end)
            and bases(s.kafka.segments) == bases(s.ours.segments)
            and all(abs(ours - kafka) <= kafka / 8 for (_, kafka), (_, ours) in zip(s.kafka.segments, s.ours.segments)))


# Rule, what Kafka and what Sediment answered, whether the script says something afterwards.
RULES = [(time_lookup_goes_on, Lookup, Lookup, GO_ON), (purges_expired_tombstones, Clean, Clean, STOP),
         (size_never_takes_the_active_segment, Retain, Retain, STOP), (another_reason_to_refuse, Refusal, Refusal, GO_ON),
         (cleans_what_fills_an_index, Refusal, Clean, STOP), (zstd_in_one_call, Scan, Scan, GO_ON),
         (remembers_the_last_index_entry, Scan, Scan, STOP)]


# ------------------------------------------------------------------------------------------------------------------------ comparison


def same(kafka, ours, segments):
    if type(kafka) is not type(ours):
        return False
    if isinstance(kafka, Scan):
        return (kafka.records == ours.records and (kafka.start, kafka.end) == (ours.start, ours.end)
                and segments(kafka.segments) == segments(ours.segments))
    if isinstance(kafka, Clean):
        return kafka.cleaned == ours.cleaned
    return kafka == ours


def states_at(script, answers):
    """The settings and the clock at each answer: steps that always answer, and refusals, in the order of the script."""
    always = [w for w in ALWAYS if not (w in ("retain", "clean") and any(l.startswith("partition") for l in script))]
    out, k = [], 0
    for i, line in enumerate(script):
        word = line.split()[0]
        if word in always or (word in ("append", "delete_records") and k < len(answers) and isinstance(answers[k], Refusal)):
            out.append(state(script[:i]))
            k += 1
    return out


def comparable(script, lines):
    """The answers that are about the partition that the script looks at: what went and what was cleaned is told of the whole topic."""
    some = any(line.startswith("partition") for line in script)
    return [o for o in observations(lines) if not (some and isinstance(o, (Retain, Clean)))]


def bases(segments):
    return [base for base, _ in segments]


def facts_of_segments(script):
    """What segments are compared by: where they begin, and their bytes unless records gather in the stage, in other batches than Kafka's."""
    return bases if any("staged=" in line for line in script) else list


def explain(script, kafka_lines, our_lines):
    """Yields (Kafka's answer, ours, rule, what then): the rule's name where one explains a difference, "differs" where none does."""
    kafka, ours = comparable(script, kafka_lines), comparable(script, our_lines)
    states, last_scan, segments = states_at(script, kafka), None, facts_of_segments(script)
    for i, (k, o) in enumerate(itertools.zip_longest(kafka, ours)):
        if isinstance(k, Scan):
            last_scan = k
        if k is not None and o is not None and same(k, o, segments):
            yield k, o, None, GO_ON
            continue
        step = Step(k, o, kafka[i + 1] if i + 1 < len(kafka) else None, ours[i + 1] if i + 1 < len(ours) else None, last_scan,
                    *(states[i] if i < len(states) else ({}, 0, False, False)))
        rule = next(((f.__name__, then) for f, one, other, then in RULES if isinstance(k, one) and isinstance(o, other) and f(step)), None)
        yield (k, o, *(rule or ("differs", STOP)))


def difference(script, kafka_lines, our_lines):
    """The first unexplained difference as (kind, text), or None; and the names of the rules that were needed."""
    used = []
    for i, (k, o, rule, then) in enumerate(explain(script, kafka_lines, our_lines)):
        if rule == "differs":
            kind = tuple(x.code if isinstance(x, Refusal) else type(x).__name__ for x in (k, o))
            return (kind, f"answer {i + 1}:\n" + describe(k, o, facts_of_segments(script))), used
        used += [rule] if rule else []
        if then == STOP:
            break
    return None, used


def describe(k, o, segments):
    if isinstance(k, Scan) and isinstance(o, Scan):
        lines = ["  kafka only: " + r for r in k.records if r not in set(o.records)][:5]
        lines += ["  ours only:  " + r for r in o.records if r not in set(k.records)][:5]
        if (k.start, k.end) != (o.start, o.end):
            lines.append(f"  log: kafka {k.start} {k.end}, ours {o.start} {o.end}")
        if segments(k.segments) != segments(o.segments):
            lines.append(f"  segments (base, bytes): kafka {k.segments}, ours {o.segments}")
        return "\n".join(lines) or "  same records in another order"
    def brief(x):
        return f"a scan of {len(x.records)} records, log {x.start} {x.end}" if isinstance(x, Scan) else str(x)
    return f"  kafka: {brief(k)}\n  ours:  {brief(o)}"
