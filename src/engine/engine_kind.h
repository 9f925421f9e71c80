// The kinds of engines.
#pragma once

#include <cstdint>
#include <string_view>

namespace pleiad {

/// How the ranks of a world were started and what connects them.
enum class EngineKind : std::uint8_t {
  solo,    ///< one rank
  inproc,  ///< threads of one process
  local,   ///< processes of one host
  mpi,     ///< processes that MPI connects
};

/// The name that Session::engine() returns.
[[nodiscard]] constexpr std::string_view name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::solo: return "solo";
    case EngineKind::inproc: return "inproc";
    case EngineKind::local: return "local";
    case EngineKind::mpi: return "mpi";
  }
  return "?";
}

}  // namespace pleiad
