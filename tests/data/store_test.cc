// Details of each kind of store, and data sets by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

TEST(Stores, UnknownKindsAndNoPathsAreRefused) {
  expect_error<InvalidArgument>([] { (void)open_store({.kind = "cvs", .paths = {"a"}}); },
                                {"\"cvs\"", "cifar10, ", ", idx, images, kvfile, ", "did you mean \"csv\""});
  expect_error<InvalidArgument>([] { (void)open_store({.kind = "csv", .paths = {}}); }, {"at least one path"});
}

class BadIdx : public testing::Test {
 protected:
  void refuses(const std::string& content, std::vector<std::string> words) {
    const auto path = folder_ / "images";
    words.push_back(path);
    for (const bool gzip : {false, true}) {
      spit(path, gzip ? gzipped(content, folder_) : content);
      expect_error<FileError>([&] { (void)open_store({.kind = "idx", .paths = {path}}); }, words);
    }
  }
  Folder folder_;
};

TEST_F(BadIdx, IsRefused) {
  const std::string good = idx_header({3, 2, 2}) + images(3, 4);
  refuses("", {"truncated in its header"});
  refuses("what", {"not an IDX file", "received 77 68 61 74"});
  refuses(std::string("\0\0\x0D\3", 4) + good.substr(4), {"not an IDX file of unsigned bytes"});
  refuses(idx_header({1, 1, 1, 1, 1}), {"rank of 1 to 4"});
  refuses(good.substr(0, 9), {"truncated in its header"});
  refuses(good.substr(0, good.size() - 5), {"truncated in record 1"});
  refuses(good + "x", {"continues after its last record"});
  refuses(idx_header({3, 0, 2}), {"extent 0"});
  refuses(idx_header({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}), {"larger than the address space"});
  refuses(idx_header({0xFFFFFFFF, 1000, 1000}) + images(1, 100), {"truncated in record 0"});
}

TEST_F(BadIdx, DamagedGzipIsFound) {
  const auto path = folder_ / "images";
  const std::string packed = gzipped(idx_header({3, 2, 2}) + images(3, 4), folder_);
  const auto open = [&] { (void)open_store({.kind = "idx", .paths = {path}}); };
  spit(path, packed.substr(0, packed.size() - 3));
  expect_error<FileError>(open, {path, "truncated"});
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // a bit of the checksum
  spit(path, flipped);
  expect_error<FileError>(open, {path, "damaged"});
}

TEST_F(BadIdx, LabelsMustFitTheImages) {
  spit(folder_ / "images", idx_header({3, 2, 2}) + images(3, 4));
  const auto open = [&] {
    (void)open_store({.kind = "idx", .paths = {folder_ / "images", folder_ / "labels"}, .classes = 10});
  };
  spit(folder_ / "labels", idx_header({2}) + labels(2));
  expect_error<FileError>(open, {folder_ / "labels", "2 labels", folder_ / "images", "3 images"});
  spit(folder_ / "labels", idx_header({3}) + std::string("\1\x0A\1"));
  expect_error<FileError>(open, {folder_ / "labels", "record 1", "label 10", "0 to 9"});
  spit(folder_ / "labels", idx_header({3, 1}) + labels(3));
  expect_error<FileError>(open, {folder_ / "labels", "rank is 2"});
}

TEST(Idx, WithoutLabelsHasOneField) {
  const Folder folder;
  spit(folder / "images", idx_header({3, 2, 2}) + images(3, 4));
  const auto store = open_store({.kind = "idx", .paths = {folder / "images"}});
  EXPECT_EQ(store->fields().size(), 1U);
  EXPECT_EQ(store->fields()[0].shape, (std::vector<std::int64_t>{1, 2, 2}));
}

TEST(Cifar10, NamesFileAndRecord) {
  const Folder folder;
  const auto path = folder / "a.bin";
  const auto open = [&] { return open_store({.kind = "cifar10", .paths = {path}}); };
  spit(path, std::string(3073 * 2 + 100, '\1'));
  expect_error<FileError>([&] { (void)open(); }, {path, "6,246 bytes end in record 2"});
  spit(path, "");
  expect_error<FileError>([&] { (void)open(); }, {path});
  spit(path, std::string(3073, '\1') + std::string(3073, '\x20'));
  const auto store = open();
  EXPECT_EQ(numbers(*store, 1, {0})[0], 1);
  expect_error<FileError>([&] { (void)numbers(*store, 1, {1}); }, {path, "record 1", "label 32", "0 to 9"});
  expect_error<FileError>([&] { (void)numbers(*store, 0, {1}); }, {path, "record 1", "label 32"});
}

TEST(Csv, NamesLineRecordAndColumn) {
  const Folder folder;
  const auto path = folder / "a.csv";
  const auto refuses = [&](const std::string& content, std::vector<std::string> words, StoreOptions options = {}) {
    options.kind = "csv";
    options.paths = {path};
    spit(path, content);
    words.push_back(path);
    expect_error<FileError>([&] { (void)open_store(options); }, words);
  };
  refuses("1,2,3\n1,x,3\n", {":2: record 1, column 2", "finite number", "\"x\""});
  refuses("1,2,3\n1,,3\n", {":2: record 1, column 2", "received \"\""});
  refuses("1,2,nan\n", {":1: record 0, column 3", "finite"});
  refuses("1,2,1e99\n", {"finite"});
  refuses("1,2,3\n\n1,2\n", {":3: record 1", "expected 2 values", "has 1"});
  refuses("1.5,2\n", {"column 1", "label"});
  refuses("-1,2\n", {":1", "record 0", "label -1"});
  refuses("12,2\n", {"label 12", "0 to 9"}, {.kind = {}, .paths = {}, .classes = 10});
  refuses("1\n", {"after the label"});
  refuses("\n \n", {"no records"});
  refuses("1,2,3\n", {"shape [4]", "4 values", "has 2"}, {.kind = {}, .paths = {}, .shape = {4}});
}

TEST(Csv, ReadsOtherSeparatorsAndUnlabelledNumbers) {
  const Folder folder;
  spit(folder / "a.csv", "1.5; 2\n-3;4e1");
  const auto store = open_store({.kind = "csv", .paths = {folder / "a.csv"}, .label = false, .separator = ';'});
  EXPECT_EQ(store->fields().size(), 1U);
  EXPECT_EQ(numbers(*store, 0, {0, 1}), (std::vector<double>{1.5, 2, -3, 40}));
}

TEST(Arrays, ServeTheCallersMemory) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> y = {7, 8, 9};
  const auto store =
      open_arrays({{{"x", FieldType::float32, {2}}, bytes_of(x)}, {{"y", FieldType::int32, {}}, bytes_of(y)}});
  EXPECT_EQ(store->size(), 3);
  EXPECT_EQ(numbers(*store, 0, {2, 0}), (std::vector<double>{5, 6, 1, 2}));
  EXPECT_EQ(numbers(*store, 1, {1}), std::vector<double>{8});
  expect_error<InvalidArgument>([&] { (void)open_arrays({}); }, {"at least one field"});
  expect_error<InvalidArgument>([&] { (void)open_arrays({{{"x", FieldType::float32, {4}}, bytes_of(x)}}); },
                                {"\"x\"", "16 bytes", "24"});
  expect_error<InvalidArgument>(
      [&] {
        (void)open_arrays({{{"x", FieldType::float32, {3}}, bytes_of(x)}, {{"y", FieldType::int32, {}}, bytes_of(y)}});
      },
      {"\"x\" has 2 records", "\"y\" has 3"});
  expect_error<InvalidArgument>([&] { (void)open_arrays({{{"x", FieldType::float32, {0}}, {}}}); }, {"1 or more"});
}

TEST(Statistics, AreThoseOfTheNumbers) {
  const std::vector<std::uint8_t> x = {0, 10, 7, 7, 4, 20, 7, 7};  // two records of 2 channels, 1 x 2
  const auto store = open_arrays({{{"x", FieldType::uint8, {2, 1, 2}}, bytes_of(x)}});
  const Statistics pixels = statistics_of(*store, 0, true);
  EXPECT_EQ(pixels.mean, (std::vector<float>{2, 15, 7, 7}));
  EXPECT_EQ(pixels.deviation, (std::vector<float>{2, 5, 1, 1}));
  const Statistics channels = statistics_of(*store, 0, false);
  EXPECT_EQ(channels.mean, (std::vector<float>{8.5, 7}));
  EXPECT_FLOAT_EQ(channels.deviation[0], std::sqrt(56.75F));
  EXPECT_EQ(channels.deviation[1], 1);
}

TEST(Dataset, FashionMnistIsWhereDebianPutsIt) {
  const auto test = open_dataset({.name = "fashion-mnist", .part = "test"});
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(test->fields()[0].shape, (std::vector<std::int64_t>{1, 28, 28}));
  std::vector<std::int64_t> all(10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::vector<int> counts(10);
  for (const double label : numbers(*test, 1, all)) ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
  const Statistics statistics = statistics_of(*test, 0, false);
  EXPECT_NEAR(statistics.mean[0] / 255, 0.2868, 5e-4);
  EXPECT_NEAR(statistics.deviation[0] / 255, 0.3524, 5e-4);
}

TEST(Dataset, NamesTheSearchedFoldersAndThePackage) {
  const Folder folder;
  expect_error<InvalidArgument>([] { (void)open_dataset({.name = "mnits"}); }, {"did you mean \"mnist\""});
  expect_error<InvalidArgument>([] { (void)open_dataset({.name = "mnist", .part = "trian"}); },
                                {"did you mean \"train\""});
  expect_error<FileError>([&] { (void)open_dataset({.name = "mnist", .folder = folder.path()}); },
                          {"\"mnist\" (train)", folder.path(), "train-images-idx3-ubyte", "fashion-mnist"});
  ::setenv("PLEIAD_DATA", folder.path().c_str(), 1);
  expect_error<FileError>([&] { (void)open_dataset({.name = "cifar10", .part = "test"}); },
                          {folder / "cifar10", "test_batch.bin", "pleiad generate cifar10"});
  std::filesystem::create_directory(folder / "mnist");
  spit(folder / "mnist/train-images.idx3-ubyte", idx_header({3, 2, 2}) + images(3, 4));
  expect_error<FileError>([&] { (void)open_dataset({.name = "mnist"}); }, {folder / "mnist", "no train-labels"});
  spit(folder / "mnist/train-labels-idx1-ubyte.gz", gzipped(idx_header({3}) + labels(3), folder));
  EXPECT_EQ(open_dataset({.name = "mnist"})->size(), 3);
  ::unsetenv("PLEIAD_DATA");
  expect_error<FileError>([] { (void)open_dataset({.name = "mnist"}); }, {"no folder is known", "PLEIAD_DATA"});
}

}  // namespace
