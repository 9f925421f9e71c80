// The program pleiad-hdf5 contains all code that uses the HDF5 library, in a separate process. A damaged file can crash
// the library; here the crash does not affect the caller. Programs that read no HDF5 files do not load the library.
//
//   pleiad-hdf5 read FILE DATA [LABEL]   writes a line of JSON to stdout, then the values that are not contiguous
//   pleiad-hdf5 write FILE               reads a line of JSON from stdin, then the values of each dataset
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using nlohmann::json;

/// Closes an object of the library on every exit.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw std::runtime_error(what);
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }  // NOLINT: it stands for the number

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

struct Type {
  const char* name;
  hid_t memory;
  std::size_t bytes;
};

Type type_named(const std::string& name) {
  static const Type kTypes[] = {{"uint8", H5T_NATIVE_UINT8, 1},
                                {"float32", H5T_NATIVE_FLOAT, 4},
                                {"float64", H5T_NATIVE_DOUBLE, 8},
                                {"int32", H5T_NATIVE_INT32, 4},
                                {"int64", H5T_NATIVE_INT64, 8}};
  for (const Type& type : kTypes) {
    if (name == type.name) return type;
  }
  throw std::runtime_error("unknown element type " + name);
}

/// Returns the narrowest of our types that holds every value of a stored type.
Type type_of(hid_t stored, const std::string& what) {
  const std::size_t size = H5Tget_size(stored);
  switch (H5Tget_class(stored)) {
    case H5T_INTEGER: {
      const bool has_sign = H5Tget_sign(stored) != H5T_SGN_NONE;
      if (size == 1 && !has_sign) return type_named("uint8");
      return type_named(size < 4 || (size == 4 && has_sign) ? "int32" : "int64");
    }
    case H5T_FLOAT: return type_named(size <= 4 ? "float32" : "float64");
    default: throw std::runtime_error(what + " does not hold numbers");
  }
}

bool same_bits(hid_t stored, const Type& type) {
  const bool order = type.bytes == 1 || H5Tget_order(stored) == H5T_ORDER_LE;
  return order && H5Tequal(stored, type.memory) > 0;
}

void write_out(const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(STDOUT_FILENO, at, size);
    if (done <= 0) _exit(3);  // the reader is gone
    at += done;
    size -= static_cast<std::size_t>(done);
  }
}

struct Dataset {
  json head;
  std::string name;
  std::vector<hsize_t> shape;
  std::string type;
  std::size_t element = 0;
};

Dataset look_at(hid_t file, const std::string& name, bool label) {
  const std::string what = "dataset \"" + name + "\"";
  require(H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0, what + " does not exist");
  const Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, what + " cannot be opened");
  const Handle space(H5Dget_space(set), H5Sclose, what + " has no shape");
  const Handle stored(H5Dget_type(set), H5Tclose, what + " has no type");
  const int rank = H5Sget_simple_extent_ndims(space);
  require(rank >= 1 && rank <= 8,
          fmt::format("{} has {} axes; expected records along the first of 1 to 8", what, rank));
  Dataset dataset{.head = {}, .name = name, .shape = std::vector<hsize_t>(static_cast<std::size_t>(rank)), .type = {}};
  require(H5Sget_simple_extent_dims(space, dataset.shape.data(), nullptr) == rank, what + " has no shape");
  const Type type = label ? type_named("float64") : type_of(stored, what);
  dataset.type = type.name;
  dataset.element = type.bytes;
  // The header may be wrong: no more is read than the stored data can unpack to.
  std::uint64_t bytes = type.bytes;
  for (const hsize_t extent : dataset.shape) {
    require(extent > 0, what + " has no numbers");
    require(!__builtin_mul_overflow(bytes, extent, &bytes) && bytes < (std::uint64_t{1} << 62),
            what + " is larger than the address space");
  }
  constexpr std::uint64_t kMostPacked = 1032;  // maximum number of bytes that deflate makes of one
  hsize_t there = 0;
  require(H5Fget_filesize(file, &there) >= 0 && bytes / kMostPacked / type.bytes <= there,
          what + " declares more values than the file can hold");
  const Handle plan(H5Dget_create_plist(set), H5Pclose, what + " has no layout");
  std::int64_t offset = -1;
  if (!label && H5Pget_layout(plan) == H5D_CONTIGUOUS && H5Pget_external_count(plan) == 0 && same_bits(stored, type)) {
    const haddr_t at = H5Dget_offset(set);
    if (at != HADDR_UNDEF) offset = static_cast<std::int64_t>(at);
  }
  dataset.head = {{"name", name}, {"type", type.name}, {"shape", dataset.shape}, {"offset", offset}};
  return dataset;
}

/// Sends the values in blocks of whole records, converted to our types.
void send(hid_t file, const Dataset& dataset) {
  const std::string what = "dataset \"" + dataset.name + "\"";
  const Handle set(H5Dopen2(file, dataset.name.c_str(), H5P_DEFAULT), H5Dclose, what + " cannot be opened");
  const Handle space(H5Dget_space(set), H5Sclose, what + " has no shape");
  std::size_t record = dataset.element;
  for (std::size_t d = 1; d < dataset.shape.size(); ++d) record *= dataset.shape[d];
  const hsize_t step = std::max<hsize_t>(1, (std::size_t{4} << 20) / record);
  std::vector<char> buffer;
  std::vector<hsize_t> start(dataset.shape.size(), 0);
  std::vector<hsize_t> count = dataset.shape;
  for (hsize_t at = 0; at < dataset.shape[0]; at += step) {
    start[0] = at;
    count[0] = std::min(step, dataset.shape[0] - at);
    buffer.resize(static_cast<std::size_t>(count[0]) * record);
    const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose, what);
    const bool done = H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
                      H5Dread(set, type_named(dataset.type).memory, memory, space, H5P_DEFAULT, buffer.data()) >= 0;
    if (!done) {
      std::fprintf(stderr, "%s: record %llu\n", what.c_str(), static_cast<unsigned long long>(at));
      _exit(4);
    }
    write_out(buffer.data(), buffer.size());
  }
}

void read_file(const std::vector<std::string>& words) {
  const Handle file(H5Fopen(words[1].c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                    "is not an HDF5 file, or is damaged");
  std::vector<Dataset> sets;
  json head = json::array();
  for (std::size_t i = 2; i < words.size(); ++i) {
    // A label dataset with '?' is optional.
    if (i == 3 && words[i].starts_with('?') && H5Lexists(file, words[i].c_str() + 1, H5P_DEFAULT) <= 0) continue;
    sets.push_back(look_at(file, words[i].starts_with('?') ? words[i].substr(1) : words[i], i == 3));
    head.push_back(sets.back().head);
  }
  const std::string line = json{{"datasets", head}}.dump() + "\n";
  write_out(line.data(), line.size());
  for (const Dataset& set : sets) {
    if (set.head["offset"] == -1) send(file, set);
  }
}

void write_file(const std::vector<std::string>& words) {
  std::string line;
  for (int letter = std::getchar(); letter != '\n'; letter = std::getchar()) {
    require(letter != EOF, "stdin ended too early");
    line += static_cast<char>(letter);
  }
  const Handle file(H5Fcreate(words[1].c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), H5Fclose, "cannot be made");
  const json head = json::parse(line);
  for (const json& one : head.at("datasets")) {
    const auto shape = one.at("shape").get<std::vector<hsize_t>>();
    const Type type = type_named(one.at("type"));
    std::size_t record = type.bytes;
    for (std::size_t d = 1; d < shape.size(); ++d) record *= shape[d];
    const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose, "no shape");
    const Handle set(H5Dcreate2(file, one.at("name").get<std::string>().c_str(), type.memory, space, H5P_DEFAULT,
                                H5P_DEFAULT, H5P_DEFAULT),
                     H5Dclose, "cannot be written");
    const hsize_t step = std::max<hsize_t>(1, (std::size_t{4} << 20) / record);
    std::vector<char> buffer;
    std::vector<hsize_t> start(shape.size(), 0);
    std::vector<hsize_t> count = shape;
    for (hsize_t at = 0; at < shape[0]; at += step) {
      start[0] = at;
      count[0] = std::min(step, shape[0] - at);
      buffer.resize(static_cast<std::size_t>(count[0]) * record);
      require(std::fread(buffer.data(), 1, buffer.size(), stdin) == buffer.size(), "stdin ended too early");
      const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose,
                          "no shape");
      require(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
                  H5Dwrite(set, type.memory, memory, space, H5P_DEFAULT, buffer.data()) >= 0,
              "cannot be written");
    }
  }
  require(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  try {
    require(words.size() >= 2, "expected read FILE DATA [LABEL], or write FILE");
    if (words[0] == "read") {
      read_file(words);
    } else {
      write_file(words);
      write_out("{}\n", 3);
    }
  } catch (const std::exception& error) {
    const std::string line = json{{"error", error.what()}}.dump() + "\n";
    write_out(line.data(), line.size());
  }
  _exit(0);  // without the library's own exit handlers, which can crash on damaged files
}
