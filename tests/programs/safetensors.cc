// Reads and writes safetensors files, for comparison with the Python package.
//
//   safetensors list FILE           one line of JSON: metadata, and each array's type, shape and bytes in hexadecimal
//   safetensors copy FILE TO        writes the same arrays and metadata to TO
//   safetensors split FILE FOLDER N a saved set of N parts, each array split along its first dimension
#include "file/safetensors.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "file/saved_set.h"

namespace {

using namespace pleiad;

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    static constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

void list(const Safetensors& file) {
  nlohmann::json out = {{"metadata", file.metadata()}, {"arrays", nlohmann::json::object()}};
  for (const ArrayEntry& array : file.arrays()) {
    out["arrays"][array.name] = {
        {"dtype", array.type.name}, {"shape", array.shape}, {"bytes", hexadecimal(array.bytes)}};
  }
  std::puts(out.dump().c_str());
}

void copy(const Safetensors& file, const char* to) {
  std::vector<ArrayToWrite> arrays;
  for (const ArrayEntry& array : file.arrays()) {
    arrays.push_back({.name = array.name, .type = array.type, .shape = array.shape, .bytes = array.bytes});
  }
  write_safetensors(to, arrays, file.metadata());
}

void split(const Safetensors& file, const std::filesystem::path& folder, int n) {
  std::filesystem::create_directories(folder);
  Manifest manifest{.kind = "snapshot", .metadata = file.metadata(), .parts = {}};
  for (int rank = 0; rank < n; ++rank) {
    std::vector<PieceToWrite> pieces;
    for (const ArrayEntry& array : file.arrays()) {
      Box box = Box::whole(array.shape);
      const std::int64_t rows = array.shape.at(0);
      box.begin[0] = rows * rank / n;
      box.extent[0] = rows * (rank + 1) / n - box.begin[0];
      const std::size_t row = array.bytes.size() / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
      pieces.push_back({.array = array.name,
                        .type = array.type,
                        .shape = array.shape,
                        .box = box,
                        .bytes = array.bytes.subspan(static_cast<std::size_t>(box.begin[0]) * row,
                                                     static_cast<std::size_t>(box.extent[0]) * row)});
    }
    manifest.parts.push_back(write_part(folder, "part", rank, pieces, file.metadata()));
  }
  manifest.commit(folder);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::strcmp(argv[1], "list") == 0) {
      list(Safetensors(argv[2]));
    } else if (argc == 4 && std::strcmp(argv[1], "copy") == 0) {
      copy(Safetensors(argv[2]), argv[3]);
    } else if (argc == 5 && std::strcmp(argv[1], "split") == 0) {
      split(Safetensors(argv[2]), argv[3], std::stoi(argv[4]));
    } else {
      std::fputs("expected: list FILE, copy FILE TO, or split FILE FOLDER N\n", stderr);
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
