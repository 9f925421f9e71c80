#include "plan/expect_same.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "core/text.h"
#include "file/checksum.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

constexpr std::size_t kShown = 4;      // differences that a message shows
constexpr std::size_t kLongest = 120;  // characters that a message shows of a value
constexpr char kBetween = '\x1f';      // separates a name from its value
constexpr char kListEnd = '\x1e';      // terminates a value

std::string packed_fields(const NamedValues& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += name + kBetween + value + kListEnd;
  return text;
}

std::map<std::string, std::string> unpacked_fields(const std::string& text) {
  std::map<std::string, std::string> fields;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t between = text.find(kBetween, at);
    const std::size_t end = text.find(kListEnd, between);
    fields[text.substr(at, between - at)] = text.substr(between + 1, end - between - 1);
    at = end + 1;
  }
  return fields;
}

/// Returns the text of rank `root` on all ranks.
std::string broadcast_text(Session& session, const std::string& mine, int root, std::int64_t length) {
  std::vector<std::int32_t> words(static_cast<std::size_t>(length) / 4 + 1);
  if (session.rank() == root) std::memcpy(words.data(), mine.data(), mine.size());
  session.broadcast(words, root);
  return {reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(length)};
}

std::string shortened(const std::string& value) {
  return value.size() <= kLongest ? value : value.substr(0, kLongest) + "...";
}

std::string difference(const std::string& first, const std::string& other, int rank) {
  const auto a = unpacked_fields(first);
  const auto b = unpacked_fields(other);
  std::vector<std::string> found;
  const auto value_in = [](const auto& fields, const std::string& name) {
    const auto at = fields.find(name);
    return at == fields.end() ? std::string("missing") : shortened(at->second);
  };
  const auto compare = [&](const std::string& name) {
    const auto in_a = a.find(name), in_b = b.find(name);
    if (in_a != a.end() && in_b != b.end() && in_a->second == in_b->second) return;
    found.push_back(
        fmt::format("{} is {} on rank 0 and {} on rank {}", name, value_in(a, name), value_in(b, name), rank));
  };
  for (const auto& [name, value] : a) compare(name);
  for (const auto& [name, value] : b) {
    if (!a.contains(name)) compare(name);
  }
  const std::size_t more = found.size() > kShown ? found.size() - kShown : 0;
  found.resize(found.size() - more);
  return join(found, "; ") + (more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace

void expect_same(Session& session, std::string_view what, const NamedValues& mine) {
  if (session.size() == 1) return;
  const std::string text = packed_fields(mine);
  const std::vector<std::int64_t> own = {static_cast<std::int64_t>(text.size()),
                                         static_cast<std::int64_t>(crc32c(std::as_bytes(std::span(text))))};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(session.size()));
  session.all_gather(own, all);
  for (int rank = 1; rank < session.size(); ++rank) {
    const std::int64_t* const of_rank = all.data() + 2 * static_cast<std::ptrdiff_t>(rank);
    if (of_rank[0] == all[0] && of_rank[1] == all[1]) continue;
    const std::string first = broadcast_text(session, text, 0, all[0]);
    const std::string other = broadcast_text(session, text, rank, of_rank[0]);
    throw InvalidArgument(
        fmt::format("{}: the ranks were given different jobs: {}", what, difference(first, other, rank)));
  }
}

NamedValues lines_of(const std::string& text) {
  NamedValues fields;
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) fields.emplace_back(fmt::format("line {}", number), line);
  return fields;
}

}  // namespace pleiad
