// Passes the engine's log lines to Python. The engine appends to a queue without waiting for Python; a thread of
// pleiad.logs takes the lines from it.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "core/log.h"
#include "session.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

struct LogQueue {
  std::mutex mutex;
  std::condition_variable added;
  std::deque<std::pair<std::string, std::string>> lines;  // level and text; guarded by mutex
};

/// Never destroyed, because threads of the engine may log until the process ends.
LogQueue& queue() {
  static auto* const the_queue = new LogQueue;
  return *the_queue;
}

void keep_logs(bool on) {
  if (!on) return set_log_sink({});
  set_log_sink([](std::string_view level, std::string_view line) {
    const std::scoped_lock lock(queue().mutex);
    queue().lines.emplace_back(level, line);
    queue().added.notify_one();
  });
}

/// Waits for a line for up to `seconds` without the GIL.
nb::object next_log(double seconds) {
  std::pair<std::string, std::string> line;
  {
    const nb::gil_scoped_release release;
    std::unique_lock lock(queue().mutex);
    queue().added.wait_for(lock, std::chrono::duration<double>(seconds), [] { return !queue().lines.empty(); });
    if (!queue().lines.empty()) {
      line = std::move(queue().lines.front());
      queue().lines.pop_front();
    }
  }
  if (line.first.empty()) return nb::none();
  return nb::make_tuple(line.first,
                        nb::steal(PyUnicode_DecodeUTF8(line.second.data(), std::ssize(line.second), "replace")));
}

}  // namespace

void bind_logs(nb::module_& m) {
  m.def("keep_logs", &keep_logs, nb::arg("on"));
  m.def("next_log", &next_log, nb::arg("seconds"), nb::sig("def next_log(seconds: float) -> tuple[str, str] | None"));
}

}  // namespace pleiad::python
