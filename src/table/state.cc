// Saves and loads a table's values and the state of its rule for checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/kernels.h"
#include "pleiad/error.h"
#include "table/table.h"

namespace pleiad {

ArrayTable::RuleState Table::rule_state() const {
  const StateLayout layout = make_updater(spec_.options.updater, spec_.options.dtype)->state();
  return {.arrays = layout.per_element, .numbers = layout.per_unit};
}

void Table::check_state(std::string_view call, std::size_t arrays, std::size_t numbers) const {
  const ArrayTable::RuleState has = rule_state();
  if (shard_ == nullptr) {
    throw StateError(
        fmt::format("{} requires all ranks on one host; other hosts hold parts of this table", where(call)));
  }
  if (arrays == static_cast<std::size_t>(has.arrays) && numbers == static_cast<std::size_t>(has.numbers)) return;
  throw InvalidArgument(fmt::format("{} rule \"{}\" keeps {} arrays and {} numbers; received {} and {}", where(call),
                                    spec_.options.updater.rule, has.arrays, has.numbers, arrays, numbers));
}

void Table::save_to(View values, std::span<const View> arrays, std::span<double> numbers) {
  check("save_to", {}, values);
  raise_earlier();
  check_state("save_to", arrays.size(), numbers.size());
  for (const View& array : arrays) check("save_to", {}, array);
  auto* out = static_cast<char*>(values.data);
  shard_->get(shard_->all(), [&](const char* from, std::int64_t first, std::size_t count) {  // applies complete rounds
    copy_bytes(out + first * width_, from, count * static_cast<std::size_t>(width_));
  });
  const Storage& storage = shard_->storage();
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    copy_bytes(arrays[k].data, storage.state(static_cast<int>(k), 0), static_cast<std::size_t>(bytes_of({})));
  }
  // Every unit has had the same adds, so all have the same values here.
  if (!numbers.empty() && shard_->geometry().units > 0) {
    std::copy_n(storage.unit(0), numbers.size(), numbers.data());
  }
}

void Table::load_from(const ConstView& values, std::span<const ConstView> arrays, std::span<const double> numbers) {
  check("load_from", {}, values);
  raise_earlier();
  check_state("load_from", arrays.size(), numbers.size());
  for (const ConstView& array : arrays) check("load_from", {}, array);
  shard_->get(shard_->all(), [](const char*, std::int64_t, std::size_t) {});  // applies complete rounds
  const Storage& storage = shard_->storage();
  const StateLayout& layout = storage.shape().state;
  const auto bytes = static_cast<std::size_t>(bytes_of({}));
  for (int k = 0; k < layout.per_worker * storage.shape().workers; ++k) {
    std::memset(storage.state(layout.per_element + k, 0), 0, bytes);
  }
  shard_->set(0, values.data, static_cast<std::size_t>(values.count));
  shard_->start();
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    copy_bytes(storage.state(static_cast<int>(k), 0), arrays[k].data, bytes);
  }
  for (std::int64_t unit = 0; !numbers.empty() && unit < shard_->geometry().units; ++unit) {
    std::ranges::copy(numbers, storage.unit(unit));
  }
}

}  // namespace pleiad
