// Guarantees of every kind of store.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/data/stores.h"
#include "tests/file/mutate.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

class EveryStore : public testing::TestWithParam<StoreCase> {
 protected:
  EveryStore() : options_(GetParam().write(folder_)) {}

  [[nodiscard]] std::unique_ptr<Store> open() const { return open_store(options_); }

  Folder folder_;
  StoreOptions options_;
};

std::vector<double> expected(const Store& store, const std::vector<std::int64_t>& records, const Window& window) {
  const auto& shape = store.fields()[0].shape;
  std::vector<double> result;
  for (const std::int64_t r : records) {
    for (std::int64_t c = 0; c < shape[0]; ++c) {
      for (std::int64_t y = window.top; y < window.top + window.height; ++y) {
        for (std::int64_t x = window.left; x < window.left + window.width; ++x) {
          result.push_back(element(r, (c * shape[1] + y) * shape[2] + x));
        }
      }
    }
  }
  return result;
}

Window whole(const Store& store) {
  return {.top = 0, .left = 0, .height = store.fields()[0].shape[1], .width = store.fields()[0].shape[2]};
}

TEST_P(EveryStore, GivesRecordsInAnyOrderAndTwice) {
  const auto store = open();
  ASSERT_EQ(store->size(), kRecords);
  ASSERT_EQ(store->fields().size(), 2U);
  EXPECT_EQ(store->field("data"), 0U);
  EXPECT_EQ(store->field("label"), 1U);
  const std::vector<std::int64_t> records = {6, 0, 3, 3, 5};
  EXPECT_EQ(numbers(*store, 0, records), expected(*store, records, whole(*store)));
  std::vector<double> classes;
  for (const std::int64_t r : records) classes.push_back(label(r));
  EXPECT_EQ(numbers(*store, 1, records), classes);
  EXPECT_TRUE(numbers(*store, 0, {}).empty());
}

TEST_P(EveryStore, GivesAnyWindowOfItsImages) {
  const auto store = open();
  const Window all = whole(*store);
  std::mt19937 random(3);
  for (int trial = 0; trial < 30; ++trial) {
    Window window;
    window.top = static_cast<std::int64_t>(random() % static_cast<unsigned>(all.height + 1));
    window.left = static_cast<std::int64_t>(random() % static_cast<unsigned>(all.width + 1));
    window.height = static_cast<std::int64_t>(random() % static_cast<unsigned>(all.height - window.top + 1));
    window.width = static_cast<std::int64_t>(random() % static_cast<unsigned>(all.width - window.left + 1));
    EXPECT_EQ(numbers(*store, 0, {5, 1}, window), expected(*store, {5, 1}, window));
  }
}

TEST_P(EveryStore, OpenedWithAWindowIsAStoreOfThatWindow) {
  const Window window{.top = 1, .left = 2, .height = 2, .width = 2};
  const auto all = open();
  options_.window = window;
  const auto store = open();
  EXPECT_EQ(store->fields()[0].shape, (std::vector<std::int64_t>{all->fields()[0].shape[0], 2, 2}));
  EXPECT_EQ(numbers(*store, 0, {4, 2}), expected(*all, {4, 2}, window));
  EXPECT_EQ(numbers(*store, 0, {4, 2}, {.top = 1, .left = 0, .height = 1, .width = 2}),
            expected(*all, {4, 2}, {.top = 2, .left = 2, .height = 1, .width = 2}));
  EXPECT_EQ(numbers(*store, 1, {4}), std::vector<double>{static_cast<double>(label(4))});
  options_.window = Window{.top = 0, .left = 0, .height = 33, .width = 33};
  expect_error<InvalidArgument>([&] { (void)open(); }, {"window of 33 x 33", folder_.path()});
}

TEST_P(EveryStore, IsReadByManyThreadsAtOnce) {
  const auto store = open();
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto r = static_cast<std::int64_t>((t + static_cast<std::size_t>(i)) % kRecords);
        right[t] += numbers(*store, 0, {r}) == expected(*store, {r}, whole(*store)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 50));
}

TEST_P(EveryStore, RefusesWhatItDoesNotHave) {
  const auto store = open();
  std::vector<std::byte> room(store->fields()[0].bytes());
  const std::vector<std::int64_t> one = {0};
  const auto read = [&](std::size_t field, const std::vector<std::int64_t>& records) {
    store->read(field, records, room);
  };
  expect_error<InvalidArgument>([&] { read(0, {kRecords}); }, {folder_.path(), "records 0 to 6", "received 7"});
  expect_error<InvalidArgument>([&] { read(0, {-1}); }, {"received -1"});
  expect_error<InvalidArgument>([&] { read(2, {0}); }, {"2 fields"});
  expect_error<InvalidArgument>([&] { read(0, {0, 1}); }, {"2 records", "room for"});
  expect_error<InvalidArgument>([&] { store->read_window(1, one, {0, 0, 1, 1}, room); }, {"\"label\"", "height"});
  expect_error<InvalidArgument>([&] { store->read_window(0, one, {0, 0, 1, 99}, room); }, {"window of 1 x 99"});
  expect_error<InvalidArgument>([&] { store->read_window(0, one, {-1, 0, 1, 1}, room); }, {"at -1, 0"});
  expect_error<InvalidArgument>([&] { (void)store->field("lable"); }, {"did you mean \"label\""});
}

/// Returns the files of a path: the file itself, or the files in the folder.
std::vector<std::string> files_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

TEST_P(EveryStore, NamesTheMissingFile) {
  for (const std::string& path : options_.paths) {
    std::filesystem::rename(path, path + ".away");
    expect_error<FileError>([&] { (void)open(); }, {path, "No such file"});
    std::filesystem::rename(path + ".away", path);
  }
}

TEST_P(EveryStore, SurvivesEveryDamageToItsFiles) {
  std::mt19937 random(4);
  int refused = 0;
  int tried = 0;
  for (const std::string& path : options_.paths) {
    for (const std::string& file : files_of(path)) {
      const std::string good = slurp(file);
      for (int i = 0; i < GetParam().damages; ++i, ++tried) {
        spit(file, mutated(good, random));
        std::int64_t reading = -1;  // the store is damaged while it is opened
        try {
          const auto store = open();
          for (std::int64_t r = 0; r < store->size(); ++r) {
            reading = r;
            for (std::size_t f = 0; f < store->fields().size(); ++f) (void)numbers(*store, f, {r});
          }
        } catch (const FileError& error) {
          ++refused;
          const std::string what = error.what();
          ASSERT_NE(what.find(folder_.path()), std::string::npos) << what;
          if (reading >= 0) {  // the record is counted within its file
            ASSERT_NE(what.find("record "), std::string::npos) << what;
          }
        }
      }
      spit(file, good);
    }
  }
  EXPECT_GT(refused, tried / 14);
}

INSTANTIATE_TEST_SUITE_P(Kind, EveryStore, testing::ValuesIn(store_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
