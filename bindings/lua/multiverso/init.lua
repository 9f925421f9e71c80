--- The Lua API of Multiverso, implemented by Pleiad: `local multiverso = require "multiverso"`. See docs/lua.md.
local adapter = require "multiverso.torch_adapter"
local check = require "multiverso.check"
local library = require "multiverso.library"
local options = require "multiverso.options"

local backend = require "multiverso.backend"
local library_path = library.load(backend.open)
local torch = adapter.find()
local Tensor = require "multiverso.tensor"(backend)
local data = require "multiverso.data"(backend, Tensor, torch)

-- The one session of the process.
local session, numbers
local world = {generation = 0} -- number of the current session, counted from 1

function world.session(where)
  if not session then check.fail("[%s] there is no session; call multiverso.init() first", where) end
  return session
end

local multiverso = {}

--- Joins the job that the launcher started, or starts a job of one process. `given` is nil, sync (true or false) or a table
--- of options.
function multiverso.init(given)
  local where = "multiverso.init"
  if session then check.fail("[%s] a session is already open and stays open; call multiverso.shutdown() first", where) end
  local list, tables = options.for_session(where, given)
  local started, words = backend.start(list)
  if not started then check.fail("[%s] %s", where, words) end
  local found, more = backend.world(started)
  if not found then check.fail("[%s] %s", where, more) end
  session, numbers = started, found
  world.table_options, world.master, world.generation = tables, found.master, world.generation + 1
end

--- Completes this worker's adds and waits for all workers. Collective.
function multiverso.barrier()
  local good, words = backend.barrier(world.session("multiverso.barrier"))
  if not good then check.fail("[multiverso.barrier] %s", words) end
end

--- Ends the session, also if it raises an error. Another init may follow. Collective.
function multiverso.shutdown()
  local ended = world.session("multiverso.shutdown")
  session, numbers = nil, nil
  local good, words = backend.shutdown(ended)
  if not good then check.fail("[multiverso.shutdown] %s", words) end
end

--- Returns the number of workers.
function multiverso.num_workers()
  world.session("multiverso.num_workers")
  return numbers.workers
end

--- Returns the number of this worker, counted from 0, or -1 if this rank is not a worker.
function multiverso.worker_id()
  world.session("multiverso.worker_id")
  return numbers.worker_id
end

--- Returns the number of this rank as a server, counted from 0, or -1 if it is not a server.
function multiverso.server_id()
  world.session("multiverso.server_id")
  return numbers.server_id
end

multiverso.ArrayTableHandler, multiverso.MatrixTableHandler = require "multiverso.tables"(backend, data, world)

--- The tensors of this module, for programs without torch.
multiverso.FloatTensor, multiverso.DoubleTensor = Tensor.FloatTensor, Tensor.DoubleTensor
multiverso.IntTensor, multiverso.LongTensor = Tensor.IntTensor, Tensor.LongTensor

--- Returns the backend ("ffi" or "c"), the path of libpleiad, its version, and whether torch was found.
multiverso.about = {
  backend = backend.name,
  library = library_path,
  version = backend.version(),
  torch = torch ~= nil,
}

return multiverso
