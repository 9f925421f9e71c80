// Fuzz targets that need neither nets nor jobs.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include <fmt/format.h>

#include "core/option_list.h"
#include "data/pickle.h"
#include "data/picture.h"
#include "data/record.h"
#include "engine/frame.h"
#include "engine/hooks.h"
#include "file/checksum.h"
#include "file/json_text.h"
#include "file/saved_set.h"
#include "pleiad/data.h"
#include "pleiad/error.h"
#include "pleiad/records.h"
#include "tests/fuzz/request_target.h"
#include "tests/fuzz/target.h"

namespace pleiad::fuzz {

namespace {

void touch(Input bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);
  [[maybe_unused]] static volatile unsigned kept;
  kept = sum;
}

void run_safetensors(Input input) {
  // A copy of exactly its size on the heap, so that the address sanitizer reports any access beyond it.
  const std::vector<std::byte> memory(input.begin(), input.end());
  expect_contract("x.safetensors", [&] {
    const Safetensors file(memory, "x.safetensors");
    for (const ArrayEntry& array : file.arrays()) touch(array.bytes);
  });
}

/// A manifest of a saved set with a correct checksum, for a set whose one part exists.
void run_manifest(Input input) {
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "fuzz.XXXXXX").string();
    const std::filesystem::path path = ::mkdtemp(name.data());
    const std::vector<float> values(12, 1);
    const std::vector<PieceToWrite> pieces = {{"w",
                                               element_type(DType::float32),
                                               {4, 3},
                                               Box::whole(std::vector<std::int64_t>{4, 3}),
                                               std::as_bytes(std::span(values))}};
    (void)write_part(path, "s", 0, pieces);
    return path;
  }();
  static const struct Remover {
    ~Remover() { std::filesystem::remove_all(folder); }
  } remover;
  const nlohmann::json body = nlohmann::json::parse(text_of(input), nullptr, false);
  std::string text(text_of(input));
  if (!body.is_discarded()) {
    try {
      text = body.dump();
    } catch (const nlohmann::json::exception&) {
      return;
    }
    text = fmt::format("{{\"crc32c\": \"{:08x}\", \"manifest\": {}}}", crc32c(std::as_bytes(std::span(text))), text);
  }
  const std::string where = (folder / Manifest::kFile).string();
  std::FILE* const file = std::fopen(where.c_str(), "w");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  expect_contract(folder.string(), [&] {
    const SavedSet set(folder);
    for (const std::string& name : set.names()) {
      const auto& array = set.at(name);
      const auto bytes = array_bytes(array.type, array.shape);
      if (!bytes || *bytes > 4096) continue;
      std::vector<std::byte> out(static_cast<std::size_t>(*bytes));
      set.read(name, out);
    }
  });
}

void run_part_entry(Input input) {
  expect_contract("part.entry", [&] { (void)PartEntry::from_text(text_of(input), "part.entry"); });
}

void run_json(Input input) {
  expect_contract("x.json", [&] { (void)parse_json(text_of(input), "x.json", 8); });
}

void run_pickle(Input input) {
  const std::vector<std::byte> memory(input.begin(), input.end());
  expect_contract("x.pkl", [&] {
    data::Pickle pickle(memory, "x.pkl");
    touch(pickle.bytes_of(pickle.root()));
    for (const data::PickleValue* item : pickle.root().items) touch(pickle.bytes_of(*item));
  });
}

/// Reads the first records and the last one.
void read_store(const StoreOptions& options) {
  constexpr std::size_t kLongestRecord = 1 << 20;
  expect_contract(options.paths.back(), [&] {
    const auto store = open_store(options);
    std::vector<std::int64_t> records;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(store->size(), 3); ++i) records.push_back(i);
    if (store->size() > 3) records.push_back(store->size() - 1);
    for (std::size_t field = 0; field < store->fields().size(); ++field) {
      const std::size_t bytes = store->fields()[field].bytes();
      if (bytes > kLongestRecord) continue;
      std::vector<std::byte> out(bytes * records.size());
      store->read(field, records, out);
      touch(out);
    }
  });
}

void run_idx(Input input) {
  static const std::array<std::byte, 10> images = {std::byte{0}, std::byte{0}, std::byte{8}, std::byte{1},
                                                   std::byte{0}, std::byte{0}, std::byte{0}, std::byte{2}};
  read_store({.kind = "idx", .paths = {file_of(input)}});
  read_store({.kind = "idx", .paths = {file_of(images, 1), file_of(input)}});
}

void run_cifar10(Input input) { read_store({.kind = "cifar10", .paths = {file_of(input)}}); }
void run_cifar10_python(Input input) { read_store({.kind = "cifar10_python", .paths = {file_of(input)}}); }

void run_csv(Input input) {
  const std::string path = file_of(input);
  read_store({.kind = "csv", .paths = {path}});
  read_store({.kind = "csv", .paths = {path}, .shape = {2}, .label = false, .header = true});
}

void run_textfile(Input input) {
  const std::string path = file_of(input);
  read_store({.kind = "textfile", .paths = {path}, .separator = ' '});
  expect_contract(path, [&] {
    const auto pairs = open_pairs("textfile", path);
    for (std::int64_t i = 0; i < pairs->size(); ++i) touch(pairs->value(i));
  });
}

void run_libsvm(Input input) {
  const std::string path = file_of(input);
  read_store({.kind = "libsvm", .paths = {path}});
  read_store({.kind = "libsvm", .paths = {path}, .sparse = true});
}

void run_kvfile(Input input) {
  const std::string path = file_of(input);
  read_store({.kind = "kvfile", .paths = {path}});
  read_store({.kind = "kvfile", .paths = {path}, .shape = {1, 2, 2}, .encoded = true});
  expect_contract(path, [&] { (void)read_mean(path); });
}

void run_lmdb(Input input) { read_store({.kind = "lmdb", .paths = {file_of(input)}}); }

void run_record(Input input) {
  const std::vector<std::byte> memory(input.begin(), input.end());
  data::RecordView view;
  if (data::parse(memory, view).empty()) {
    touch(view.pixel);
    touch(view.floats);
  }
  expect_contract("x.bin", [&] { (void)encode_record(parse_record(memory, "x.bin")); });
}

void run_picture(Input input) {
  const std::vector<std::byte> memory(input.begin(), input.end());
  expect_contract("x.png", [&] {
    for (const std::int64_t channels : {0, 1, 3}) {
      const data::Picture picture = data::decode_picture(memory, channels, "x.png");
      (void)data::scaled(picture, 3, 5);
    }
  });
}

void run_options(Input input) {
  const std::string_view text = text_of(input);
  expect_contract("", [&] {
    TableOptions table;
    set_options(table, text);
  });
  expect_contract("", [&] {
    SessionOptions session;
    set_options(session, text);
    check(session);
  });
  expect_contract("", [&] { (void)Fault::parse(text); });
}

void run_frame(Input input) {
  const std::vector<char> memory(text_of(input).begin(), text_of(input).end());
  if (const auto frame = parse_frame(memory)) touch(std::as_bytes(frame->body));
}

constexpr Target kTargets[] = {
    {"safetensors", run_safetensors, 2048},
    {"manifest", run_manifest, 4096},
    {"part_entry", run_part_entry, 2048},
    {"json", run_json, 1024},
    {"pickle", run_pickle, 1024},
    {"idx", run_idx, 512},
    {"cifar10", run_cifar10, 8192},
    {"cifar10_python", run_cifar10_python, 4096},
    {"csv", run_csv, 512},
    {"textfile", run_textfile, 512},
    {"libsvm", run_libsvm, 512},
    {"kvfile", run_kvfile, 512},
    {"lmdb", run_lmdb, 20480},
    {"record", run_record, 512},
    {"picture", run_picture, 2048},
    {"options", run_options, 256},
    {"frame", run_frame, 256},
    {"request", run_request, 512},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace pleiad::fuzz
