--- Runs named cases on every rank and prints the outcome of each as a line: case, rank, "ok" or the error.
local harness = {cases = {}}

function harness.case(name, body) harness.cases[#harness.cases + 1] = {name = name, body = body} end

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local words = {}
  for i, item in ipairs(value) do words[i] = shown(item) end
  return "{" .. table.concat(words, ", ") .. "}"
end

--- Compares tables of numbers (or of tables ...), or plain values.
function harness.equal(received, expected)
  if type(received) == "table" and received.totable then received = received:totable() end
  local function same(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b end
    if #a ~= #b then return false end
    for i = 1, #a do
      if not same(a[i], b[i]) then return false end
    end
    return true
  end
  if not same(received, expected) then
    error(("expected %s, received %s"):format(shown(expected), shown(received)), 2)
  end
end

--- Checks that the call raises an error with a position in this file and all of these words.
function harness.raises(call, ...)
  local good, words = pcall(call)
  if good then error("expected an error", 2) end
  words = tostring(words)
  if not words:find("^[^\n]*cases[%w_]*%.lua:%d+: ") then error("no position of the caller: " .. words, 2) end
  for _, word in ipairs{...} do
    if not words:find(word, 1, true) then error(("expected %q in %q"):format(word, words), 2) end
  end
end

--- Returns a list that contains the value n times.
function harness.times(n, value)
  local list = {}
  for i = 1, n do list[i] = value end
  return list
end

function harness.run()
  local multiverso = require "multiverso"
  local rank = os.getenv("OMPI_COMM_WORLD_RANK") or "0"
  local only = arg and arg[1]
  for _, case in ipairs(harness.cases) do
    if not only or only == case.name then
      local good, words = xpcall(case.body, debug.traceback)
      if not good then pcall(multiverso.shutdown) end
      io.stdout:write(("%s\t%s\t%s\n"):format(case.name, rank, good and "ok" or tostring(words):gsub("%s+", " ")))
      io.stdout:flush()
    end
  end
end

return harness
