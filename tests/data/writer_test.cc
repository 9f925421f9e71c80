// Every writer of stores: the store reads what was written.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

struct WriterCase {
  std::string name;
  WriterOptions options;                 ///< relative to the test's folder
  std::vector<std::int64_t> shape = {};  ///< the options that open the store
};

std::vector<WriterCase> writer_cases() {
  const Field small{.name = "data", .type = FieldType::uint8, .shape = {2, 3, 4}};
  const Field grey{.name = "data", .type = FieldType::uint8, .shape = {1, 5, 6}};
  const Field cifar{.name = "data", .type = FieldType::uint8, .shape = {3, 32, 32}};
  Field floats = small;
  floats.type = FieldType::float32;
  return {
      {"Cifar10", {.kind = "cifar10", .paths = {"a.bin"}, .data = cifar}},
      {"Cifar10Python", {.kind = "cifar10_python", .paths = {"data_batch_1"}, .data = cifar}},
      {"Csv", {.kind = "csv", .paths = {"a.csv"}, .data = floats, .separator = ';'}, {2, 3, 4}},
      {"CsvOfBytes", {.kind = "csv", .paths = {"a.csv"}, .data = small}, {2, 3, 4}},
      {"Hdf5", {.kind = "hdf5", .paths = {"a.h5"}, .data = floats}},
      {"Idx", {.kind = "idx", .paths = {"images", "labels"}, .data = grey}},
      {"Images", {.kind = "images", .paths = {"a"}, .data = grey}},
      {"ImagesInColour", {.kind = "images", .paths = {"a"}, .data = cifar}},
      {"KvFile", {.kind = "kvfile", .paths = {"a.bin"}, .data = small}},
      {"KvFileOfFloats", {.kind = "kvfile", .paths = {"a.bin"}, .data = floats}},
      {"Libsvm", {.kind = "libsvm", .paths = {"a.svm"}, .data = floats}, {2, 3, 4}},
      {"Lmdb", {.kind = "lmdb", .paths = {"a"}, .data = small}},
      {"TextFile", {.kind = "textfile", .paths = {"a.txt"}, .data = floats}, {2, 3, 4}},
  };
}

class EveryWriter : public testing::TestWithParam<WriterCase> {
 protected:
  EveryWriter() : options_(GetParam().options) {
    for (std::string& path : options_.paths) path = folder_ / path;
  }

  /// Returns `count` records, beginning at `first`.
  void write(StoreWriter& writer, std::int64_t first, std::int64_t last) const {
    const Field& data = options_.data;
    std::vector<std::byte> record(data.bytes());
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t i = 0; i < data.count(); ++i) {
        const auto value = static_cast<float>(element(r, i));
        const auto byte = static_cast<std::uint8_t>(element(r, i));
        const auto at = record.data() + static_cast<std::size_t>(i) * size_of(data.type);
        if (data.type == FieldType::uint8) std::memcpy(at, &byte, sizeof byte);
        if (data.type == FieldType::float32) std::memcpy(at, &value, sizeof value);
      }
      writer.write(record, label(r));
    }
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return open_store({.kind = options_.kind,
                       .paths = options_.paths,
                       .classes = 10,
                       .shape = GetParam().shape,
                       .separator = options_.separator});
  }

  Folder folder_;
  WriterOptions options_;
};

TEST_P(EveryWriter, WritesWhatItsStoreReads) {
  const auto writer = create_store(options_);
  write(*writer, 0, kRecords);
  EXPECT_EQ(writer->size(), kRecords);
  writer->commit();
  expect_error<StateError>([&] { write(*writer, 0, 1); }, {"is complete"});
  const auto store = open();
  ASSERT_EQ(store->size(), kRecords);
  ASSERT_EQ(store->fields()[0].shape, options_.data.shape);
  for (std::int64_t r = 0; r < kRecords; ++r) {
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < options_.data.count(); ++i) wanted.push_back(element(r, i));
    EXPECT_EQ(numbers(*store, 0, {r}), wanted) << r;
    EXPECT_EQ(numbers(*store, 1, {r})[0], label(r));
  }
}

TEST_P(EveryWriter, LeavesWhatWasThereUntilItCommits) {
  {
    const auto writer = create_store(options_);
    write(*writer, 0, 3);
    writer->commit();
  }
  const auto before = folder_.names();
  {
    const auto writer = create_store(options_);
    write(*writer, 0, kRecords);
    EXPECT_EQ(open()->size(), 3);
  }
  EXPECT_EQ(open()->size(), 3);
  EXPECT_EQ(folder_.names(), before) << "nothing is left of what was not committed";
  const auto writer = create_store(options_);
  write(*writer, 0, 4);
  writer->commit();
  EXPECT_EQ(open()->size(), 4) << "it takes the old one's place";
}

TEST_P(EveryWriter, RefusesWhatItCannotHold) {
  const auto writer = create_store(options_);
  const std::vector<std::byte> small(options_.data.bytes() - 1);
  expect_error<InvalidArgument>([&] { writer->write(small); }, {folder_.path(), "record 0", "received"});
  expect_error<InvalidArgument>([&] { writer->commit(); }, {"at least one record"});
  WriterOptions odd = options_;
  odd.data.type = FieldType::int64;
  if (odd.kind != "hdf5") {  // int64 can hold the values of every type
    expect_error<InvalidArgument>([&] { (void)create_store(odd); }, {"\"" + odd.kind + "\"", "received int64"});
  }
  WriterOptions many = options_;
  many.paths = {"a", "b", "c"};
  expect_error<InvalidArgument>([&] { (void)create_store(many); }, {"received 3 path"});
  WriterOptions nowhere = options_;
  for (std::string& path : nowhere.paths) path = folder_ / "no/such/folder";
  expect_error<FileError>(
      [&] {
        const auto lost = create_store(nowhere);
        write(*lost, 0, 1);
        lost->commit();
      },
      {folder_ / "no/such/folder", "No such file"});
}

INSTANTIATE_TEST_SUITE_P(Kind, EveryWriter, testing::ValuesIn(writer_cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Writers, RefuseUnknownKindsAndLabels) {
  const Folder folder;
  expect_error<InvalidArgument>([] { (void)create_store({.kind = "kvflie", .paths = {"a"}}); },
                                {"kvflie", "did you mean \"kvfile\""});
  const auto writer = create_store({.kind = "cifar10",
                                    .paths = {folder / "a.bin"},
                                    .data = {.name = {}, .type = FieldType::uint8, .shape = {3, 32, 32}}});
  expect_error<InvalidArgument>([&] { writer->write(std::vector<std::byte>(3072), 10); }, {"0 to 9", "received 10"});
}

}  // namespace
