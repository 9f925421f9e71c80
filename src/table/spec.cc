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
  if (matrix && (rows < 1 || cols < 1)) {
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

std::string TableSpec::words(std::uint32_t id) const {
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
  return fmt::format(
      "{} \"{}\" of {} {}, clock {}{}{}, apply {}{}, rule {}{}, init_rank {}{}", matrix ? "matrix" : "array", name(id),
      matrix ? fmt::format("{} x {}", grouped(rows), grouped(cols)) : grouped(cols), name_of(options.dtype),
      options.clock, options.staleness > 0 ? fmt::format(" {}", options.staleness) : "",
      options.backup > 0 ? fmt::format(" backup {}", options.backup) : "", options.apply,
      options.ordered ? " ordered" : "", options.updater.rule, rule, options.init_rank,
      options.reserve_only ? ", reserve_only" : "");
}

}  // namespace pleiad
