// Checks the arguments of table calls.
#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "pleiad/error.h"
#include "table/table.h"
#include "updater/user_rule.h"

namespace pleiad {

std::string Table::where(std::string_view call) const {
  return fmt::format("[{}.{}] table \"{}\":", spec_.handle(), call, name_);
}

void Table::check_not_in_rule(std::string_view call) const {
  if (!in_user_rule()) return;
  throw StateError(
      fmt::format("{} called by an update rule, which holds a lock; a rule must not call tables", where(call)));
}

void Table::check(std::string_view call, const Selection& selection, const ConstView& numbers) const {
  check_not_in_rule(call);
  engine_.members().check_usable(spec_.handle());
  if (spec_.sparse && selection.all) {
    throw InvalidArgument(fmt::format("{} a sparse table cannot be accessed as a whole; pass row ids", where(call)));
  }
  if (numbers.dtype != spec_.options.dtype) {
    throw InvalidArgument(
        fmt::format("{} holds {}; received {}", where(call), name_of(spec_.options.dtype), name_of(numbers.dtype)));
  }
  const std::int64_t expected = bytes_of(selection) / width_;
  if (numbers.count != expected) {
    throw InvalidArgument(selection.all ? fmt::format("{} holds {} values; received an array of {}", where(call),
                                                      grouped(expected), grouped(numbers.count))
                                        : fmt::format("{} {} rows of {} are {} values; received {}", where(call),
                                                      grouped(static_cast<std::int64_t>(selection.ids.size())),
                                                      grouped(spec_.cols), grouped(expected), grouped(numbers.count)));
  }
  if (numbers.data == nullptr && expected > 0)
    throw InvalidArgument(fmt::format("{} received a null buffer", where(call)));
  for (std::size_t i = 0; i < selection.ids.size(); ++i) {
    const RowId id = selection.ids[i];
    if (!spec_.sparse && (id < 0 || id >= spec_.rows)) {
      throw InvalidArgument(fmt::format("{} has rows 0 to {}; received row id {} at position {}", where(call),
                                        grouped(spec_.rows - 1), id, i));
    }
  }
  if (clock_ && context_->roster.worker < 0) {
    throw StateError(fmt::format("{} this rank is not a worker, so it cannot call a synchronous table", where(call)));
  }
}

void Table::check_add(std::string_view call, const Selection& selection, const ConstView& delta) const {
  check(call, selection, delta);
  check_finite(call, delta);
}

void Table::check_finite(std::string_view call, const ConstView& delta) const {
  if (!spec_.options.check_finite) return;
  const std::size_t bad = first_not_finite(delta.dtype, delta.data, static_cast<std::size_t>(delta.count));
  if (bad == static_cast<std::size_t>(delta.count)) return;
  const double value = delta.dtype == DType::float32 ? static_cast<const float*>(delta.data)[bad]
                                                     : static_cast<const double*>(delta.data)[bad];
  throw InvalidArgument(fmt::format("{} check_finite is on; received {} at position {}; nothing was added", where(call),
                                    value, grouped(static_cast<std::int64_t>(bad))));
}

void Table::check_parts(std::string_view call, std::span<const ArrayPart> parts) const {
  engine_.members().check_usable("ArrayTable");
  std::int64_t end = 0;
  for (const auto& [at, delta] : parts) {
    if (delta.dtype != spec_.options.dtype) {
      throw InvalidArgument(
          fmt::format("{} holds {}; received {}", where(call), name_of(spec_.options.dtype), name_of(delta.dtype)));
    }
    if (at < end || delta.count < 0 || delta.count > spec_.cols - at) {
      throw InvalidArgument(fmt::format("{} holds {} values; received a part of {} at {}, after one that ends at {}",
                                        where(call), grouped(spec_.cols), grouped(delta.count), grouped(at),
                                        grouped(end)));
    }
    end = at + delta.count;
    if (delta.data == nullptr && delta.count > 0) {
      throw InvalidArgument(fmt::format("{} received a null buffer", where(call)));
    }
    check_finite(call, delta);
  }
}

void Table::check_kept(std::string_view call, std::span<const ElementRange> kept) const {
  if (kept.empty()) return;
  if (shard_map_->rounds()) {
    throw StateError(fmt::format("{} kept elements require apply = each", where(call)));
  }
  std::int64_t after = 0;
  for (const auto& [begin, end] : kept) {
    if (begin < after || end < begin || end > spec_.cols) {
      throw InvalidArgument(
          fmt::format("{} holds {} values; received the kept range [{}, {}) after one that ends at {}", where(call),
                      grouped(spec_.cols), begin, end, after));
    }
    after = end;
  }
}

}  // namespace pleiad
