#include "file/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/file/folder.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

/// Returns a safetensors file with this header.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string text(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(text.data(), &size, 8);
  return text + header + data;
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const Folder folder;
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::vector<double> doubles = {-1, 0.5};
  const std::vector<std::int32_t> ints = {7};
  const std::vector<std::int64_t> longs = {1LL << 40, -5, 3};
  const std::vector<std::uint8_t> halves = {1, 2, 3, 4, 5, 6};
  const std::vector<ArrayToWrite> arrays = {
      {"halves", element_type("BF16", ""), {3}, bytes_of(halves)},
      {"floats", element_type(DType::float32), {2, 3}, bytes_of(floats)},
      {"doubles", element_type(DType::float64), {2}, bytes_of(doubles)},
      {"ints \"quoted\" \xC3\xA4", element_type(DType::int32), {}, bytes_of(ints)},
      {"longs", element_type(DType::int64), {3, 1}, bytes_of(longs)},
      {"empty", element_type(DType::float64), {4, 0}, {}},
  };
  const WrittenFile written = write_safetensors(folder / "a", arrays, {{"step", "12"}});
  const Safetensors file(folder / "a");
  EXPECT_EQ(written.bytes, static_cast<std::int64_t>(std::filesystem::file_size(folder / "a")));
  EXPECT_EQ(file.metadata(), (Metadata{{"step", "12"}}));
  EXPECT_EQ(file.arrays().size(), arrays.size());
  for (const ArrayToWrite& array : arrays) {
    const ArrayEntry& entry = file.at(array.name);
    EXPECT_EQ(entry.type.name, array.type.name);
    EXPECT_EQ(entry.shape, array.shape);
    EXPECT_TRUE(std::ranges::equal(entry.bytes, array.bytes)) << array.name;
    const auto size = static_cast<std::uintptr_t>(array.type.bits / 8);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % size, 0U) << array.name;
  }
  const ConstView view = file.view("floats");
  EXPECT_EQ(view.count, 6);
  EXPECT_EQ(static_cast<const float*>(view.data)[5], 6);
  EXPECT_EQ(file.view("ints \"quoted\" \xC3\xA4").dtype, DType::int32);
  EXPECT_FALSE(file.has("nothing"));
  expect_error<FileError>([&] { (void)file.at("flaots"); }, {(folder / "a").string(), "did you mean \"floats\""});
  expect_error<FileError>([&] { (void)file.view("halves"); }, {"\"halves\" has the element type BF16", "expected F32"});
}

TEST(Safetensors, HoldsNoArraysToo) {
  const Folder folder;
  write_safetensors(folder / "a", {});
  EXPECT_TRUE(Safetensors(folder / "a").arrays().empty());
}

TEST(Safetensors, RefusesToWriteWhatDoesNotFit) {
  const Folder folder;
  const std::vector<float> floats(6);
  const auto write = [&](const std::vector<ArrayToWrite>& arrays, const Metadata& metadata = {}) {
    write_safetensors(folder / "a", arrays, metadata);
  };
  const ElementType f32 = element_type(DType::float32);
  expect_error<InvalidArgument>([&] { write({{"w", f32, {2, 4}, bytes_of(floats)}}); },
                                {"\"w\"", "[2, 4]", "32 bytes", "received 24"});
  expect_error<InvalidArgument>([&] { write({{"w", f32, {6}, bytes_of(floats)}, {"w", f32, {6}, bytes_of(floats)}}); },
                                {"\"w\"", "twice"});
  expect_error<InvalidArgument>([&] { write({{"__metadata__", f32, {6}, bytes_of(floats)}}); },
                                {"reserved by the format"});
  expect_error<InvalidArgument>([&] { write({{"\xFF", f32, {6}, bytes_of(floats)}}); }, {"UTF-8"});
  expect_error<InvalidArgument>([&] { write({}, {{"a", "\xFF"}}); }, {"UTF-8"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, AViewAsksForAlignmentABytesDoNot) {
  const Folder folder;
  // The header is one byte too long, so the floats are not aligned.
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(65, ' ');
  spit(folder / "a", file_of(header, "abcd"));
  const Safetensors file(folder / "a");
  EXPECT_EQ(file.at("w").bytes.size(), 4U);
  expect_error<FileError>([&] { (void)file.view("w"); }, {(folder / "a").string(), "\"w\"", "aligned to 4"});
}

struct Bad {
  const char* name;
  std::string content;
  std::vector<std::string> words;
};

std::vector<Bad> bad_files() {
  const auto array = [](const std::string& entry) { return R"({"w":)" + entry + "}"; };
  const auto one = [&](const std::string& type, const std::string& shape, const std::string& offsets) {
    return array(R"({"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}");
  };
  const std::string entry = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  return {
      {"Empty", "", {"at least 8 bytes", "received 0"}},
      {"ShortSize", "abc", {"at least 8 bytes", "received 3"}},
      {"HugeHeader", std::string(8, '\xFF') + "{}", {"at most 10,000,000"}},
      {"HeaderAboveTheLimit",
       file_of("{}" + std::string(9'999'999, ' ')),
       {"its header has 10000001 bytes", "at most 10,000,000"}},
      {"TruncatedHeader", file_of("{}   ").substr(0, 10), {"truncated", "5 bytes", "only 2 follow"}},
      {"NoObject", file_of("[]"), {"not a JSON object"}},
      {"Garbage", file_of("{garbage"), {"not valid JSON", "at byte"}},
      {"HalfObject", file_of(R"({"w":)"), {"not valid JSON"}},
      {"TwoObjects", file_of("{}{}"), {"not valid JSON"}},
      {"NotUtf8", file_of("{\"\xFF\":1}"), {"not valid JSON"}},
      {"KeyTwice", file_of(R"({"w":)" + entry + R"(,"w":)" + entry + "}", "abcd"), {"\"w\" twice"}},
      {"FieldTwice",
       file_of(array(R"({"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]})"), "abcd"),
       {"\"dtype\" twice"}},
      {"Deep", file_of(array(std::string(100000, '[') + std::string(100000, ']'))), {"levels deep"}},
      {"EntryIsNumber", file_of(array("3")), {"array \"w\"", "expected an object"}},
      {"NoType", file_of(array(R"({"shape":[4],"data_offsets":[0,4]})"), "abcd"), {"array \"w\"", "no \"dtype\""}},
      {"UnknownType", file_of(one(R"("F31")", "[1]", "[0,4]"), "abcd"), {"array \"w\"", "F31", "did you mean"}},
      {"TypeIsNumber", file_of(one("3", "[1]", "[0,4]"), "abcd"), {"array \"w\"", "expected a string"}},
      {"ShapeIsText", file_of(one(R"("U8")", R"("4")", "[0,4]"), "abcd"), {"shape", "expected a list"}},
      {"NegativeExtent", file_of(one(R"("U8")", "[-4]", "[0,4]"), "abcd"), {"whole number", "received -4"}},
      {"FractionalExtent", file_of(one(R"("U8")", "[4.0]", "[0,4]"), "abcd"), {"whole number"}},
      {"HugeExtent", file_of(one(R"("U8")", "[18446744073709551616]", "[0,4]"), "abcd"), {"whole number"}},
      {"OverflowingShape",
       file_of(one(R"("U8")", "[4294967296,4294967296,4]", "[0,4]"), "abcd"),
       {"does not have a valid size"}},
      {"OverflowBesideZero",
       file_of(one(R"("U8")", "[4294967296,4294967296,4,0]", "[0,0]")),
       {"does not have a valid size"}},
      {"HalfAByte", file_of(one(R"("F4")", "[3]", "[0,2]"), "ab"), {"does not have a valid size in bytes"}},
      {"ShapeAndBytesDiffer", file_of(one(R"("F32")", "[2]", "[0,4]"), "abcd"), {"needs 8 bytes", "give 4"}},
      {"OneOffset", file_of(one(R"("U8")", "[4]", "[4]"), "abcd"), {"two numbers"}},
      {"Backwards", file_of(one(R"("U8")", "[4]", "[4,0]"), "abcd"), {"begins at 4 and ends at 0"}},
      {"TruncatedData", file_of(one(R"("U8")", "[4]", "[0,4]"), "abc"), {"array \"w\"", "truncated", "has 3 bytes"}},
      {"BytesLeft", file_of(one(R"("U8")", "[4]", "[0,4]"), "abcde"), {"1 bytes at the end"}},
      {"Gap", file_of(one(R"("U8")", "[4]", "[1,5]"), "abcde"), {"array \"w\"", "is separated from"}},
      {"Overlap",
       file_of(R"({"v":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},"w":)" + entry + "}", "abcde"),
       {"array \"v\"", "overlaps", "by 2 bytes"}},
      {"MetadataIsList", file_of(R"({"__metadata__":[]})"), {"__metadata__", "expected an object"}},
      {"MetadataIsNumber", file_of(R"({"__metadata__":{"step":3}})"), {"__metadata__", "step", "expected a string"}},
  };
}

class BadSafetensors : public testing::TestWithParam<Bad> {};

TEST_P(BadSafetensors, IsRefusedWithTheFilesName) {
  const Folder folder;
  const auto path = folder / "bad.safetensors";
  spit(path, GetParam().content);
  auto words = GetParam().words;
  words.push_back(path);
  expect_error<FileError>([&] { Safetensors file(path); }, words);
}

INSTANTIATE_TEST_SUITE_P(Every, BadSafetensors, testing::ValuesIn(bad_files()),
                         [](const auto& bad) { return bad.param.name; });

TEST(Safetensors, NamesTheReasonWhyAFileCannotBeOpened) {
  const Folder folder;
  expect_error<FileError>([&] { Safetensors file(folder / "none"); }, {(folder / "none").string(), "No such file"});
  expect_error<FileError>([&] { Safetensors file(folder.path()); }, {folder.path().string(), "it is a folder"});
  expect_error<FileError>([&] { Safetensors file("/dev/null"); }, {"/dev/null", "not a regular file"});
}

}  // namespace
