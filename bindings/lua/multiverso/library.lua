--- Finds libpleiad.so. If there is none, the error lists where it was looked for.
local library = {}

local here = (debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./")

local function is_file(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- Folders of libraries under an installation prefix.
local folders = {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}

--- Returns the paths in the order in which they are tried, each with the reason why it is on the list.
function library.candidates()
  local named = os.getenv("PLEIAD_LIBRARY")
  if named and named ~= "" then
    local path = named:match("%.so[%.%d]*$") and named or named:gsub("/$", "") .. "/libpleiad.so"
    return {{path = path, why = "PLEIAD_LIBRARY"}}
  end
  local list = {}
  local function beside(path, why)
    list[#list + 1] = {path = here .. path, why = why, missing = not is_file(here .. path)}
  end
  -- build/release/lua/multiverso, then bindings/lua/multiverso in the source tree.
  beside("../../lib/libpleiad.so", "beside a build")
  beside("../../../build/release/lib/libpleiad.so", "the source tree's build")
  -- prefix/share/lua/5.1/multiverso
  for _, name in ipairs(folders) do
    beside("../../../../" .. name .. "/libpleiad.so.0", "beside the installed module")
  end
  list[#list + 1] = {path = "libpleiad.so.0", why = "the system's libraries"}
  return list
end

--- Opens the first candidate for which `open(path)` returns true and not nil and a message. Raises if there is none.
function library.load(open)
  local said = {}
  for _, candidate in ipairs(library.candidates()) do
    local why = "no such file"
    if not candidate.missing then
      local good, words = open(candidate.path)
      if good then return candidate.path end
      why = words
    end
    said[#said + 1] = ("  %s (%s): %s"):format(candidate.path, candidate.why, why)
  end
  error("multiverso: libpleiad.so was not found; set PLEIAD_LIBRARY to its path or folder. Searched:\n"
    .. table.concat(said, "\n"), 0)
end

return library
