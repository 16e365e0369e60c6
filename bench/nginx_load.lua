-- What wrk asks for, and what it says in the end: one line with the responses, seconds, median and 99 % of the latency in µs, and failures.
-- luacheck: globals wrk init request done

local COUNT = 1000                        -- lines that differ, as those of clients do
local requests, next_one = {}, 0

function init()
  for i = 1, COUNT do
    requests[i] = wrk.format(nil, ("%s?user=%08d&page=%d&from=the-benchmark-of-sediment"):format(wrk.path, i * 7919, i % 50))
  end
end

function request()
  next_one = next_one % COUNT + 1
  return requests[next_one]
end

function done(summary, latency)
  local e = summary.errors
  print(("\nsummary %d %f %f %f %d"):format(summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
