#include "engine/hooks.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::array<std::string_view, 10> kPoints = {"add",   "get",        "barrier", "all_reduce", "lock",
                                                      "clock", "collective", "settle",  "combine",    "make"};

template <class T>
bool number(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string_view name_of(Point point) { return kPoints[static_cast<std::size_t>(point)]; }

void FaultHooks::at(int rank, Point point) {
  if (rank != fault_.rank || point != fault_.point || seen_.fetch_add(1) + 1 != fault_.count) return;
  if (threads_) throw RankKilled{};
  kill(getpid(), SIGKILL);
}

Fault Fault::parse(std::string_view text) {
  Fault fault;
  const std::size_t first = text.find(':');
  const std::size_t second = first == text.npos ? text.npos : text.find(':', first + 1);
  if (second == text.npos || !number(text.substr(0, first), fault.rank) ||
      !number(text.substr(second + 1), fault.count)) {
    throw InvalidArgument(fmt::format("fault: expected RANK:POINT:COUNT, received \"{}\"", text));
  }
  const std::string_view name = text.substr(first + 1, second - first - 1);
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    if (kPoints[i] == name) {
      fault.point = static_cast<Point>(i);
      return fault;
    }
  }
  const std::vector<std::string> known(kPoints.begin(), kPoints.end());
  throw InvalidArgument(unknown_name("fault point", name, known));
}

}  // namespace pleiad
