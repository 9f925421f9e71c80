// Steps that all ranks take or none: one rank's failure is everybody's.
#pragma once

#include <string_view>

#include "core/function_ref.h"
#include "engine/engine.h"

namespace pleiad {

/// Collective: every rank runs `work`, then hears how it went elsewhere. Where a rank failed, all throw its error (the
/// lowest such rank's), with its name where it was another one. `where` begins the text for others.
void together(Engine& engine, std::string_view where, FunctionRef<void()> work);

}  // namespace pleiad
