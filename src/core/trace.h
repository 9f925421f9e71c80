// Records when operations of a run began and ended, for Perfetto and other viewers of Chrome's trace format.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/process.h"

namespace pleiad {

/// Thread-safe. Without a trace, a Span costs only the check of a null pointer.
class Trace {
 public:
  enum class Track : std::uint8_t { compute, exchange, loader };

  /// Records the time from its construction to the end of the scope. `name` must outlive the span.
  class Span {
   public:
    Span(Trace* trace, Track track, const char* what, const std::string& name)
        : trace_(trace), track_(track), what_(what), name_(&name), begin_(trace == nullptr ? 0 : now_ns()) {}
    ~Span() {
      if (trace_ != nullptr) trace_->record({track_, what_, *name_, begin_, now_ns()});
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace* trace_;
    Track track_;
    const char* what_;
    const std::string* name_;
    std::int64_t begin_;
  };

  struct Event {
    Track track;
    const char* what;  ///< such as "forward"
    std::string name;  ///< such as "conv1"
    std::int64_t begin;
    std::int64_t end;
  };

  void record(Event event);
  /// Returns this rank's events as JSON objects separated by commas, and clears them. Viewers show a rank as a process
  /// and a track as a thread.
  [[nodiscard]] std::string take(int rank);
  /// Combines the results of take() of all ranks into the content of a trace file.
  [[nodiscard]] static std::string document(const std::vector<std::string>& ranks);

 private:
  std::mutex mutex_;
  std::vector<Event> events_;  ///< guarded by mutex_
};

}  // namespace pleiad
