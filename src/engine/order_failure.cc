#include "engine/order_failure.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "engine/membership.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {
bool is_recorded(const Failure& failure) { return failure.stage.load(std::memory_order_acquire) == 2; }
}  // namespace

std::string OrderFailure::record(const std::string& text, bool gave_up) {
  Failure& failure = control_.head().failure;
  std::uint32_t none = 0;
  if (failure.stage.compare_exchange_strong(none, 1)) {
    const std::size_t length = std::min(text.size(), sizeof failure.text - 1);
    std::memcpy(failure.text, text.data(), length);
    failure.text[length] = 0;
    failure.gave_up = gave_up ? 1 : 0;
    failure.stage.store(2);
    members_.announce_change();
  }
  for (int turn = 0; failure.stage.load() != 2 && turn < 1000; ++turn) sched_yield();
  return failure.stage.load() == 2 ? failure.text : text;
}

bool OrderFailure::gave_up() const {
  const Failure& failure = control_.head().failure;
  return is_recorded(failure) && failure.gave_up != 0;
}

void OrderFailure::check() const {
  const Failure& failure = control_.head().failure;
  if (is_recorded(failure)) throw OrderError(failure.text);
}

std::string OrderFailure::text() const {
  const Failure& failure = control_.head().failure;
  return is_recorded(failure) ? failure.text : "";
}

}  // namespace pleiad
