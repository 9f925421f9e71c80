#include "engine/shared_segments.h"

#include <array>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "core/problem.h"
#include "pleiad/error.h"

namespace pleiad {

SharedSegments::SharedSegments(const RankContext& context, const Membership& members, Collectives& collectives,
                               SegmentSource& source)
    : context_(context), members_(members), collectives_(collectives), source_(source) {}

std::shared_ptr<Segment> SharedSegments::share(std::size_t bytes, bool reserve_only) {
  const std::uint64_t id = ++made_;
  std::shared_ptr<Segment> segment;
  struct Outcome {
    ErrorKind kind = ErrorKind::memory;
    std::array<char, 508> text{};
  } mine;
  const auto attempt = [&](auto&& make) {
    try {
      segment = make();
    } catch (const std::exception& error) {
      if (const auto* known = dynamic_cast<const Error*>(&error)) mine.kind = known->kind();
      fmt::format_to_n(mine.text.begin(), mine.text.size() - 1, "{}: {}", members_.describe(context_.world.rank()),
                       error.what());
    }
  };
  const auto agree = [&] {
    std::vector<Outcome> all(static_cast<std::size_t>(context_.world.size()));
    collectives_.all_gather(&mine, all.data(), sizeof mine);
    for (const Outcome& theirs : all) {
      if (theirs.text[0] != 0) Problem{.kind = theirs.kind, .text = theirs.text.data()}.raise();
    }
  };
  const bool maker = context_.world.makes_segments();
  if (maker) attempt([&] { return source_.make_segment(id, bytes, reserve_only); });
  agree();
  if (!maker) attempt([&] { return source_.fetch_segment(id, bytes); });
  agree();
  return segment;
}

}  // namespace pleiad
