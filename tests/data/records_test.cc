// Files of key-value pairs, and the records in them.
#include "pleiad/records.h"

#include <gtest/gtest.h>

#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

class PairKinds : public testing::TestWithParam<std::string> {};

TEST_P(PairKinds, GiveBackWhatWasPut) {
  const Folder folder;
  const std::string path = folder / "pairs";
  std::vector<std::pair<std::string, std::string>> put;
  for (int i = 0; i < 300; ++i) {
    put.emplace_back(
        std::to_string(1000 + i),
        i == 3 ? std::string() : std::string(static_cast<std::size_t>(i * 37 % 9000), static_cast<char>('a' + i % 26)));
  }
  const auto out = create_pairs(GetParam(), path);
  for (const auto& [key, value] : put) out->put(key, value);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is there before the commit";
  out->commit();
  const auto in = open_pairs(GetParam(), path);
  ASSERT_EQ(in->size(), 300);
  for (int i = 0; i < 300; ++i) {
    const auto value = in->value(i);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.data()), value.size()),
              put[static_cast<std::size_t>(i)].second);
    EXPECT_EQ(in->key(i), GetParam() == "textfile" ? std::to_string(i) : put[static_cast<std::size_t>(i)].first);
  }
}

TEST_P(PairKinds, LeaveWhatWasThereWithoutACommit) {
  const Folder folder;
  const std::string path = folder / "pairs";
  {
    const auto out = create_pairs(GetParam(), path);
    out->put("a", "first");
    out->commit();
  }
  {
    const auto out = create_pairs(GetParam(), path);
    out->put("a", "second");
  }
  const auto in = open_pairs(GetParam(), path);
  ASSERT_EQ(in->size(), 1);
  EXPECT_EQ(in->value(0).size(), 5U);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"pairs"}) << "nothing else is left";
  {
    const auto out = create_pairs(GetParam(), path);
    out->put("b", "another one");
    out->commit();
  }
  EXPECT_EQ(open_pairs(GetParam(), path)->value(0).size(), 11U);
}

INSTANTIATE_TEST_SUITE_P(Kind, PairKinds, testing::ValuesIn(pair_kinds()),
                         [](const auto& instance) { return instance.param; });

TEST(Pairs, NameWhatIsWrong) {
  const Folder folder;
  expect_error<InvalidArgument>([] { (void)open_pairs("kvfiel", "a"); }, {"kvfiel", "did you mean \"kvfile\""});
  const std::string good = pair("00", record(0, true)) + pair("01", record(1, true));
  const auto path = folder / "a.bin";
  spit(path, good.substr(0, good.size() - 3));
  expect_error<FileError>([&] { (void)open_pairs("kvfile", path); }, {path, "record 1", "value should have"});
  spit(path, good + "xyz");
  expect_error<FileError>([&] { (void)open_pairs("kvfile", path); },
                          {path, "record 2", "length of its key is truncated"});
  std::filesystem::create_directory(folder / "set");
  spit(folder / "set/shard.dat", good);
  EXPECT_EQ(open_pairs("kvfile", folder / "set")->size(), 2) << "a folder means its shard.dat";
  expect_error<InvalidArgument>([&] { create_pairs("textfile", folder / "b")->put("", "two\nlines"); }, {"one line"});
}

TEST(Records, AreReadAsProtocolBuffersWritesThem) {
  // A packed shape, label -1, an unknown field, and floats in two parts: one packed, one not.
  const std::string message = std::string("\x0A\x02\x02\x01", 4) + "\x10" + std::string(9, '\xFF') + "\x01" +
                              "\x7A\x03" + "xyz" + std::string("\x22\x04\x00\x00\x80\x3F", 6) +
                              std::string("\x25\x00\x00\x00\x40", 5);
  const Record record = parse_record(bytes(message), "here");
  EXPECT_EQ(record.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(record.label, -1);
  EXPECT_EQ(record.data, (std::vector<float>{1, 2}));
  const Record again = parse_record(bytes(encode_record(record)), "here");
  EXPECT_EQ(again.shape, record.shape);
  EXPECT_EQ(again.label, -1);
  EXPECT_EQ(again.data, record.data);
  EXPECT_EQ(encode_record({.shape = {300}, .label = 7, .pixel = "ab"}), std::string("\x08\xAC\x02\x10\x07\x1A\x02"
                                                                                    "ab"));
}

TEST(Records, OfCaffeAreReadToo) {
  // channels 1, height 2, width 3, six bytes, label 4
  const std::string datum = std::string(
      "\x08\x01\x10\x02\x18\x03\x22\x06"
      "abcdef"
      "\x28\x04");
  const Record record = parse_record(bytes(datum), "here");
  EXPECT_EQ(record.shape, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(record.label, 4);
  EXPECT_EQ(record.pixel, "abcdef");
  EXPECT_TRUE(record.data.empty());
  expect_error<FileError>([&] { (void)parse_record(bytes(datum + "\x38\x01"), "here"); }, {"here", "compressed"});
}

TEST(Records, ErrorsNameTheProblem) {
  const Folder folder;
  const auto path = folder / "a.bin";
  const auto refuses = [&](const std::string& second, std::vector<std::string> words, StoreOptions options = {}) {
    spit(path, pair("k0", record(0, true)) + pair("k1", second));
    options.kind = "kvfile";
    options.paths = {path};
    words.push_back(path);
    words.push_back("record 1");
    expect_error<FileError>([&] { (void)numbers(*open_store(options), 0, {1}); }, words);
  };
  refuses("\x08", {"key \"k1\"", "truncated or damaged"});
  refuses(std::string("\x08\x00", 2), {"extent of 0"});
  refuses(record(1, false), {"24 bytes of pixels", "received 0"});
  refuses(record(1, true).substr(0, 6) + record(1, true).substr(8), {"no label"});
  refuses(record(1, true), {"label 3", "0 to 2"}, {.kind = {}, .paths = {}, .classes = 3});
  const auto first = [&](const std::string& value, const std::string& word, std::vector<std::int64_t> shape = {}) {
    spit(path, pair("k", value));
    expect_error<FileError>([&] { (void)open_store({.kind = "kvfile", .paths = {path}, .shape = shape}); },
                            {path, "record 0", word});
  };
  first("", "neither pixels nor floats");
  first(record(0, true), "shape is [5]", {5});
  spit(path, "");
  expect_error<FileError>([&] { (void)open_store({.kind = "kvfile", .paths = {path}}); }, {path, "no records"});
}

TEST(Records, WithoutChannelsHaveOne) {
  const Folder folder;
  spit(folder / "a", pair("0", encode_record({.shape = {2, 3}, .label = 1, .pixel = "abcdef"})));
  const auto store = open_store({.kind = "kvfile", .paths = {folder / "a"}});
  EXPECT_EQ(store->fields()[0].shape, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(open_store({.kind = "kvfile", .paths = {folder / "a"}, .label = false})->fields().size(), 1U);
}

TEST(Mean, IsARecordOfFloats) {
  const Folder folder;
  const std::string path = folder / "mean.bin";
  write_mean(path, {1, 2, 2}, {1, 2.5, 3, 4});
  const Record mean = read_mean(path);
  EXPECT_EQ(mean.shape, (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_EQ(mean.data, (std::vector<float>{1, 2.5, 3, 4}));
  EXPECT_EQ(open_pairs("kvfile", path)->key(0), "mean");
  spit(path, pair("mean", encode_record({.shape = {3}, .data = {1, 2}})));
  expect_error<FileError>([&] { (void)read_mean(path); }, {path, "[3]", "2 floats"});
  spit(path, pair("a", "") + pair("b", ""));
  expect_error<FileError>([&] { (void)read_mean(path); }, {path, "\"mean\""});
}

}  // namespace
