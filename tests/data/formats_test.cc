// Details of LIBSVM's text, LMDB, HDF5, pickles and images.
#include <gtest/gtest.h>
#include <turbojpeg.h>

#include "data/pickle.h"
#include "data/picture.h"
#include "pleiad/records.h"
#include "tests/data/stores.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

TEST(Libsvm, IsDenseOrSparse) {
  const Folder folder;
  const std::string path = folder / "a.svm";
  spit(path, "+1 2:0.5 5:-3e1\n-1\n0 1:2\n");
  const auto dense = open_store({.kind = "libsvm", .paths = {path}});
  EXPECT_EQ(dense->fields()[0].shape, std::vector<std::int64_t>{5});
  EXPECT_EQ(numbers(*dense, 0, {0, 2}), (std::vector<double>{0, 0.5, 0, 0, -30, 2, 0, 0, 0, 0}));
  EXPECT_EQ(numbers(*dense, 1, {0, 1, 2}), (std::vector<double>{1, -1, 0}));
  const auto sparse = open_store({.kind = "libsvm", .paths = {path}, .sparse = true});
  ASSERT_EQ(sparse->fields().size(), 3U);
  EXPECT_EQ(numbers(*sparse, sparse->field("index"), {0, 1, 2}), (std::vector<double>{1, 4, -1, -1, 0, -1}));
  EXPECT_EQ(numbers(*sparse, sparse->field("value"), {0, 1, 2}), (std::vector<double>{0.5, -30, 0, 0, 2, 0}));
  EXPECT_EQ(numbers(*sparse, sparse->field("label"), {1}), std::vector<double>{-1});
}

TEST(Libsvm, NamesLineAndRecord) {
  const Folder folder;
  const std::string path = folder / "a.svm";
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& words, StoreOptions options = {}) {
    options.kind = "libsvm";
    options.paths = {path};
    spit(path, text);
    expect_error<FileError>([&] { (void)open_store(options); }, words);
  };
  refuses("1 1:2\n\nx 1:2\n", {path + ":3: record 1", "label", "\"x\""});
  refuses("1 1:2 3\n", {":1: record 0", "index:number", "\"3\""});
  refuses("1 2:2 2:3\n", {"above 2", "received 2"});
  refuses("1 0:2\n", {"above 0", "received 0"});
  refuses("1 1:nan\n", {"\"1:nan\""});
  refuses("3 1:1\n", {"label 3", "0 to 1"}, {.kind = {}, .paths = {}, .classes = 2});
  refuses("1 9:1\n", {path, "[2, 2]", "largest index is 9"}, {.kind = {}, .paths = {}, .shape = {2, 2}});
  refuses("1 100000000:1\n", {path, "sparse"});
  refuses("# nothing\n", {path, "no records"});
}

TEST(Lmdb, ErrorsNameTheProblem) {
  const Folder folder;
  const std::string path = folder / "data.mdb";
  spit(path, std::string(9000, 'x'));
  expect_error<FileError>([&] { (void)open_pairs("lmdb", path); }, {path, "not an LMDB file"});
  const auto out = create_pairs("lmdb", folder / "set");
  out->put("a", "1");
  expect_error<InvalidArgument>([&] { out->put("", "2"); }, {"expected a key of 1 to 511 bytes"});
  out->put("a", "2");
  expect_error<InvalidArgument>([&] { out->commit(); }, {"\"a\" twice"});
}

TEST(Lmdb, HoldsMoreThanItsFirstMap) {
  const Folder folder;
  const std::string value(std::size_t{8} << 20, 'v');
  const auto out = create_pairs("lmdb", folder / "set");
  for (int i = 0; i < 40; ++i) out->put(std::to_string(100 + i), value);  // 320 MB; the first memory map has 256 MB
  out->commit();
  const auto in = open_pairs("lmdb", folder / "set");
  ASSERT_EQ(in->size(), 40);
  EXPECT_EQ(in->value(39).size(), value.size());
  EXPECT_EQ(in->key(39), "139");
}

TEST(Hdf5, NamesWhatIsMissing) {
  const Folder folder;
  const std::string path = folder / "a.h5";
  const Field data{.name = "data", .type = FieldType::float64, .shape = {2}};
  const auto writer = create_store({.kind = "hdf5", .paths = {path}, .data = data, .label = false});
  const std::vector<double> record = {1.5, -2};
  writer->write(bytes_of(record));
  writer->commit();
  EXPECT_EQ(open_store({.kind = "hdf5", .paths = {path}})->fields().size(), 1U) << "labels need not be there";
  expect_error<FileError>([&] { (void)open_store({.kind = "hdf5", .paths = {path}, .datasets = {"x"}}); },
                          {path, "\"x\" does not exist"});
  expect_error<FileError>([&] { (void)open_store({.kind = "hdf5", .paths = {path}, .datasets = {"data", "y"}}); },
                          {path, "\"y\" does not exist"});
  expect_error<FileError>([&] { (void)open_store({.kind = "hdf5", .paths = {path}, .shape = {3}}); }, {path, "[3]"});
  spit(path, "nothing");
  expect_error<FileError>([&] { (void)open_store({.kind = "hdf5", .paths = {path}}); }, {path, "not an HDF5 file"});
}

TEST(Pickle, IsReadAndNeverRun) {
  // A pickle in which Python would run os.system("true") refers to an object by name.
  const std::string evil = "cos\nsystem\n(S'true'\ntR.";
  const data::Pickle pickle(std::as_bytes(std::span(evil)), "evil");
  ASSERT_EQ(pickle.root().kind, data::PickleValue::Kind::object);
  EXPECT_EQ(pickle.root().items[0]->text, "os system");
  const auto refuses = [](const std::string& text, const std::string& word) {
    expect_error<FileError>([&] { const data::Pickle broken(std::as_bytes(std::span(text)), "here"); }, {"here", word});
  };
  refuses("", "truncated");
  refuses("X\xFF\xFF\xFF\x7F", "truncated");
  refuses("t.", "mark");
  refuses("0.", "empty stack");
  refuses("h\x05.", "recalls 5");
  refuses("\x82\x01.", "0x82");  // the extension registry
  refuses("Ka}K\x01s.", "a dict to fill");
  refuses("cos\nsystem\n2\x93.", "a module and a name as texts");  // names of names would double in length
  refuses("c" + std::string(2000, 'm') + "\nname\n.", "at most 1024 characters; received 2004");
  using namespace std::string_literals;
  const std::string numbers = "\x80\x04(K\x07J\xFE\xFF\xFF\xFF\x8A\x02\x00\x01I-5\nG\x3F\xF8\0\0\0\0\0\0\x88t."s;
  const data::Pickle tuple(std::as_bytes(std::span(numbers)), "numbers");
  ASSERT_EQ(tuple.root().items.size(), 6U);
  EXPECT_EQ(tuple.root().items[0]->integer, 7);
  EXPECT_EQ(tuple.root().items[1]->integer, -2);
  EXPECT_EQ(tuple.root().items[2]->integer, 256);
  EXPECT_EQ(tuple.root().items[3]->integer, -5);
  EXPECT_EQ(tuple.root().items[4]->real, 1.5);
  EXPECT_EQ(tuple.root().items[5]->integer, 1);
}

std::string jpeg(int height, int width, bool colour) {
  std::vector<unsigned char> pixels(static_cast<std::size_t>(height * width * (colour ? 3 : 1)), 200);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  tjCompress2(encoder, pixels.data(), width, 0, height, colour ? TJPF_RGB : TJPF_GRAY, &out, &size,
              colour ? TJSAMP_444 : TJSAMP_GRAY, 90, 0);
  std::string file(reinterpret_cast<const char*>(out), size);
  tjFree(out);
  tjDestroy(encoder);
  return file;
}

TEST(Images, OfManySizesAreScaledToAShape) {
  const Folder folder;
  for (const char* name : {"cat", "dog"}) std::filesystem::create_directory(folder / name);
  spit(folder / "dog/a.jpg", jpeg(16, 24, true));
  spit(folder / "cat/b.JPEG", jpeg(9, 9, false));
  spit(folder / "cat/notes.txt", "not a picture");
  const auto store = open_store({.kind = "images", .paths = {folder.path()}, .shape = {3, 8, 8}});
  ASSERT_EQ(store->size(), 2);
  EXPECT_EQ(numbers(*store, 1, {0, 1}), (std::vector<double>{1, 0})) << "by the names of files, whatever their class";
  for (const double value : numbers(*store, 0, {0, 1})) EXPECT_NEAR(value, 200, 3);
  const auto plain = open_store({.kind = "images", .paths = {folder.path()}});
  EXPECT_EQ(plain->fields()[0].shape, (std::vector<std::int64_t>{3, 16, 24}));
  expect_error<FileError>([&] { (void)numbers(*plain, 0, {1}); }, {"b.JPEG", "record 1", "9 x 9", "16 x 24"});
  spit(folder / "dog/a.jpg", jpeg(16, 24, true).substr(0, 300));
  expect_error<FileError>([&] { (void)numbers(*store, 0, {0}); }, {"a.jpg", "record 0", "damaged JPEG"});
  expect_error<InvalidArgument>(
      [&] { (void)open_store({.kind = "images", .paths = {folder.path()}, .shape = {2, 8, 8}}); },
      {"[1 or 3, height, width]"});
  const auto alone = open_store({.kind = "images", .paths = {folder / "cat"}, .label = false});
  EXPECT_EQ(alone->fields().size(), 1U);
}

TEST(Pictures, AreScaledByWhatTheyCover) {
  data::Picture picture{.channels = 1, .height = 2, .width = 4, .pixels = {0, 0, 100, 100, 0, 0, 100, 100}};
  EXPECT_EQ(data::scaled(picture, 2, 4).pixels, picture.pixels);
  const data::Picture half = data::scaled(picture, 1, 2);
  EXPECT_LT(half.pixels[0], 25);
  EXPECT_GT(half.pixels[1], 75);
  EXPECT_EQ(half.pixels[0] + half.pixels[1], 100);
  const data::Picture twice = data::scaled(picture, 4, 8);
  EXPECT_TRUE(std::ranges::is_sorted(std::span(twice.pixels).first(8)));
}

}  // namespace
