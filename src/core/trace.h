// When what began and ended in a run, for Perfetto and other viewers of Chrome's trace format.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/process.h"

namespace pleiad {

/// Any thread may record. Where nobody traces, a Span costs the look at a null pointer.
class Trace {
 public:
  enum class Track : std::uint8_t { compute, exchange, loader };

  /// From here to the end of the scope. `name` is kept only where `trace` is not null.
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
    const char* what;  ///< "forward"
    std::string name;  ///< "conv1"
    std::int64_t begin;
    std::int64_t end;
  };

  void record(Event event);
  /// This rank's events as a run of JSON objects with commas between, and forgets them. A rank is a process to the
  /// viewer, a track a thread.
  [[nodiscard]] std::string take(int rank);
  /// A file's content from what the ranks took.
  [[nodiscard]] static std::string document(const std::vector<std::string>& ranks);

 private:
  std::mutex mutex_;
  std::vector<Event> events_;  ///< by mutex_
};

}  // namespace pleiad
