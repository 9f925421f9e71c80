#include "engine/run_collectively.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "core/problem.h"

namespace pleiad {

void run_collectively(Engine& engine, std::string_view where, FunctionRef<void()> work) {
  struct Outcome {
    std::array<char, 1000> text{};
    ErrorKind kind = ErrorKind::internal;
    bool failed = false;
  } mine;
  try {
    work();
  } catch (...) {
    const Problem problem = Problem::current();
    std::memcpy(mine.text.data(), problem.text.data(), std::min(problem.text.size(), mine.text.size() - 1));
    mine.kind = problem.kind;
    mine.failed = true;
  }
  std::vector<Outcome> outcomes(static_cast<std::size_t>(engine.world().size()));
  engine.collectives().all_gather(&mine, outcomes.data(), sizeof mine);
  for (int r = 0; r < engine.world().size(); ++r) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(r)];
    if (!outcome.failed) continue;
    const std::string text = r == engine.world().rank()
                                 ? outcome.text.data()
                                 : fmt::format("[{}] {}: {}", where, engine.members().describe(r), outcome.text.data());
    Problem{.kind = outcome.kind, .text = text}.raise();
  }
}

}  // namespace pleiad
