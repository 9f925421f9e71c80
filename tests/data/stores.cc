#include "tests/data/stores.h"

#include <zlib.h>

#include <cstring>

namespace pleiad::test {

std::string images(std::int64_t records, std::int64_t elements) {
  std::string text;
  for (std::int64_t r = 0; r < records; ++r) {
    for (std::int64_t i = 0; i < elements; ++i) text += static_cast<char>(element(r, i));
  }
  return text;
}

std::string labels(std::int64_t records) {
  std::string text;
  for (std::int64_t r = 0; r < records; ++r) text += static_cast<char>(label(r));
  return text;
}

std::string big_endian(std::uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xFF);
  return text;
}

std::string idx_header(const std::vector<std::uint32_t>& shape) {
  std::string text = {0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) text += big_endian(extent);
  return text;
}

std::string gzipped(const std::string& plain, const Folder& folder) {
  const auto path = folder / "for_gzip";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(file);
  std::string packed = slurp(path);
  std::filesystem::remove(path);
  return packed;
}

namespace {

StoreOptions write_idx(const Folder& folder, bool gzip) {
  std::string pictures = idx_header({kRecords, 5, 6}) + images(kRecords, 30);
  std::string classes = idx_header({kRecords}) + labels(kRecords);
  if (gzip) {
    pictures = gzipped(pictures, folder);
    classes = gzipped(classes, folder);
  }
  spit(folder / "images", pictures);
  spit(folder / "labels", classes);
  return {.kind = "idx", .paths = {folder / "images", folder / "labels"}, .classes = 10};
}

StoreOptions write_cifar10(const Folder& folder) {
  const auto file = [&](const std::string& name, std::int64_t first, std::int64_t last) {
    std::string text;
    for (std::int64_t r = first; r < last; ++r) {
      text += static_cast<char>(label(r));
      for (std::int64_t i = 0; i < 3072; ++i) text += static_cast<char>(element(r, i));
    }
    spit(folder / name, text);
  };
  file("a.bin", 0, 4);
  file("b.bin", 4, kRecords);
  return {.kind = "cifar10", .paths = {folder / "a.bin", folder / "b.bin"}};
}

StoreOptions write_csv(const Folder& folder) {
  std::string text = "label,and,its,pixels\r\n";
  for (std::int64_t r = 0; r < kRecords; ++r) {
    text += std::to_string(label(r));
    for (std::int64_t i = 0; i < 24; ++i) text += (i % 5 == 0 ? ", +" : ",") + std::to_string(element(r, i)) + ".0";
    text += r % 2 == 0 ? "\r\n" : "\n\n";
  }
  spit(folder / "a.csv", text);
  return {.kind = "csv", .paths = {folder / "a.csv"}, .classes = 10, .shape = {2, 3, 4}, .header = true};
}

}  // namespace

std::vector<StoreCase> store_cases() {
  return {
      {"Idx", [](const Folder& folder) { return write_idx(folder, false); }},
      {"IdxGzip", [](const Folder& folder) { return write_idx(folder, true); }},
      {"Cifar10", write_cifar10},
      {"Csv", write_csv},
  };
}

namespace {

std::vector<double> as_numbers(const std::vector<std::byte>& bytes, FieldType type) {
  std::vector<double> result;
  const auto take = [&]<class T>(T value) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      std::memcpy(&value, bytes.data() + at, sizeof value);
      result.push_back(static_cast<double>(value));
    }
  };
  if (type == FieldType::uint8) take(std::uint8_t{});
  if (type == FieldType::float32) take(float{});
  if (type == FieldType::int32) take(std::int32_t{});
  return result;
}

}  // namespace

std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records) {
  std::vector<std::byte> bytes(records.size() * store.fields()[field].bytes());
  store.read(field, records, bytes);
  return as_numbers(bytes, store.fields()[field].type);
}

std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records,
                            const Window& window) {
  const Field& wanted = store.fields()[field];
  std::vector<std::byte> bytes(records.size() * size_of(wanted.type) *
                               static_cast<std::size_t>(wanted.shape.at(0) * window.height * window.width));
  store.read_window(field, records, window, bytes);
  return as_numbers(bytes, wanted.type);
}

}  // namespace pleiad::test
