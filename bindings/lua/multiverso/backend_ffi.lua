--- The backend for LuaJIT: its FFI over pleiad.h. backend_c.lua has the same functions.
---
--- Functions that can fail return nil and a message. A buffer is indexed from 0, and its initial contents are undefined.
local ffi = require "ffi"
local kinds = require "multiverso.kinds"

ffi.cdef [[
typedef struct pleiad_session pleiad_session;
typedef struct pleiad_table pleiad_table;
typedef struct pleiad_world { int32_t rank, size, workers, servers, worker_id, server_id, hosts, host; } pleiad_world;
const char* pleiad_version(void);
const char* pleiad_last_error(void);
int pleiad_session_start(const char* options, pleiad_session** out);
int pleiad_session_shutdown(pleiad_session* session);
void pleiad_session_free(pleiad_session* session);
int pleiad_session_world(const pleiad_session* session, pleiad_world* out);
int pleiad_session_worker_rank(const pleiad_session* session, int32_t worker, int32_t* rank);
int pleiad_barrier(pleiad_session* session);
int pleiad_array_create(pleiad_session* session, int64_t size, int dtype, const char* options, const void* initial,
                        pleiad_table** out);
int pleiad_matrix_create(pleiad_session* session, int64_t rows, int64_t cols, int dtype, const char* options,
                         const void* initial, pleiad_table** out);
int pleiad_table_refuse(pleiad_session* session, const char* why);
void pleiad_table_free(pleiad_table* table);
int pleiad_table_close(pleiad_table* table);
int pleiad_table_get(pleiad_table* table, void* out, int64_t count, int dtype);
int pleiad_table_get_rows(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count, int dtype);
int pleiad_table_add(pleiad_table* table, const void* delta, int64_t count, int dtype, const void* options);
int pleiad_table_add_rows(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta, int64_t count,
                          int dtype, const void* options);
int pleiad_table_add_async(pleiad_table* table, const void* delta, int64_t count, int dtype, const void* options,
                           void** pending);
int pleiad_table_add_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta, int64_t count,
                                int dtype, const void* options, void** pending);
int posix_memalign(void** out, size_t alignment, size_t size);
void free(void* memory);
]]

local backend = {name = "ffi"}
local C = ffi.C
local lib

function backend.open(path)
  local good, found = pcall(ffi.load, path)
  if not good then return nil, tostring(found) end
  local complete, words = pcall(function() return found.pleiad_table_add_rows_async end)
  if not complete then return nil, tostring(words) end
  lib = found
  return true
end

local function failure() return nil, ffi.string(lib.pleiad_last_error()) end

function backend.version() return ffi.string(lib.pleiad_version()) end

function backend.start(options)
  local out = ffi.new("pleiad_session*[1]")
  if lib.pleiad_session_start(options, out) ~= 0 then return failure() end
  return out[0]
end

--- Ends the session and releases its handle, also if it returns an error.
function backend.shutdown(session)
  local good, words = true, nil
  if lib.pleiad_session_shutdown(session) ~= 0 then good, words = failure() end
  lib.pleiad_session_free(session)
  return good, words
end

function backend.barrier(session)
  if lib.pleiad_barrier(session) ~= 0 then return failure() end
  return true
end

--- Returns the number of workers, this rank's worker_id and server_id, and the rank of worker 0.
function backend.world(session)
  local world, master = ffi.new("pleiad_world"), ffi.new("int32_t[1]")
  if lib.pleiad_session_world(session, world) ~= 0 then return failure() end
  if world.workers > 0 and lib.pleiad_session_worker_rank(session, 0, master) ~= 0 then return failure() end
  return {workers = world.workers, worker_id = world.worker_id, server_id = world.server_id, master = master[0]}
end

-- Small buffers are LuaJIT memory. Large ones would cause page faults at each allocation, so they come from a pool, to which
-- the garbage collector returns them. The collector does not see their size, so it is run after many bytes were allocated.
local kPooled = 65536 -- bytes
local kPatience = 4 * 2 ^ 20 -- minimum number of bytes allocated between runs of the collector
local kKept = 32 * 2 ^ 20 -- maximum number of bytes in the pool
local pool, kept = {}, 0
local out, limit = 0, kPatience

local function take_back(memory, bytes)
  out = out - bytes
  if kept + bytes > kKept then
    C.free(memory)
    return
  end
  local list = pool[bytes]
  if not list then
    list = {}
    pool[bytes] = list
  end
  list[#list + 1] = ffi.cast("void*", memory)
  kept = kept + bytes
end

local function from_pool(bytes)
  local list = pool[bytes]
  local n = list and #list or 0
  if n == 0 then return nil end
  local memory = list[n]
  list[n] = nil
  kept = kept - bytes
  return memory
end

local function drop_pool()
  for _, list in pairs(pool) do
    for _, memory in ipairs(list) do C.free(memory) end
  end
  pool, kept = {}, 0
end

local finalizers = setmetatable({}, {__mode = "v"})
local function finalizer_of(bytes)
  local found = finalizers[bytes]
  if not found then
    found = function(memory) take_back(memory, bytes) end
    finalizers[bytes] = found
  end
  return found
end

local pointer_types, array_types = {}, {}
for _, name in ipairs(kinds.names) do
  pointer_types[name] = ffi.typeof(kinds[name].c .. "*")
  array_types[name] = ffi.typeof(kinds[name].c .. "[?]")
end

--- Allocates memory for `count` elements. Returns nil and a message on failure.
function backend.buffer(kind, count)
  local bytes = count * kind.bytes
  if bytes < kPooled then return array_types[kind.name](count) end
  if out + bytes > limit then
    collectgarbage()
    limit = math.max(kPatience, 2 * out, 1024 * collectgarbage("count"))
  end
  local memory = from_pool(bytes)
  if not memory then
    local box = ffi.new("void*[1]")
    if C.posix_memalign(box, 64, bytes) ~= 0 then
      collectgarbage()
      drop_pool()
      if C.posix_memalign(box, 64, bytes) ~= 0 then return nil, ("cannot allocate %.0f bytes"):format(bytes) end
    end
    memory = box[0]
  end
  out = out + bytes
  return ffi.gc(ffi.cast(pointer_types[kind.name], memory), finalizer_of(bytes))
end

--- Copies between buffers of the same element type, which may overlap.
function backend.copy(kind, to, to_offset, from, from_offset, count)
  if to ~= from then
    ffi.copy(to + to_offset, from + from_offset, count * kind.bytes)
  elseif to_offset > from_offset then
    for i = count - 1, 0, -1 do to[to_offset + i] = from[from_offset + i] end
  else
    for i = 0, count - 1 do to[to_offset + i] = from[from_offset + i] end
  end
end

--- Returns the part of a buffer from an element on, for the initial values of a table.
function backend.start_of(buffer, offset) return buffer + offset end

function backend.create_array(session, size, kind, options, initial)
  local made = ffi.new("pleiad_table*[1]")
  if lib.pleiad_array_create(session, size, kind.code, options, initial, made) ~= 0 then return failure() end
  return ffi.gc(made[0], lib.pleiad_table_free)
end

function backend.create_matrix(session, rows, cols, kind, options, initial)
  local made = ffi.new("pleiad_table*[1]")
  if lib.pleiad_matrix_create(session, rows, cols, kind.code, options, initial, made) ~= 0 then return failure() end
  return ffi.gc(made[0], lib.pleiad_table_free)
end

--- Makes the collective creation of a table raise an error on all workers.
function backend.refuse(session, words)
  if lib.pleiad_table_refuse(session, words) ~= 0 then return failure() end
  return true
end

function backend.close(handle)
  if lib.pleiad_table_close(handle) ~= 0 then return failure() end
  return true
end

--- `ids` is a buffer of n int64, or nil for the whole table.
function backend.get(handle, kind, ids, n, buffer, offset, count)
  local code
  if ids then
    code = lib.pleiad_table_get_rows(handle, ids, n, buffer + offset, count, kind.code)
  else
    code = lib.pleiad_table_get(handle, buffer + offset, count, kind.code)
  end
  if code ~= 0 then return failure() end
  return true
end

--- Returns when the add is complete if `wait` is true, and otherwise when the buffers may be changed.
function backend.add(handle, kind, ids, n, buffer, offset, count, wait)
  local code
  local delta = buffer + offset
  if ids and wait then
    code = lib.pleiad_table_add_rows(handle, ids, n, delta, count, kind.code, nil)
  elseif ids then
    code = lib.pleiad_table_add_rows_async(handle, ids, n, delta, count, kind.code, nil, nil)
  elseif wait then
    code = lib.pleiad_table_add(handle, delta, count, kind.code, nil)
  else
    code = lib.pleiad_table_add_async(handle, delta, count, kind.code, nil, nil)
  end
  if code ~= 0 then return failure() end
  return true
end

return backend
