#include "engine/world.h"

#include <algorithm>
#include <utility>

namespace pleiad {

World::World(int rank, std::vector<RankLocation> locations) : rank_(rank), locations_(std::move(locations)) {
  for (int r = 0; r < size(); ++r) {
    hosts_ = std::max(hosts_, location(r).host + 1);
    if (on_this_host(r)) neighbours_.push_back(r);
  }
}

}  // namespace pleiad
