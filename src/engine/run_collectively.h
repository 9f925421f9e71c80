// Steps that succeed on all ranks or fail on all ranks.
#pragma once

#include <string_view>

#include "core/function_ref.h"
#include "engine/engine.h"

namespace pleiad {

/// Collective: every rank runs `work` and learns how it went on the others. If it failed on a rank, all ranks throw the
/// error of the lowest such rank; the other ranks' message starts with `where` and names that rank.
void run_collectively(Engine& engine, std::string_view where, FunctionRef<void()> work);

}  // namespace pleiad
