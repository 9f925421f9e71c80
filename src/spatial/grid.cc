#include "pleiad/grid.h"

#include <fmt/format.h>

#include <charconv>

#include "pleiad/error.h"

namespace pleiad {

std::vector<std::vector<int>> Grid::teams() const {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(groups));
  for (int rank = 0; rank < size(); ++rank) all[static_cast<std::size_t>(group_of(rank))].push_back(rank);
  return all;
}

std::vector<std::vector<int>> Grid::twins() const {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(tiles()));
  for (int rank = 0; rank < size(); ++rank) all[static_cast<std::size_t>(tile_of(rank))].push_back(rank);
  return all;
}

std::string Grid::text() const {
  return fmt::format("{}x{}{}", rows, cols, groups > 1 ? fmt::format(" in {} groups", groups) : "");
}

Grid grid_named(const std::string& text, int ranks) {
  const auto wrong = [&](const std::string& why) {
    return InvalidArgument(fmt::format(
        "grid: expected \"ROWSxCOLS\" or \"ROWSxCOLSxGROUPS\", such as \"2x3\"; received \"{}\"{}", text, why));
  };
  std::vector<int> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    int number = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, number);
    if (error != std::errc() || rest != text.data() + end || number < 1 || number > 1'000'000) throw wrong("");
    numbers.push_back(number);
    at = end + 1;
  }
  if (numbers.size() != 2 && numbers.size() != 3) throw wrong("");
  const Grid grid{.rows = numbers[0], .cols = numbers[1], .groups = numbers.size() == 3 ? numbers[2] : 1};
  const std::int64_t size = std::int64_t{grid.rows} * grid.cols * grid.groups;
  if (size != ranks) {
    throw InvalidArgument(fmt::format("grid \"{}\" needs {} ranks; the world has {}", text, size, ranks));
  }
  return grid;
}

}  // namespace pleiad
