#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/stores.h"
#include "tests/eventually.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

/// Returns `count` images of 2 x 6 x 5 with their index as label.
std::shared_ptr<const Store> make_store(std::int64_t count) {
  static std::vector<std::uint8_t> pixels;
  static std::vector<std::int32_t> classes;
  if (pixels.empty()) {
    const std::string text = images(1000, 60);
    pixels.assign(text.begin(), text.end());
    classes.resize(1000);
    std::iota(classes.begin(), classes.end(), 0);
  }
  const auto n = static_cast<std::size_t>(count);
  return open_arrays({{{"data", FieldType::uint8, {2, 6, 5}}, bytes_of(pixels).first(n * 60)},
                      {{"label", FieldType::int32, {}}, bytes_of(classes).first(n * 4)}});
}

const TransformOptions kAugment = {.mean = {100, 120},
                                   .scale = 1.0 / 255,
                                   .pad = 1,
                                   .crop_height = 6,
                                   .crop_width = 5,
                                   .random_crop = true,
                                   .mirror = true};

/// A copy of a batch, outside of its buffer.
struct Copy {
  std::vector<std::int64_t> records;
  std::vector<float> floats;
  std::vector<std::int32_t> ints;
  std::int64_t global_size = 0;
  bool operator==(const Copy&) const = default;

  void append(const Copy& other) {
    records.insert(records.end(), other.records.begin(), other.records.end());
    floats.insert(floats.end(), other.floats.begin(), other.floats.end());
    ints.insert(ints.end(), other.ints.begin(), other.ints.end());
    global_size = other.global_size;
  }
};

Copy copy_of(const Batch& batch) {
  return {.records = {batch.records().begin(), batch.records().end()},
          .floats = {batch.floats(0).begin(), batch.floats(0).end()},
          .ints = {batch.ints(1).begin(), batch.ints(1).end()},
          .global_size = batch.global_size()};
}

std::vector<Copy> take(Loader& loader, std::size_t most) {
  std::vector<Copy> batches;
  while (batches.size() < most) {
    const auto batch = loader.next();
    if (!batch) break;
    batches.push_back(copy_of(*batch));
  }
  return batches;
}

std::vector<Copy> take(const LoaderOptions& options, std::size_t most, std::int64_t records = 53) {
  Loader loader(make_store(records), options);
  return take(loader, most);
}

TEST(Loader, IsBitIdenticalForAnyNumberOfRanksAndThreads) {
  for (const LastBatch last : {LastBatch::wrap, LastBatch::shorter, LastBatch::drop}) {
    LoaderOptions options{.batch = 10, .shuffle = true, .seed = 9, .epochs = 3, .last = last, .transform = kAugment};
    options.threads = 0;
    const auto alone = take(options, 100);
    ASSERT_GE(alone.size(), 15U);
    for (const int ranks : {1, 2, 3, 4, 16}) {
      for (const int threads : {0, 1, 3}) {
        std::vector<Copy> joined(alone.size());
        for (int rank = 0; rank < ranks; ++rank) {
          options.rank = rank;
          options.ranks = ranks;
          options.threads = threads;
          const auto part = take(options, 100);
          ASSERT_EQ(part.size(), alone.size());
          for (std::size_t i = 0; i < part.size(); ++i) joined[i].append(part[i]);
        }
        EXPECT_EQ(joined, alone) << ranks << " ranks, " << threads << " threads";
      }
    }
  }
}

TEST(Loader, BringsImagesWithTheirLabels) {
  Loader loader(make_store(20), {.batch = 6, .shuffle = true});
  EXPECT_EQ(loader.fields()[0].type, FieldType::float32);
  EXPECT_EQ(loader.fields()[0].shape, (std::vector<std::int64_t>{2, 6, 5}));
  for (int i = 0; i < 10; ++i) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->size(), 6);
    for (std::size_t s = 0; s < 6; ++s) {
      const std::int64_t record = batch->records()[s];
      EXPECT_EQ(batch->ints(1)[s], record);
      for (std::int64_t e = 0; e < 60; ++e) {
        ASSERT_EQ(batch->floats(0)[s * 60 + static_cast<std::size_t>(e)], static_cast<float>(element(record, e)));
      }
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->floats(0).data()) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->ints(1).data()) % 64, 0U);
    EXPECT_THROW((void)batch->ints(0), InvalidArgument);
    EXPECT_THROW((void)batch->floats(2), InvalidArgument);
  }
}

TEST(Loader, WithoutATransformBringsWhatIsStored) {
  Loader loader(make_store(20), {.batch = 2, .transformed = ""});
  const auto batch = loader.next();
  EXPECT_EQ(loader.fields()[0].type, FieldType::uint8);
  EXPECT_EQ(static_cast<int>(batch->bytes(0)[61]), element(1, 1));
}

std::vector<std::int64_t> records_of(const std::vector<Copy>& batches) {
  std::vector<std::int64_t> all;
  for (const Copy& batch : batches) all.insert(all.end(), batch.records.begin(), batch.records.end());
  return all;
}

TEST(Loader, EveryEpochHasEveryRecordOnceInAnotherOrder) {
  const auto all = records_of(take({.batch = 10, .shuffle = true, .seed = 4, .epochs = 3}, 100));
  ASSERT_EQ(all.size(), 159U);
  std::set<std::vector<std::int64_t>> orders;
  for (std::ptrdiff_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::int64_t> order(all.begin() + epoch * 53, all.begin() + (epoch + 1) * 53);
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 53U);
    EXPECT_FALSE(std::ranges::is_sorted(order));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3U);
  EXPECT_NE(records_of(take({.batch = 53, .shuffle = true, .seed = 5}, 1)),
            records_of(take({.batch = 53, .shuffle = true, .seed = 4}, 1)));
}

TEST(Loader, ShufflesUniformly) {
  // Counts how often record r comes first over many seeds.
  std::vector<int> first(8);
  for (std::uint64_t seed = 0; seed < 1600; ++seed) {
    LoaderOptions options{.batch = 1, .shuffle = true, .seed = seed, .threads = 0};
    ++first[static_cast<std::size_t>(take(options, 1, 8)[0].records[0])];
  }
  for (const int count : first) EXPECT_NEAR(count, 200, 60);
}

TEST(Loader, EndsItsEpochsAsRequested) {
  const auto sizes = [](LastBatch last) {
    std::vector<std::int64_t> result;
    for (const Copy& batch : take({.batch = 4, .epochs = 2, .last = last}, 100, 10)) {
      result.push_back(static_cast<std::int64_t>(batch.records.size()));
    }
    return result;
  };
  EXPECT_EQ(sizes(LastBatch::wrap), (std::vector<std::int64_t>{4, 4, 4, 4, 4}));
  EXPECT_EQ(sizes(LastBatch::shorter), (std::vector<std::int64_t>{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(sizes(LastBatch::drop), (std::vector<std::int64_t>{4, 4, 4, 4}));
  const auto big = take({.batch = 7, .epochs = 5}, 100, 3);
  ASSERT_EQ(big.size(), 3U);
  EXPECT_EQ(big[0].records, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(big[2].records.size(), 1U);
  Loader loader(make_store(10), {.batch = 4, .epochs = 1, .last = LastBatch::shorter});
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  EXPECT_EQ(take(loader, 9).size(), 3U);
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Loader, ContinuesBitIdenticallyFromAnyPosition) {
  for (const LastBatch last : {LastBatch::wrap, LastBatch::shorter, LastBatch::drop}) {
    LoaderOptions options{.batch = 9, .shuffle = true, .seed = 2, .epochs = 3, .last = last, .transform = kAugment};
    const auto all = take(options, 100);
    for (std::size_t stop = 0; stop <= all.size(); ++stop) {
      Loader first(make_store(53), options);
      (void)take(first, stop);
      const LoaderPosition position = first.position();
      options.threads = 2;
      Loader second(make_store(53), options);
      (void)take(second, 2);
      second.restore(position);
      EXPECT_EQ(second.position(), position);
      EXPECT_EQ(take(second, 100), std::vector<Copy>(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
    }
  }
}

TEST(Loader, MayGoOnWithAnotherBatchAndOtherRanks) {
  const auto all = records_of(take({.batch = 10, .shuffle = true, .epochs = 2}, 100));
  Loader first(make_store(53), {.batch = 10, .shuffle = true, .epochs = 2});
  (void)take(first, 3);
  std::vector<Copy> parts[2];
  for (int rank = 0; rank < 2; ++rank) {
    Loader loader(make_store(53), {.batch = 7, .shuffle = true, .epochs = 2, .rank = rank, .ranks = 2});
    loader.restore(first.position());
    parts[rank] = take(loader, 100);
  }
  std::vector<std::int64_t> rest;
  for (std::size_t i = 0; i < parts[0].size(); ++i) {
    Copy joined = parts[0][i];
    joined.append(parts[1][i]);
    rest.insert(rest.end(), joined.records.begin(), joined.records.end());
  }
  EXPECT_EQ(rest, std::vector<std::int64_t>(all.begin() + 30, all.end()));
}

TEST(Loader, RefusesAPositionThatIsNotIts) {
  Loader loader(make_store(53), {.seed = 3});
  LoaderPosition position = loader.position();
  position.seed = 4;
  expect_error<InvalidArgument>([&] { loader.restore(position); }, {"seed 4", "the seed is 3"});
  position = loader.position();
  position.records = 60;
  expect_error<InvalidArgument>([&] { loader.restore(position); }, {"60 records", "53 records"});
  position = loader.position();
  position.offset = 54;
  expect_error<InvalidArgument>([&] { loader.restore(position); }, {"offset 54"});
  const auto batch = loader.next();
  expect_error<StateError>([&] { loader.restore(loader.position()); }, {"still holds a batch"});
}

/// A store that fails at one record, and whose reads the test can block.
class Faulty final : public Store {
 public:
  Faulty() : Store("faulty.bin", 100, {{.name = "data", .type = FieldType::uint8, .shape = {1, 1, 1}}}) {}
  std::latch* gate = nullptr;

 private:
  void fetch(std::size_t, std::span<const std::int64_t> records, const Window*, std::byte* out) const override {
    if (gate != nullptr) gate->wait();
    for (const std::int64_t record : records) {
      if (record == 37) throw FileError("faulty.bin: record 37: is damaged");
      *out++ = std::byte{1};
    }
  }
};

TEST(Loader, AThreadsErrorIsRaisedInOrderAndStays) {
  for (const int threads : {0, 1, 3}) {
    Loader loader(std::make_shared<Faulty>(), {.batch = 10, .epochs = 1, .threads = threads});
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next());
    for (int i = 0; i < 2; ++i) {
      expect_error<FileError>([&] { (void)loader.next(); }, {"faulty.bin", "record 37"});
    }
    EXPECT_EQ(loader.position().offset, 30);
    LoaderPosition after = loader.position();
    after.offset = 40;
    loader.restore(after);
    int rest = 0;
    while (loader.next()) ++rest;
    EXPECT_EQ(rest, 6);
  }
}

TEST(Loader, DoesNotWaitForEver) {
  const auto store = std::make_shared<Faulty>();
  std::latch gate(1);
  store->gate = &gate;
  Loader loader(store, {.batch = 10, .timeout = 0.05});
  expect_error<TimeoutError>([&] { (void)loader.next(); }, {"0.05 s", "faulty.bin", "a thread is still reading"});
  gate.count_down();
  // The thread may need longer than that to run. If so, the next call waits again.
  EXPECT_TRUE(eventually([&] {
    try {
      return static_cast<bool>(loader.next());
    } catch (const TimeoutError&) {
      return false;
    }
  }));
}

TEST(Loader, ReportsThatTheCallerHoldsAllBuffers) {
  for (const int threads : {0, 2}) {
    Loader loader(make_store(53), {.batch = 5, .threads = threads, .depth = 2});
    auto first = loader.next();
    auto second = loader.next();
    expect_error<StateError>([&] { (void)loader.next(); }, {"all 2 batches"});
    const Copy before = copy_of(*second);
    first.reset();
    const auto third = loader.next();
    EXPECT_EQ(third->records()[0], 10);
    EXPECT_EQ(copy_of(*second), before);
  }
}

TEST(Loader, LetsOneBatchBeHeldWhileOthersPass) {
  for (const int threads : {0, 1, 3}) {
    Loader loader(make_store(53), {.batch = 5, .shuffle = true, .threads = threads, .depth = 3});
    const auto held = loader.next();
    const Copy before = copy_of(*held);
    const auto rest = take(loader, 40);
    ASSERT_EQ(rest.size(), 40U);
    EXPECT_EQ(copy_of(*held), before);
    auto expected = take({.batch = 5, .shuffle = true, .threads = 0}, 41);
    expected.erase(expected.begin());
    EXPECT_EQ(rest, expected);
  }
}

TEST(Loader, StopsAtAnyTime) {
  for (int i = 0; i < 60; ++i) {
    Loader loader(make_store(500), {.batch = 7, .shuffle = true, .threads = 1 + i % 4, .depth = 1 + i % 5});
    for (int n = 0; n < i % 6; ++n) ASSERT_TRUE(loader.next());
  }
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto refuses = [](const LoaderOptions& options, const std::vector<std::string>& words) {
    expect_error<InvalidArgument>([&] { Loader loader(make_store(53), options); }, words);
  };
  refuses({.batch = 0}, {"batch", "received 0"});
  refuses({.epochs = -1}, {"epochs"});
  refuses({.rank = 2, .ranks = 2}, {"rank 2 of 2"});
  refuses({.ranks = 0}, {"rank 0 of 0"});
  refuses({.threads = -1}, {"threads"});
  refuses({.depth = 0}, {"depth"});
  refuses({.timeout = 0}, {"timeout"});
  refuses({.batch = 54, .last = LastBatch::drop}, {"expected at least one whole batch", "54", "53 records"});
  refuses({.transformed = "image"}, {"unknown field \"image\"; known: data, label"});
  expect_error<InvalidArgument>([] { Loader loader(nullptr, {}); }, {"expected a store"});
}

}  // namespace
