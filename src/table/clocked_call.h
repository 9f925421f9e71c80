// One thread at a time calls a rank's synchronous tables.
#pragma once

#include <fmt/format.h>

#include "pleiad/error.h"
#include "table/table.h"

namespace pleiad {

// A call to a table with a clock by a thread of the caller: one at a time. A call that is carried out comes after all
// started ones. Throws the error of an earlier call on the table that nobody has received.
class Table::ClockedCall {
 public:
  enum class Way : std::uint8_t { carried_out, started };

  ClockedCall(Table& table, std::string_view call, Way way = Way::carried_out) : context_(*table.context_) {
    context_.engine->register_thread();
    if (context_.in_clocked_call.exchange(true)) {
      throw StateError(
          fmt::format("{} another thread of this rank is calling a synchronous table; call them from one thread, or "
                      "use an asynchronous one",
                      table.where(call)));
    }
    context_.ledger.note_caller();
    try {
      if (way == Way::carried_out) context_.clocked.drain();
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
