--- Compares add and get of a tensor from LuaJIT with the same calls from C++, alternating in one process. Prints a JSON
--- line each.
---
---   make bench-lua
---   LUA_PATH=... luajit bench/lua.lua PEER_LIBRARY [ROUNDS]
local ffi = require "ffi"
local multiverso = require "multiverso"

ffi.cdef [[
void* cpp_peer_open(int64_t size);
double cpp_peer_turn(void* peer, int64_t repeats, int fresh);
void cpp_peer_close(void* peer);
typedef struct { int64_t seconds, nanoseconds; } bench_time;
int clock_gettime(int clock, bench_time* out);
]]
local peer_library = ffi.load(assert(arg[1], "usage: bench/lua.lua PEER_LIBRARY [ROUNDS]"))
local rounds = tonumber(arg[2] or 21)
local kBlock = 20000 -- approximate duration of a turn in microseconds

local time = ffi.new("bench_time")
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) * 1e6 + tonumber(time.nanoseconds) / 1e3
end

local function median(values)
  table.sort(values)
  local n = #values
  return n % 2 == 1 and values[(n + 1) / 2] or (values[n / 2] + values[n / 2 + 1]) / 2
end

--- Returns half the interquartile range, relative to the median.
local function spread(values)
  local middle = median(values)
  local quarter = math.floor(#values / 4)
  return (values[#values - quarter] - values[quarter + 1]) / 2 / middle
end

--- With `fresh`, each get creates a new tensor, or a new vector at the peer. Otherwise both reuse one.
local function compare(name, size, fresh)
  local handler = multiverso.ArrayTableHandler:new(size)
  local delta = multiverso.FloatTensor(size):fill(1)
  handler:add(delta, true)
  local first = handler:get()
  assert(first[1] == 1 and first:sum() == size, "bench: wrong result")
  local out = not fresh and first or nil
  first = nil

  local function turn(repeats)
    local start = now()
    for _ = 1, repeats do
      handler:add(delta)
      handler:get(out)
    end
    return (now() - start) / repeats
  end
  local peer = peer_library.cpp_peer_open(size)
  turn(200)
  peer_library.cpp_peer_turn(peer, 200, fresh)
  local repeats = math.max(1, math.floor(kBlock / peer_library.cpp_peer_turn(peer, 20, fresh)))
  local ours, theirs, ratios = {}, {}, {}
  for round = 1, rounds do
    if round % 2 == 0 then ours[round] = turn(repeats) end
    theirs[round] = peer_library.cpp_peer_turn(peer, repeats, fresh)
    if round % 2 == 1 then ours[round] = turn(repeats) end
    ratios[round] = theirs[round] / ours[round]
  end
  peer_library.cpp_peer_close(peer)
  print(('{"name":"%s","procs":1,"size":%d,"median_us":%.3f,"spread":%.3f,"peer_us":%.3f,"ratio":%.3f}'):format(
    name, size, median(ours), spread(ours), median(theirs), median(ratios)))
end

multiverso.init{log_level = "off"}
for _, size in ipairs{1000, 100000, 1000000} do
  compare("lua_add_get", size, false)
  compare("lua_add_get_new", size, true)
end
multiverso.shutdown()
