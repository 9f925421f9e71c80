#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/option_list.h"
#include "core/text.h"
#include "pleiad/error.h"
#include "table/spec.h"
#include "updater/updater.h"
#include "updater/user_rule.h"

namespace pleiad {

namespace {

void check_word(std::string_view option, const std::string& word, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) == known.end())
    throw InvalidArgument(unknown_name(option, word, known));
}

}  // namespace

void TableSpec::check() const {
  if (sparse && cols < 1) {
    throw InvalidArgument(fmt::format("[create_{}] a {} needs at least one {}; received {}", kind(),
                                      key_value ? "value" : "row", key_value ? "number" : "column", cols));
  }
  if (matrix && !sparse && (rows < 1 || cols < 1)) {
    throw InvalidArgument(
        fmt::format("[create_matrix] a matrix needs at least one row and column; received {} x {}", rows, cols));
  }
  if (!matrix && cols < 1)
    throw InvalidArgument(fmt::format("[create_array] an array needs at least one value; received {}", cols));
  if (rows > std::numeric_limits<std::int64_t>::max() / 64 / cols) {
    throw MemoryError(fmt::format("no memory for a table of {} x {}: beyond any address space", rows, cols));
  }
  check_word("clock", options.clock, {"async", "ssp", "sync"});
  check_word("apply", options.apply, {"each", "round"});
  if (options.apply == "round" && options.clock != "sync") {
    throw InvalidArgument("apply = round needs clock = sync: an asynchronous table has no rounds");
  }
  if (options.ordered && options.apply != "round") throw InvalidArgument("ordered needs apply = round");
  if (options.staleness < 0) {
    throw InvalidArgument(fmt::format("staleness: expected 0 ticks or more, received {}", options.staleness));
  }
  if (options.staleness > 0 && options.clock != "ssp") throw InvalidArgument("staleness needs clock = ssp");
  if (!(options.backup >= 0 && options.backup < 1)) {
    throw InvalidArgument(
        fmt::format("backup: expected a fraction of the workers, from 0 to below 1; received {}", options.backup));
  }
  if (options.backup > 0 && options.apply != "round") {
    throw InvalidArgument("backup needs apply = round: only the late adds of a round can be dropped");
  }
  (void)make_updater(options.updater, options.dtype);
  check_rows();
}

void TableSpec::check_rows() const {
  if (options.track_changes && !matrix) {
    throw InvalidArgument("track_changes is for tables that have rows: matrix, sparse and key-value tables");
  }
  const TableOptions usual;
  if (!sparse) {
    const auto only = [&](std::string_view name, bool same) {
      if (!same) throw InvalidArgument(fmt::format("{} is an option of sparse and key-value tables", name));
    };
    only("init", options.init == usual.init);
    only("init_value", options.init_value == usual.init_value);
    only("init_spread", options.init_spread == usual.init_spread);
    only("max_rows", options.max_rows == 0);
    only("evict", !options.evict);
    only("max_age", options.max_age == 0);
    return;
  }
  check_word("init", options.init, {"constant", "gaussian", "uniform", "zeros"});
  const bool random = options.init == "gaussian" || options.init == "uniform";
  if (random && is_integer(options.dtype)) {
    throw InvalidArgument(fmt::format("init = {} is for floating-point numbers; the table holds {}", options.init,
                                      name_of(options.dtype)));
  }
  if (!std::isfinite(options.init_value) || !(options.init_spread >= 0 && std::isfinite(options.init_spread))) {
    throw InvalidArgument(
        fmt::format("init_value and init_spread: expected finite numbers, the second one not below "
                    "0; received {} and {}",
                    options.init_value, options.init_spread));
  }
  if (options.init == "constant" && is_integer(options.dtype) &&
      (options.init_value != std::floor(options.init_value) ||
       std::fabs(options.init_value) > (options.dtype == DType::int32 ? 2147483647.0 : 9007199254740992.0))) {
    throw InvalidArgument(
        fmt::format("init_value: the table holds {}; received {}", name_of(options.dtype), options.init_value));
  }
  if (options.max_rows < 0) {
    throw InvalidArgument(fmt::format("max_rows: expected 0 or more, received {}", options.max_rows));
  }
  if (!(options.max_age >= 0 && options.max_age < 9e9)) {
    throw InvalidArgument(fmt::format("max_age: expected 0 or more seconds, received {}", options.max_age));
  }
  if (options.evict && options.max_rows == 0) throw InvalidArgument("evict needs max_rows");
  if (evicts() && options.clock == "sync") {
    throw InvalidArgument(
        "evict and max_age need clock = async or ssp: workers of a synchronous table see the same rows at every get");
  }
}

const char* TableSpec::handle() const {
  return key_value ? "KeyValueTable" : sparse ? "SparseTable" : matrix ? "MatrixTable" : "ArrayTable";
}

const char* TableSpec::kind() const {
  return key_value ? "key_value" : sparse ? "sparse" : matrix ? "matrix" : "array";
}

ClockRule TableSpec::clock_rule(int workers) const {
  return {.kind = options.clock == "ssp" ? ClockKind::ssp
                  : options.backup > 0   ? ClockKind::backup
                                         : ClockKind::sync,
          .rounds = options.apply == "round",
          .staleness = options.staleness,
          .spare = static_cast<int>(options.backup * workers + 1e-9)};
}

std::string TableSpec::name(std::uint32_t id) const {
  return options.name.empty() ? fmt::format("table {}", id) : options.name;
}

std::string TableSpec::description(std::uint32_t id) const {
  std::string rule;
  for (const auto& field : updater_fields()) {
    const std::string value = field.get(options.updater);
    if (field.name != "rule" && value != field.get({})) rule += fmt::format(", {} {}", field.name, value);
  }
  if (const auto users = find_user_rule(options.updater.rule)) {
    const StateLayout keeps = users->state();
    rule += fmt::format(" (the user's; keeps {}, {}, {}{})", keeps.per_element, keeps.per_worker, keeps.per_unit,
                        users->additive() ? ", additive" : "");
  }
  std::string more;
  for (const auto& field : table_fields()) {
    static const std::vector<std::string> kMore = {"track_changes", "init",     "init_value", "init_spread",
                                                   "seed",          "max_rows", "evict",      "max_age"};
    if (std::ranges::find(kMore, field.name) == kMore.end()) continue;
    const std::string value = field.get(options);
    if (value != field.get({})) more += fmt::format(", {} {}", field.name, value);
  }
  return fmt::format("{} \"{}\" of {} {}, clock {}{}{}, apply {}{}, rule {}{}, init_rank {}{}{}", kind(), name(id),
                     sparse   ? fmt::format("rows of {}", grouped(cols))
                     : matrix ? fmt::format("{} x {}", grouped(rows), grouped(cols))
                              : grouped(cols),
                     name_of(options.dtype), options.clock,
                     options.staleness > 0 ? fmt::format(" {}", options.staleness) : "",
                     options.backup > 0 ? fmt::format(" backup {}", options.backup) : "", options.apply,
                     options.ordered ? " ordered" : "", options.updater.rule, rule, options.init_rank,
                     options.reserve_only ? ", reserve_only" : "", more);
}

}  // namespace pleiad
