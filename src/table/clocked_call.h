// Makes sure that only one thread of a rank at a time calls its synchronous tables.
#pragma once

#include <fmt/format.h>

#include "pleiad/error.h"
#include "table/table.h"

namespace pleiad {

// One call to a table with a clock by a thread of the caller. A second thread at the same time gets a StateError. A
// call that runs now is executed after all pending ones. Throws the error of an earlier call on the table if it has not
// been thrown yet.
class Table::ClockedCall {
 public:
  enum class Mode : std::uint8_t { run_now, queued };

  ClockedCall(Table& table, std::string_view call, Mode mode = Mode::run_now) : context_(*table.context_) {
    context_.engine->activity().register_thread();
    if (context_.in_clocked_call.exchange(true)) {
      throw StateError(
          fmt::format("{} another thread of this rank is calling a synchronous table; call them from one thread, or "
                      "use an asynchronous one",
                      table.where(call)));
    }
    context_.ledger.note_caller();
    try {
      if (mode == Mode::run_now) context_.clocked.drain();
      table.raise_earlier();
      table.raise_if_broken();
    } catch (...) {
      context_.in_clocked_call.store(false);
      throw;
    }
  }
  ~ClockedCall() { context_.in_clocked_call.store(false); }
  ClockedCall(const ClockedCall&) = delete;
  ClockedCall& operator=(const ClockedCall&) = delete;

 private:
  TableContext& context_;
};

}  // namespace pleiad
