-- What wrk sends: Pub/Sub push bodies, unique in message id and in content, over 100 services in turn.
--
--   wrk … -s push.lua URL -- RUN SECOND BYTES   RUN: four digits, part of every message id
--                                               SECOND: epoch second at which the run's event times begin
--                                               BYTES: size of messages.py's body, which this one must equal
--
-- Everything that does not change is put together once. What changes per message are fixed-width digits that start
-- at a multiple of three bytes in the payload, so their base64 comes from a table and nothing is encoded anew.

local SERVICES = 100
local PER_SECOND = 10000 -- event times are 100 µs apart
local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local STATUS = { "healthy", "warning", "failing" }
local REGION = { "us-east1", "us-west1", "us-east4" }

local floor = math.floor
local digits, digits64, before64, after64 = {}, {}, {}, {}
local run, start, n = "", 0, 0
local second, second_text, second64 = -1, "", ""
local head = ""

local function base64(text)
  assert(#text % 3 == 0, "not a multiple of three bytes: " .. text)
  return (text:gsub("...", function(three)
    local a, b, c = three:byte(1, 3)
    local bits, out = a * 65536 + b * 256 + c, ""
    for place = 3, 0, -1 do
      local six = floor(bits / 64 ^ place) % 64
      out = out .. ALPHABET:sub(six + 1, six + 1)
    end
    return out
  end))
end

local function padded(text) -- with spaces, which JSON allows between its parts
  return text .. (" "):rep(-#text % 3)
end

local function next_body()
  local service, now = n % SERVICES, floor(n / PER_SECOND)
  if now ~= second then
    second = now
    second_text = os.date("!%Y-%m-%dT%H:%M:%S.", start + now)
    second64 = base64('"' .. second_text)
  end
  local ticks = n % PER_SECOND
  local high, low = floor(ticks / 10), ticks % 10 * 100
  local id = run .. digits[floor(n / 1000000)] .. digits[floor(n / 1000) % 1000] .. digits[n % 1000]
  local published = second_text .. digits[high] .. digits[low] .. "Z"
  n = n + 1
  return '{"message":{"data":"' .. before64[service] .. second64 .. digits64[high] .. digits64[low]
    .. after64[service] .. '","messageId":"' .. id .. '","message_id":"' .. id
    .. '","publishTime":"' .. published .. '","publish_time":"' .. published
    .. '","attributes":{"topic":"system.events"}},"subscription":"projects/local/subscriptions/system-events"}'
end

function init(args)
  run, start = assert(args[1], "RUN is missing"), assert(tonumber(args[2]), "SECOND is missing")
  for i = 0, 999 do
    digits[i] = ("%03d"):format(i)
    digits64[i] = base64(digits[i])
  end
  for i = 0, SERVICES - 1 do
    before64[i] = base64(padded(('{"service":"svc-%02d","timestamp":'):format(i)))
    after64[i] = base64(padded(
      ('Z","status":"%s","version":"1.%02d.0","region":"%s","instance":"svc-%02d-7f9c4d5b6","kind":"heartbeat"}')
        :format(STATUS[i % #STATUS + 1], i, REGION[i % #REGION + 1], i)))
  end
  local length = #next_body()
  assert(length == tonumber(args[3]), "push.lua and messages.py make bodies of different sizes")
  head = ("POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n")
    :format(wrk.path, wrk.host, wrk.port, length)
end

function request()
  return head .. next_body()
end

function done(summary, latency)
  local errors = summary.errors
  io.write(("BENCH {%q:%d,%q:%d,%q:%d,%q:%d,%q:%.3f,%q:%.3f}\n"):format(
    "requests", summary.requests, "duration_us", summary.duration, "bad_status", errors.status,
    "lost", errors.connect + errors.read + errors.write + errors.timeout,
    "p50_us", latency:percentile(50), "p99_us", latency:percentile(99)))
end
