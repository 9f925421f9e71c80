// The non-template part of multiverso/table/kv_table.h.
#include "capi/guard.h"
#include "capi/mv_world.h"
#include "multiverso/table/kv_table.h"

namespace multiverso::detail {

using pleiad::mv::check;
using pleiad::mv::run;
using pleiad::mv::World;

KeyValue::KeyValue(int dtype) : dtype_(dtype) {
  run("MV_CreateTable", [&] { table_ = World::instance().create_key_value(dtype); });
}

KeyValue::~KeyValue() { pleiad_table_free(table_); }

bool KeyValue::get(const std::int64_t* keys, std::size_t n, void* values) const {
  const auto count = static_cast<std::int64_t>(n);
  return run("Get", [&] { check(pleiad_table_get_rows(table_, keys, count, values, count, dtype_)); });
}

bool KeyValue::add(const std::int64_t* keys, std::size_t n, const void* values) const {
  const auto count = static_cast<std::int64_t>(n);
  return run("Add", [&] { check(pleiad_table_add_rows(table_, keys, count, values, count, dtype_, nullptr)); });
}

}  // namespace multiverso::detail
