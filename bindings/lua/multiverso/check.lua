--- Raises errors that name the line of the user's program instead of a line of this module, and the value received.
local check = {}

local folder = debug.getinfo(1, "S").source:match("^(.*[/\\])") or "@./"

--- Raises an error at the position of the nearest caller outside this module.
function check.fail(words, ...)
  local message = select("#", ...) > 0 and words:format(...) or words
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then error(message, 0) end
    local source = info.source
    if info.what ~= "C" and source ~= "=(tail call)" and source:sub(1, #folder) ~= folder then
      error(message, level)
    end
    level = level + 1
  end
end

--- Formats a number as a person writes it: 7 and not 7.0.
function check.number(value) return ("%.14g"):format(value) end

--- Describes a value for messages: number 2.5, string "abc", table of 3, multiverso.FloatTensor of 2 x 3.
function check.describe(value)
  local kind = type(value)
  if kind == "number" then return "number " .. check.number(value) end
  if kind == "string" then return ("string %q"):format(#value > 40 and value:sub(1, 40) .. "..." or value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "table" and not getmetatable(value) then return "table of " .. #value end
  return kind
end

--- Returns whether a value is an integer that a double holds exactly.
function check.whole(value)
  return type(value) == "number" and value % 1 == 0 and value > -2 ^ 53 and value < 2 ^ 53
end

--- Returns the edit distance of two words.
local function distance(from, to)
  local row = {}
  for j = 0, #to do row[j] = j end
  for i = 1, #from do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #to do
      local cost = from:byte(i) == to:byte(j) and 0 or 1
      diagonal, row[j] = row[j], math.min(row[j] + 1, row[j - 1] + 1, diagonal + cost)
    end
  end
  return row[#to]
end

--- Raises an error for a name that is not in the list `known`, with all known names and the closest one.
function check.unknown(where, what, name, known)
  local nearest, least = nil, 3
  for _, word in ipairs(known) do
    local d = distance(tostring(name), word)
    if d < least then nearest, least = word, d end
  end
  local hint = nearest and ("; did you mean %q?"):format(nearest) or ""
  check.fail("%s unknown %s %q; known: %s%s", where, what, tostring(name), table.concat(known, ", "), hint)
end

return check
