#include "engine/world.h"

#include <algorithm>
#include <utility>

namespace pleiad {

World::World(int rank, std::vector<RankLocation> locations, const WorldRoles& roles)
    : rank_(rank), locations_(std::move(locations)), roles_(roles) {
  for (int r = 0; r < size(); ++r) {
    hosts_ = std::max(hosts_, location(r).host + 1);
    if (on_this_host(r)) neighbours_.push_back(r);
  }
  segment_maker_ = world_rank(std::min(roles.segment_maker, local_ranks() - 1));
}

}  // namespace pleiad
