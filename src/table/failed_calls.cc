#include "table/failed_calls.h"

#include <algorithm>

#include <fmt/format.h>

namespace pleiad {

void FailedCalls::set_namer(std::function<std::string(std::uint32_t)> namer) {
  const std::lock_guard lock(mutex_);
  namer_ = std::move(namer);
}

void FailedCalls::add(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(operation);
  some_.store(true, std::memory_order_release);
}

void FailedCalls::raise_of(std::optional<std::uint32_t> table) {
  std::optional<Problem> first;
  {
    const std::lock_guard lock(mutex_);
    std::string what;
    int later = 0;
    std::erase_if(operations_, [&](const std::shared_ptr<Operation>& operation) {
      if (operation->reported_.load()) return true;
      if (table && operation->table() != *table) return false;
      operation->reported_.store(true);
      if (first) {
        ++later;
        return true;
      }
      first = operation->problem_;
      const std::uint32_t id = operation->table();
      what = fmt::format("{} on table \"{}\"", name_of(operation->call()), namer_ ? namer_(id) : std::to_string(id));
      return true;
    });
    some_.store(!operations_.empty(), std::memory_order_release);
    if (!first) return;
    const std::string more = later == 0 ? "" : fmt::format(" (and {} later {})", later, later == 1 ? "call" : "calls");
    first->text = fmt::format("an earlier {}{} failed: {}", what, more, first->text);
  }
  first->raise();
}

}  // namespace pleiad
