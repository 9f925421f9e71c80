#include "core/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text.h"

namespace pleiad {

void Trace::record(Event event) {
  const std::scoped_lock lock(mutex_);
  events_.push_back(std::move(event));
}

std::string Trace::take(int rank) {
  std::vector<Event> events;
  {
    const std::scoped_lock lock(mutex_);
    events.swap(events_);
  }
  using nlohmann::json;
  const auto named = [&](const char* what, int thread, const std::string& name) {
    return json{{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}}.dump();
  };
  std::vector<std::string> lines = {named("process_name", 0, fmt::format("rank {}", rank))};
  const char* const tracks[] = {"compute", "exchange", "loader"};
  for (int track = 0; track < 3; ++track) lines.push_back(named("thread_name", track, tracks[track]));
  for (const Event& event : events) {
    lines.push_back(json{{"ph", "X"},
                         {"cat", event.what},
                         {"name", event.name.empty() ? event.what : fmt::format("{} {}", event.what, event.name)},
                         {"pid", rank},
                         {"tid", static_cast<int>(event.track)},
                         {"ts", static_cast<double>(event.begin) / 1e3},
                         {"dur", static_cast<double>(event.end - event.begin) / 1e3}}
                        .dump());
  }
  return join(lines, ",\n");
}

std::string Trace::document(const std::vector<std::string>& ranks) {
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + join(ranks, ",\n") + "\n]}\n";
}

}  // namespace pleiad
