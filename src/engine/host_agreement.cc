#include "engine/host_agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad {

namespace {
constexpr CollectiveSignature kLeaving = signature_of(Call::shutdown, 0, 0);
}  // namespace

std::vector<HostAgreement::Announcement> HostAgreement::exchange(Announcement mine) {
  struct Text {
    std::array<char, 4096> text{};
  };
  const auto size = static_cast<std::size_t>(context_.world.size());
  mine.failed = failure_.text().empty() ? 0 : 1;
  std::vector<Announcement> all(size);
  remote_->all_gather(&mine, all.data(), sizeof mine);
  if (std::ranges::all_of(all, [](const Announcement& theirs) { return theirs.failed == 0; })) return all;
  Text own;
  if (mine.failed != 0) {
    const std::string text = failure_.text();
    std::memcpy(own.text.data(), text.data(), std::min(text.size(), own.text.size() - 1));
  }
  std::vector<Text> texts(size);
  remote_->all_gather(&own, texts.data(), sizeof own);
  const auto first = std::ranges::find_if(texts, [](const Text& theirs) { return theirs.text[0] != 0; });
  if (first != texts.end()) (void)failure_.record(first->text.data());
  return all;
}

std::vector<std::uint64_t> HostAgreement::agree(const CollectiveSignature& mine, std::uint64_t number) {
  const std::vector<Announcement> all = exchange({.signature = mine, .number = number});
  // Ignores a failure that only this rank has heard of since: otherwise the others would be left inside MPI.
  if (std::ranges::any_of(all, [](const Announcement& theirs) { return theirs.failed != 0; })) failure_.check();
  const World& world = context_.world;
  for (int r = 0; r < world.size(); ++r) {
    if (all[static_cast<std::size_t>(r)].signature.what == kLeaving.what) {
      throw OrderError(fmt::format("[rank {}] {} waits for {}, which has shut down", world.rank(),
                                   name_of(call_of(mine)), members_.describe(r)));
    }
  }
  std::vector<std::uint64_t> numbers;
  for (int r = 0; r < world.size(); ++r) {
    const Announcement& theirs = all[static_cast<std::size_t>(r)];
    check_same_collective(context_, members_, failure_, r, theirs.signature, mine);
    numbers.push_back(theirs.number);
  }
  return numbers;
}

void HostAgreement::leave() {
  const auto leaves = [](const Announcement& theirs) { return theirs.signature.what == kLeaving.what; };
  while (!std::ranges::all_of(exchange({.signature = kLeaving}), leaves)) {
  }
}

}  // namespace pleiad
