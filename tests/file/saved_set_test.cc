#include "file/saved_set.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include <nlohmann/json.hpp>

#include "file/checksum.h"
#include "tests/file/folder.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

const ElementType kFloat = element_type(DType::float32);

/// Returns the values of a box of an array in which each element holds its own row-major index.
std::vector<float> numbers_of(const Box& box, const std::vector<std::int64_t>& shape) {
  std::vector<float> numbers(static_cast<std::size_t>(box.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t global = 0;
    std::int64_t scale = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      global += (box.begin[d] + rest % box.extent[d]) * scale;
      rest /= box.extent[d];
      scale *= shape[d];
    }
    numbers[i] = static_cast<float>(global);
  }
  return numbers;
}

/// Saves an array of `shape`, split into n bands along `dim`, as n processes would.
void save(const std::filesystem::path& folder, const std::string& tag, const std::vector<std::int64_t>& shape,
          std::size_t dim, int n, const Metadata& metadata = {}) {
  Manifest manifest{.kind = "snapshot", .metadata = metadata, .parts = {}};
  for (int rank = 0; rank < n; ++rank) {
    Box box = Box::whole(shape);
    box.begin[dim] = shape[dim] * rank / n;
    box.extent[dim] = shape[dim] * (rank + 1) / n - box.begin[dim];
    const auto numbers = numbers_of(box, shape);
    const std::vector<PieceToWrite> pieces = {{"w", kFloat, shape, box, bytes_of(numbers)}};
    const PartEntry part = write_part(folder, tag, rank, pieces);
    manifest.parts.push_back(PartEntry::from_text(part.to_text(), "rank"));
  }
  manifest.commit(folder);
}

TEST(SavedSet, AnyRectangleComesBackWhateverTheCut) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int trial = 0; trial < 25; ++trial) {
    const Folder folder;
    std::vector<std::int64_t> shape;
    for (std::int64_t d = draw(1, 4); d > 0; --d) shape.push_back(draw(1, 6));
    save(folder.path(), "step-1", shape, static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(shape.size()) - 1)),
         static_cast<int>(draw(1, 5)));
    const SavedSet set(folder.path());
    EXPECT_EQ(set.at("w").shape, shape);
    for (int look = 0; look < 8; ++look) {
      Box box = Box::whole(shape);
      for (std::size_t d = 0; d < shape.size(); ++d) {
        box.begin[d] = draw(0, shape[d] - 1);
        box.extent[d] = draw(1, shape[d] - box.begin[d]);
      }
      std::vector<float> out(static_cast<std::size_t>(box.count()), -1);
      set.read("w", box, std::as_writable_bytes(std::span(out)));
      EXPECT_EQ(out, numbers_of(box, shape));
    }
  }
}

TEST(SavedSet, KeepsScalarsEmptyArraysAndSeveralPiecesOfOneArray) {
  const Folder folder;
  const std::vector<float> three = {3};
  const std::vector<float> low = {0, 1};
  const std::vector<float> high = {2, 3};
  const std::vector<PieceToWrite> pieces = {
      {"scalar", kFloat, {}, {}, bytes_of(three)},
      {"empty", kFloat, {0, 5}, Box::whole(std::vector<std::int64_t>{0, 5}), {}},
      {"w", kFloat, {4}, {{2}, {2}}, bytes_of(high)},
      {"w", kFloat, {4}, {{0}, {2}}, bytes_of(low)},
  };
  Manifest manifest{.kind = "checkpoint", .metadata = {{"step", "9"}}, .parts = {}};
  manifest.parts.push_back(write_part(folder.path(), "s", 0, pieces));
  manifest.commit(folder.path());
  const SavedSet set(folder.path());
  EXPECT_EQ(set.names(), (std::vector<std::string>{"empty", "scalar", "w"}));
  EXPECT_EQ(set.manifest().kind, "checkpoint");
  EXPECT_EQ(set.manifest().metadata.at("step"), "9");
  std::vector<float> out(4);
  set.read("w", std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 3}));
  out.resize(1);
  set.read("scalar", std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out[0], 3);
  set.read("empty", {});
  set.verify();
}

TEST(SavedSet, AFailedSaveLeavesThePreviousOneIntact) {
  const Folder folder;
  save(folder.path(), "step-1", {10, 4}, 0, 3, {{"step", "1"}});
  // The third of three processes dies after two have written.
  const std::vector<float> numbers(8);
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<PieceToWrite> pieces = {{"w", kFloat, {6, 4}, {{2 * rank, 0}, {2, 4}}, bytes_of(numbers)}};
    (void)write_part(folder.path(), "step-2", rank, pieces);
  }
  const SavedSet set(folder.path());
  EXPECT_EQ(set.manifest().metadata.at("step"), "1");
  std::vector<float> out(40);
  set.read("w", std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, numbers_of(Box::whole(std::vector<std::int64_t>{10, 4}), {10, 4}));
}

TEST(SavedSet, ANewSetRemovesThePartsOfTheOldOneOnly) {
  const Folder folder;
  spit(folder / "mine.safetensors", "a user's");
  save(folder.path(), "step-1", {10}, 0, 3);
  save(folder.path(), "step-2", {10}, 0, 2);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"manifest.json", "mine.safetensors", "step-2-00000.safetensors",
                                                      "step-2-00001.safetensors"}));
}

TEST(SavedSet, DamageInAPartNamesIt) {
  const Folder folder;
  save(folder.path(), "s", {100}, 0, 2);
  const auto part = folder / "s-00001.safetensors";
  const std::string good = slurp(part);
  std::vector<float> out(100);
  const auto read = [&] { SavedSet(folder.path()).read("w", std::as_writable_bytes(std::span(out))); };
  std::string bad = good;
  bad[bad.size() - 3] ^= 4;
  spit(part, bad);
  expect_error<FileError>(read, {part, "damaged", "checksum"});
  spit(part, good.substr(0, good.size() - 1));
  expect_error<FileError>(read, {part, "bytes; the manifest says"});
  std::filesystem::remove(part);
  expect_error<FileError>(read, {part, "No such file"});
  // The content of the other part can still be read.
  const Box first{{0}, {50}};
  out.resize(50);
  SavedSet(folder.path()).read("w", first, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out[49], 49);
  expect_error<FileError>([&] { SavedSet(folder.path()).verify(); }, {part});
}

TEST(SavedSet, RefusesWhatTheArrayDoesNotHave) {
  const Folder folder;
  save(folder.path(), "s", {10, 4}, 1, 2);
  const SavedSet set(folder.path());
  std::vector<std::byte> out(16);
  expect_error<FileError>([&] { set.read("v", out); }, {"manifest.json", "unknown array \"v\"; known: w"});
  expect_error<InvalidArgument>([&] { set.read("w", {{0, 2}, {1, 3}}, out); },
                                {"\"w\"", "[10, 4]", "[1, 3] at [0, 2]"});
  expect_error<InvalidArgument>([&] { set.read("w", {{0}, {1}}, out); }, {"\"w\""});
  expect_error<InvalidArgument>([&] { set.read("w", {{0, 0}, {1, 2}}, out); }, {"8 bytes", "buffer of 16"});
  expect_error<FileError>([] { SavedSet missing("no/such/folder"); }, {"no/such/folder/manifest.json", "No such file"});
}

TEST(Manifest, RefusesPiecesThatDoNotMakeUpTheArray) {
  const Folder folder;
  const auto commit = [&](std::vector<PieceEntry> a, std::vector<PieceEntry> b) {
    const Manifest manifest{
        .kind = "snapshot", .metadata = {}, .parts = {{"a", {}, std::move(a)}, {"b", {}, std::move(b)}}};
    manifest.commit(folder.path());
  };
  const auto piece = [](Box box, std::vector<std::int64_t> shape = {4}) {
    return PieceEntry{"w", "w", kFloat, std::move(shape), std::move(box)};
  };
  expect_error<InvalidArgument>([&] { commit({piece({{0}, {2}})}, {piece({{3}, {1}})}); }, {"\"w\"", "3 of 4"});
  expect_error<InvalidArgument>([&] { commit({piece({{0}, {3}})}, {piece({{2}, {1}})}); }, {"\"w\"", "overlap"});
  expect_error<InvalidArgument>([&] { commit({piece({{0}, {2}})}, {piece({{2}, {3}})}); }, {"\"w\"", "beyond"});
  expect_error<InvalidArgument>([&] { commit({piece({{0}, {2}})}, {piece({{2}, {2}}, {5})}); }, {"[4]", "[5]"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Manifest, ManyPiecesAreCheckedInLittleTime) {
  const Folder folder;
  constexpr std::int64_t kSide = 60;
  const auto commit = [&](std::int64_t extra) {
    PartEntry part{.file = "a", .written = {}, .pieces = {}};
    for (std::int64_t i = 0; i < kSide * kSide; ++i) {
      const Box box{.begin = {i / kSide, i % kSide}, .extent = {1, 1}};
      part.pieces.push_back({"w", "w", kFloat, {kSide, kSide}, box});
    }
    part.pieces.back().box.begin[1] -= extra;
    Manifest{.kind = "snapshot", .metadata = {}, .parts = {part}}.commit(folder.path());
  };
  expect_error<InvalidArgument>([&] { commit(1); }, {"\"w\"", "overlap"});
  commit(0);  // if each piece were compared with all others, there would be more than 5,000,000 pairs
  EXPECT_EQ(Manifest::read(folder.path()).parts.at(0).pieces.size(), static_cast<std::size_t>(kSide * kSide));
}

TEST(Manifest, PiecesThatOverlapAlongEveryAxisAreLimited) {
  const Folder folder;
  // Column k from the diagonal downwards, and row k to the right of it: along both axes, each piece overlaps many
  // others.
  const auto commit = [&](std::int64_t side) {
    PartEntry part{.file = "a", .written = {}, .pieces = {}};
    for (std::int64_t k = 0; k < side; ++k) {
      const Box column{.begin = {k, k}, .extent = {side - k, 1}};
      const Box row{.begin = {k, k + 1}, .extent = {1, side - k - 1}};
      for (const Box& box : {column, row}) part.pieces.push_back({"w", "w", kFloat, {side, side}, box});
    }
    Manifest{.kind = "snapshot", .metadata = {}, .parts = {part}}.commit(folder.path());
  };
  commit(100);
  EXPECT_EQ(Manifest::read(folder.path()).parts.at(0).pieces.size(), 200U);
  expect_error<InvalidArgument>([&] { commit(4000); }, {"\"w\"", "at most 5,000,000 pairs", "7999 pieces"});
}

TEST(Manifest, OfALaterVersionIsRefusedByVersion) {
  const Folder folder;
  save(folder.path(), "s", {10}, 0, 1);
  const auto path = folder / Manifest::kFile;
  nlohmann::json outer = nlohmann::json::parse(slurp(path));
  outer["manifest"]["version"] = Manifest::kVersion + 1;
  spit(path, outer.dump());
  expect_error<FileError>([&] { (void)Manifest::read(folder.path()); }, {path, "damaged"});
  const std::string body = outer["manifest"].dump();
  std::array<char, 9> sum{};
  (void)std::snprintf(sum.data(), sum.size(), "%08x", crc32c(std::as_bytes(std::span(body))));
  outer["crc32c"] = sum.data();
  spit(path, outer.dump());
  expect_error<FileError>([&] { (void)Manifest::read(folder.path()); },
                          {path, "version " + std::to_string(Manifest::kVersion + 1), "reads versions 1 to"});
}

}  // namespace
