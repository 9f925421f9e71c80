#include "data/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/text.h"
#include "data/content.h"
#include "data/record.h"
#include "pleiad/error.h"

namespace pleiad {

namespace data {

namespace {

constexpr PairKind kPairs[] = {
    {"kvfile", open_kvfile, create_kvfile},
    {"lmdb", open_lmdb, create_lmdb},
    {"textfile", open_textfile, create_textfile},
};

const PairKind& pair_kind(const std::string& name) {
  const auto found = std::ranges::find(kPairs, name, &PairKind::name);
  if (found == std::end(kPairs)) throw InvalidArgument(unknown_name("kind of a file of pairs", name, pair_kinds()));
  return *found;
}

}  // namespace

std::string IndexedPairs::key(std::int64_t index) const {
  const auto key = entries_.at(static_cast<std::size_t>(index)).key;
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}
std::span<const std::byte> IndexedPairs::value(std::int64_t index) const {
  return entries_.at(static_cast<std::size_t>(index)).value;
}

}  // namespace data

Pairs::Pairs(std::string name) : name_(std::move(name)) {}
Pairs::~Pairs() = default;
PairWriter::PairWriter() = default;
PairWriter::~PairWriter() = default;

std::vector<std::string> pair_kinds() {
  std::vector<std::string> names;
  for (const data::PairKind& kind : data::kPairs) names.emplace_back(kind.name);
  return names;
}

std::unique_ptr<Pairs> open_pairs(const std::string& kind, const std::string& path) {
  return data::pair_kind(kind).open(path);
}

std::unique_ptr<PairWriter> create_pairs(const std::string& kind, const std::string& path) {
  return data::pair_kind(kind).create(path);
}

namespace {
constexpr const char* kMean = "mean";
}

namespace {

/// Returns an empty text if a record has as many floats as its shape says, else an error message.
std::string mean_problem(const Record& record) {
  std::size_t count = 1;
  for (const std::int64_t extent : record.shape) count *= static_cast<std::size_t>(extent);
  if (!record.data.empty() && record.data.size() == count) return {};
  return fmt::format("expected a mean of shape [{}]; received {} floats", fmt::join(record.shape, ", "),
                     record.data.size());
}

/// SINGA 0.1's mean files are a record and nothing else.
std::optional<Record> lone_mean(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return {};
  const data::Content content(path);
  data::RecordView view;
  if (!data::parse(content.bytes(), view).empty()) return {};
  Record record = parse_record(content.bytes(), path);
  return mean_problem(record).empty() ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace

Record read_mean(const std::string& path) {
  if (std::optional<Record> record = lone_mean(path)) return *record;
  const auto pairs = open_pairs("kvfile", path);
  for (std::int64_t i = 0; i < pairs->size(); ++i) {
    if (pairs->key(i) != kMean && pairs->size() > 1) continue;
    Record record =
        checked_read([&] { return parse_record(pairs->value(i), fmt::format("{}: record {}", pairs->name(), i)); });
    if (const std::string problem = mean_problem(record); !problem.empty()) {
      throw FileError(fmt::format("{}: record {}: {}", pairs->name(), i, problem));
    }
    return record;
  }
  throw FileError(
      fmt::format("{}: has {} records, none of them under the key \"{}\"", pairs->name(), pairs->size(), kMean));
}

void write_mean(const std::string& path, const std::vector<std::int64_t>& shape, const std::vector<float>& mean) {
  const auto out = create_pairs("kvfile", path);
  out->put(kMean, encode_record({.shape = shape, .data = mean}));
  out->commit();
}

}  // namespace pleiad
