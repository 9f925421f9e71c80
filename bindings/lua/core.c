/* multiverso.core: the backend of plain Lua 5.1 to 5.4, with the functions of multiverso/backend_ffi.lua.
 *
 * libpleiad is opened by path, so one search and one message serve both backends. A function that can fail returns nil
 * and a message. A buffer is a userdata with a header, indexed from 0; every access is checked against its size. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "lauxlib.h"
#include "lua.h"
#include "pleiad/pleiad.h"

#define FUNCTIONS(X)            \
  X(pleiad_version)             \
  X(pleiad_last_error)          \
  X(pleiad_session_start)       \
  X(pleiad_session_shutdown)    \
  X(pleiad_session_free)        \
  X(pleiad_session_world)       \
  X(pleiad_session_worker_rank) \
  X(pleiad_barrier)             \
  X(pleiad_array_create)        \
  X(pleiad_matrix_create)       \
  X(pleiad_table_refuse)        \
  X(pleiad_table_free)          \
  X(pleiad_table_close)         \
  X(pleiad_table_get)           \
  X(pleiad_table_get_rows)      \
  X(pleiad_table_add)           \
  X(pleiad_table_add_rows)      \
  X(pleiad_table_add_async)     \
  X(pleiad_table_add_rows_async)

#define FIELD(name) __typeof__(&name) name;
static struct {
  FUNCTIONS(FIELD)
} lib;

static const char kBuffer[] = "multiverso.buffer";
static const char kTable[] = "multiverso.table";

typedef struct Buffer {
  int64_t count;
  int32_t dtype;
  int32_t bytes; /* of an element */
} Buffer;

/* The header is 16 bytes long, so that the elements are as aligned as the block is. */
static char* elements(Buffer* buffer) { return (char*)(buffer + 1); }

static int failure(lua_State* L, const char* words) {
  lua_pushnil(L);
  lua_pushstring(L, words);
  return 2;
}

static int result(lua_State* L, int code) {
  if (code != PLEIAD_OK) return failure(L, lib.pleiad_last_error());
  lua_pushboolean(L, 1);
  return 1;
}

static int64_t whole(lua_State* L, int at) { return (int64_t)luaL_checknumber(L, at); }

static int open_library(lua_State* L) {
  void* library = dlopen(luaL_checkstring(L, 1), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return failure(L, dlerror());
#define FIND(name)                            \
  *(void**)&lib.name = dlsym(library, #name); \
  if (*(void**)&lib.name == NULL) return failure(L, "libpleiad lacks the function " #name);
  FUNCTIONS(FIND)
  lua_pushboolean(L, 1);
  return 1;
}

static int version(lua_State* L) {
  lua_pushstring(L, lib.pleiad_version());
  return 1;
}

/* --- The session, a light userdata ------------------------------------------------------------------------------- */

static pleiad_session* session_at(lua_State* L, int at) {
  luaL_checktype(L, at, LUA_TLIGHTUSERDATA);
  return lua_touserdata(L, at);
}

static int start(lua_State* L) {
  pleiad_session* session = NULL;
  if (lib.pleiad_session_start(luaL_checkstring(L, 1), &session) != PLEIAD_OK) {
    return failure(L, lib.pleiad_last_error());
  }
  lua_pushlightuserdata(L, session);
  return 1;
}

static int shutdown(lua_State* L) {
  pleiad_session* session = session_at(L, 1);
  const int returned = result(L, lib.pleiad_session_shutdown(session));
  lib.pleiad_session_free(session);
  return returned;
}

static int barrier(lua_State* L) { return result(L, lib.pleiad_barrier(session_at(L, 1))); }

static void set_number(lua_State* L, const char* name, int32_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static int world(lua_State* L) {
  pleiad_session* session = session_at(L, 1);
  pleiad_world found;
  int32_t master = 0;
  if (lib.pleiad_session_world(session, &found) != PLEIAD_OK) return failure(L, lib.pleiad_last_error());
  if (found.workers > 0 && lib.pleiad_session_worker_rank(session, 0, &master) != PLEIAD_OK) {
    return failure(L, lib.pleiad_last_error());
  }
  lua_createtable(L, 0, 4);
  set_number(L, "workers", found.workers);
  set_number(L, "worker_id", found.worker_id);
  set_number(L, "server_id", found.server_id);
  set_number(L, "master", master);
  return 1;
}

/* --- Buffers ----------------------------------------------------------------------------------------------------- */

static int field(lua_State* L, int at, const char* name) {
  lua_getfield(L, at, name);
  const int value = (int)luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return value;
}

/* buffer(kind, count) */
static int new_buffer(lua_State* L) {
  const int dtype = field(L, 1, "code");
  const int bytes = field(L, 1, "bytes");
  const lua_Number count = luaL_checknumber(L, 2);
  if (!(count >= 0) || count > 1e15) return failure(L, "cannot allocate memory for that many values");
  Buffer* made = lua_newuserdata(L, sizeof(Buffer) + (size_t)count * (size_t)bytes);
  made->count = (int64_t)count;
  made->dtype = dtype;
  made->bytes = bytes;
  luaL_getmetatable(L, kBuffer);
  lua_setmetatable(L, -2);
  return 1;
}

static Buffer* buffer_at(lua_State* L, int at) { return luaL_checkudata(L, at, kBuffer); }

/* Elements offset ... offset + count of the buffer at `at`. */
static char* range(lua_State* L, int at, int64_t offset, int64_t count) {
  Buffer* buffer = buffer_at(L, at);
  if (offset < 0 || count < 0 || offset > buffer->count - count)
    luaL_argerror(L, at, "expected a range inside the buffer");
  return elements(buffer) + offset * buffer->bytes;
}

static int get_element(lua_State* L) {
  Buffer* buffer = buffer_at(L, 1);
  const char* place = range(L, 1, whole(L, 2), 1);
  switch (buffer->dtype) {
    case PLEIAD_FLOAT32: lua_pushnumber(L, (lua_Number)(*(const float*)place)); break;
    case PLEIAD_FLOAT64: lua_pushnumber(L, (lua_Number)(*(const double*)place)); break;
    case PLEIAD_INT32: lua_pushinteger(L, (lua_Integer)(*(const int32_t*)place)); break;
    default: lua_pushinteger(L, (lua_Integer)(*(const int64_t*)place)); break;
  }
  return 1;
}

static int set_element(lua_State* L) {
  Buffer* buffer = buffer_at(L, 1);
  char* place = range(L, 1, whole(L, 2), 1);
  const lua_Number value = luaL_checknumber(L, 3);
  switch (buffer->dtype) {
    case PLEIAD_FLOAT32: *(float*)place = (float)value; break;
    case PLEIAD_FLOAT64: *(double*)place = (double)value; break;
    case PLEIAD_INT32: *(int32_t*)place = (int32_t)value; break;
    default: *(int64_t*)place = (int64_t)value; break;
  }
  return 0;
}

/* copy(kind, to, to_offset, from, from_offset, count) */
static int copy(lua_State* L) {
  const int64_t count = whole(L, 6);
  char* to = range(L, 2, whole(L, 3), count);
  const char* from = range(L, 4, whole(L, 5), count);
  if (buffer_at(L, 2)->dtype != buffer_at(L, 4)->dtype)
    return luaL_argerror(L, 4, "expected a buffer of the same element type");
  memmove(to, from, (size_t)(count * buffer_at(L, 2)->bytes));
  return 0;
}

/* start_of(buffer, offset): a buffer of its own from there on; the initial values of a table are read once. */
static int start_of(lua_State* L) {
  Buffer* buffer = buffer_at(L, 1);
  const int64_t offset = whole(L, 2);
  if (offset == 0) {
    lua_settop(L, 1);
    return 1;
  }
  const char* from = range(L, 1, offset, buffer->count - offset);
  const size_t size = (size_t)((buffer->count - offset) * buffer->bytes);
  Buffer* made = lua_newuserdata(L, sizeof(Buffer) + size);
  *made = *buffer;
  made->count -= offset;
  memcpy(elements(made), from, size);
  luaL_getmetatable(L, kBuffer);
  lua_setmetatable(L, -2);
  return 1;
}

/* --- Tables ------------------------------------------------------------------------------------------------------ */

static pleiad_table* table_at(lua_State* L, int at) { return *(pleiad_table**)luaL_checkudata(L, at, kTable); }

static int free_table(lua_State* L) {
  pleiad_table** handle = luaL_checkudata(L, 1, kTable);
  lib.pleiad_table_free(*handle);
  *handle = NULL;
  return 0;
}

/* close(handle) */
static int close_table(lua_State* L) { return result(L, lib.pleiad_table_close(table_at(L, 1))); }

/* The initial values at `at`, or null; they must be `count` of `dtype`. */
static const void* initial_at(lua_State* L, int at, int64_t count, int dtype) {
  if (lua_isnoneornil(L, at)) return NULL;
  if (buffer_at(L, at)->dtype != dtype) luaL_argerror(L, at, "expected a buffer of the table's element type");
  return range(L, at, 0, count);
}

static pleiad_table** new_handle(lua_State* L) {
  pleiad_table** handle = lua_newuserdata(L, sizeof(pleiad_table*));
  *handle = NULL;
  luaL_getmetatable(L, kTable);
  lua_setmetatable(L, -2);
  return handle;
}

/* create_array(session, size, kind, options, initial) */
static int create_array(lua_State* L) {
  pleiad_session* session = session_at(L, 1);
  const int64_t size = whole(L, 2);
  const int dtype = field(L, 3, "code");
  const char* options = luaL_checkstring(L, 4);
  const void* initial = initial_at(L, 5, size, dtype);
  pleiad_table** handle = new_handle(L);
  if (lib.pleiad_array_create(session, size, dtype, options, initial, handle) != PLEIAD_OK) {
    return failure(L, lib.pleiad_last_error());
  }
  return 1;
}

/* create_matrix(session, rows, cols, kind, options, initial) */
static int create_matrix(lua_State* L) {
  pleiad_session* session = session_at(L, 1);
  const int64_t rows = whole(L, 2);
  const int64_t cols = whole(L, 3);
  const int dtype = field(L, 4, "code");
  const char* options = luaL_checkstring(L, 5);
  const void* initial = initial_at(L, 6, rows * cols, dtype);
  pleiad_table** handle = new_handle(L);
  if (lib.pleiad_matrix_create(session, rows, cols, dtype, options, initial, handle) != PLEIAD_OK) {
    return failure(L, lib.pleiad_last_error());
  }
  return 1;
}

/* refuse(session, words): an error on all workers in place of the table that they create */
static int refuse(lua_State* L) { return result(L, lib.pleiad_table_refuse(session_at(L, 1), luaL_checkstring(L, 2))); }

static const int64_t* ids_at(lua_State* L, int at, int64_t n) {
  if (lua_isnoneornil(L, at)) return NULL;
  if (buffer_at(L, at)->dtype != PLEIAD_INT64) luaL_argerror(L, at, "expected a buffer of int64");
  return (const int64_t*)(const void*)range(L, at, 0, n);
}

/* get(handle, kind, ids, n, buffer, offset, count) */
static int get(lua_State* L) {
  pleiad_table* table = table_at(L, 1);
  const int64_t n = whole(L, 4);
  const int64_t* ids = ids_at(L, 3, n);
  const int64_t count = whole(L, 7);
  char* out = range(L, 5, whole(L, 6), count);
  const int dtype = buffer_at(L, 5)->dtype;
  return result(L, ids != NULL ? lib.pleiad_table_get_rows(table, ids, n, out, count, dtype)
                               : lib.pleiad_table_get(table, out, count, dtype));
}

/* add(handle, kind, ids, n, buffer, offset, count, wait) */
static int add(lua_State* L) {
  pleiad_table* table = table_at(L, 1);
  const int64_t n = whole(L, 4);
  const int64_t* ids = ids_at(L, 3, n);
  const int64_t count = whole(L, 7);
  const char* delta = range(L, 5, whole(L, 6), count);
  const int dtype = buffer_at(L, 5)->dtype;
  if (lua_toboolean(L, 8)) {
    return result(L, ids != NULL ? lib.pleiad_table_add_rows(table, ids, n, delta, count, dtype, NULL)
                                 : lib.pleiad_table_add(table, delta, count, dtype, NULL));
  }
  return result(L, ids != NULL ? lib.pleiad_table_add_rows_async(table, ids, n, delta, count, dtype, NULL, NULL)
                               : lib.pleiad_table_add_async(table, delta, count, dtype, NULL, NULL));
}

static void set_functions(lua_State* L, const luaL_Reg* list) {
  for (; list->name != NULL; ++list) {
    lua_pushcfunction(L, list->func);
    lua_setfield(L, -2, list->name);
  }
}

PLEIAD_API int luaopen_multiverso_core(lua_State* L);
int luaopen_multiverso_core(lua_State* L) {
  static const luaL_Reg of_buffer[] = {{"__index", get_element}, {"__newindex", set_element}, {NULL, NULL}};
  static const luaL_Reg of_table[] = {{"__gc", free_table}, {NULL, NULL}};
  static const luaL_Reg of_module[] = {{"open", open_library},
                                       {"version", version},
                                       {"start", start},
                                       {"shutdown", shutdown},
                                       {"barrier", barrier},
                                       {"world", world},
                                       {"buffer", new_buffer},
                                       {"copy", copy},
                                       {"start_of", start_of},
                                       {"create_array", create_array},
                                       {"create_matrix", create_matrix},
                                       {"refuse", refuse},
                                       {"close", close_table},
                                       {"get", get},
                                       {"add", add},
                                       {NULL, NULL}};
  luaL_newmetatable(L, kBuffer);
  set_functions(L, of_buffer);
  luaL_newmetatable(L, kTable);
  set_functions(L, of_table);
  lua_newtable(L);
  set_functions(L, of_module);
  lua_pushliteral(L, "c");
  lua_setfield(L, -2, "name");
  return 1;
}
